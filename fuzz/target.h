#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "supervise/kernel.h"

/// What every target needs. All are in one program, for linking takes longer than compiling; the variable
/// FUZZ names the one that libFuzzer gives its inputs to, as in Bitcoin Core.
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
inline void check(bool holds) {
  if (!holds) std::abort();
}

using Target = int (*)(const std::uint8_t* data, std::size_t size);

/// Makes the function the program's target if FUZZ names it so.
bool offer(std::string_view name, Target target);

}  // namespace rankshim::fuzz

/// Defines a target: the function's body follows.
#define FUZZ_TARGET(name)                                                                           \
  static int fuzz_##name(const std::uint8_t* data, std::size_t size);                               \
  [[maybe_unused]] static const bool name##_is_offered = rankshim::fuzz::offer(#name, fuzz_##name); \
  static int fuzz_##name([[maybe_unused]] const std::uint8_t* data, [[maybe_unused]] std::size_t size)
