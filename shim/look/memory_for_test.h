#pragma once

#include <cstring>
#include <map>
#include <string>
#include <string_view>

#include "look/memory.h"

namespace rankshim::look {

/// A memory of a test's own making: what was not put there cannot be read, but for the rest of its pages,
/// which is zero.
class FakeMemory {
 public:
  void put(std::uint64_t address, std::string_view bytes) {
    for (const char byte : bytes) {
      pages_[address - address % Memory::page_size].at(address % Memory::page_size) = byte;
      ++address;
    }
  }
  template <class Value>
  void put_value(std::uint64_t address, const Value& value) {
    put(address, {reinterpret_cast<const char*>(&value), sizeof value});
  }
  /// A reader of it as it is at each moment.
  Memory memory() {
    return Memory([this](std::uint64_t address, Memory::Page& page) {
      const auto found = pages_.find(address);
      ++reads_;
      if (found == pages_.end()) return false;
      page = found->second;
      return true;
    });
  }
  [[nodiscard]] unsigned reads() const { return reads_; }

 private:
  std::map<std::uint64_t, Memory::Page> pages_;
  unsigned reads_ = 0;
};

}  // namespace rankshim::look
