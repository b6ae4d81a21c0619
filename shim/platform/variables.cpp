#include "platform/variables.h"

#include <bit>

namespace rankshim::platform {
namespace {

/// FNV-1a.
std::uint32_t hash(std::string_view name) {
  std::uint32_t value = 2166136261U;
  for (const char c : name) value = (value ^ static_cast<unsigned char>(c)) * 16777619U;
  return value;
}

}  // namespace

Variables::Variables(const Environment& environment)
    : entries_(environment.entries()), slots_(std::bit_ceil(entries_.size() * 2 + 1)) {
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    std::uint32_t& slot = slots_[slot_of(entry_name(entries_[i]))];
    if (slot == 0) slot = static_cast<std::uint32_t>(i + 1);  // of a name that stands twice the first counts
  }
}

std::size_t Variables::slot_of(std::string_view name) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t slot = hash(name) & mask;
  while (slots_[slot] != 0 && entry_name(entries_[slots_[slot] - 1]) != name) slot = (slot + 1) & mask;
  return slot;
}

std::optional<std::string_view> Variables::get(std::string_view name) const {
  const std::uint32_t found = slots_[slot_of(name)];
  if (found == 0 || name.empty()) return std::nullopt;
  const std::string_view value = std::string_view(entries_[found - 1]).substr(name.size() + 1);
  return value.empty() ? std::nullopt : std::optional(value);
}

}  // namespace rankshim::platform
