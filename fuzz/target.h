#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "supervise/kernel.h"

/// What every target needs: libFuzzer calls LLVMFuzzerTestOneInput with one input after the other.
namespace rankshim::fuzz {

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// Cuts at each `mark`; at most `most` parts, the last one holds the rest.
inline std::vector<std::string> split(std::string_view text, char mark, std::size_t most) {
  std::vector<std::string> parts;
  while (parts.size() + 1 < most && text.find(mark) != std::string_view::npos) {
    parts.emplace_back(text.substr(0, text.find(mark)));
    text.remove_prefix(text.find(mark) + 1);
  }
  parts.emplace_back(text);
  return parts;
}

/// A property that must hold.
inline void must(bool holds) {
  if (!holds) std::abort();
}

}  // namespace rankshim::fuzz

/// Before main all signals were blocked, as in the program; libFuzzer's own bounds come by signals.
extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  rankshim::supervise::kernel::set_signal_mask(0, nullptr);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
