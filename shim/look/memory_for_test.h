#pragma once

#include <cstring>
#include <map>
#include <string>
#include <string_view>

#include "look/memory.h"

namespace rankshim::look {

/// A memory that a test fills in. Only pages that contain what was put there can be read; the rest of such a
/// page is zero.
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
  /// A reader of this memory, which sees later changes.
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
