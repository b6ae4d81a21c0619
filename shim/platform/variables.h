#pragma once

#include <bitset>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "node/environment.h"

namespace rankshim::platform {

/// An index over an environment. Recognising asks for some hundred names, and a pod can have a thousand
/// variables: a search through all of them for each name would show in the time of a start. Of our own, for
/// of a pod's 60 variables std::unordered_map makes and asks an index for 370 names in 17 µs, and this in 11
/// (-Os): most of the names are not there, which a few of their characters tell.
class Variables {
 public:
  /// Views into `environment`, which has to outlive it and stay as it is.
  explicit Variables(const Environment& environment);

  /// As Environment::get.
  [[nodiscard]] std::optional<std::string_view> get(std::string_view name) const;

 private:
  [[nodiscard]] std::size_t slot_of(std::string_view name) const;

  const std::vector<std::string>& entries_;
  std::bitset<1024>
      marks_;  // of the names that are there: most that are asked for are not, and few hash alike
  std::vector<std::uint32_t> slots_;  // open addressing; the entry's index + 1, 0 where the slot is free
};

}  // namespace rankshim::platform
