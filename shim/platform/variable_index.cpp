#include "platform/variable_index.h"

#include <bit>

#include "base/text.h"

namespace rankshim::platform {
namespace {

/// FNV-1a.
std::uint32_t hash(std::string_view name) {
  std::uint32_t value = 2166136261U;
  for (const char c : name) value = (value ^ static_cast<unsigned char>(c)) * 16777619U;
  return value;
}

/// Made from a few characters only, so that looking up a missing name costs next to nothing.
std::size_t mark(std::string_view name) {
  const std::size_t first = static_cast<unsigned char>(name.front());
  const std::size_t last = static_cast<unsigned char>(name.back());
  return (name.size() * 37 + first * 5 + last * 11) % 1024;
}

}  // namespace

VariableIndex::VariableIndex(const Environment& environment)
    : entries_(environment.entries()), slots_(std::bit_ceil(entries_.size() * 2 + 1)) {
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const std::string_view name = entry_name(entries_[i]);
    if (name.empty()) continue;
    marks_.set(mark(name));
    std::uint32_t& slot = slots_[slot_of(name)];
    if (slot == 0) slot = static_cast<std::uint32_t>(i + 1);  // of a name that occurs twice, the first counts
  }
}

std::size_t VariableIndex::slot_of(std::string_view name) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t slot = hash(name) & mask;
  while (slots_[slot] != 0 && !is_named(entries_[slots_[slot] - 1], name)) slot = (slot + 1) & mask;
  return slot;
}

std::optional<std::string_view> VariableIndex::get(std::string_view name) const {
  if (!users_nnodes_.empty() && name == "RANKSHIM_NNODES") return users_nnodes_;
  if (name.empty() || !marks_[mark(name)]) return std::nullopt;
  const std::uint32_t found = slots_[slot_of(name)];
  if (found == 0) return std::nullopt;
  const std::string_view value = trimmed(std::string_view(entries_[found - 1]).substr(name.size() + 1));
  return value.empty() ? std::nullopt : std::optional(value);
}

}  // namespace rankshim::platform
