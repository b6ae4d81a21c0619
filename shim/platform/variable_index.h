#pragma once

#include <bitset>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "node/environment.h"

namespace rankshim::platform {

/// An index over an environment. Recognising a platform looks up some hundred names, and a pod can have a
/// thousand variables: a linear search for each name would be noticeable in the start time. It is not
/// std::unordered_map, because with a pod's 60 variables that takes 17 µs to build and to look up 370 names,
/// and this takes 11 (-Os): most of the names are missing, which a few of their characters show.
class VariableIndex {
 public:
  /// Views into `environment`, which must outlive this and stay unchanged.
  explicit VariableIndex(const Environment& environment);

  /// The user's number of nodes, wherever it is set, is RANKSHIM_NNODES to the profiles. The text must
  /// outlive this.
  void set_users_nnodes(std::string_view nnodes) { users_nnodes_ = nnodes; }

  /// As Environment::get.
  [[nodiscard]] std::optional<std::string_view> get(std::string_view name) const;

 private:
  [[nodiscard]] std::size_t slot_of(std::string_view name) const;

  const std::vector<std::string>& entries_;
  std::bitset<1024> marks_;  // of the names that exist: most names that are looked up are missing, and few
                             // have the same mark
  std::string_view users_nnodes_;
  std::vector<std::uint32_t> slots_;  // open addressing; the entry's index + 1, 0 where the slot is free
};

}  // namespace rankshim::platform
