#include "run/late.h"

#include <algorithm>
#include <cstddef>

#include "base/text.h"
#include "node/environment.h"

namespace rankshim::run {
namespace {

/// The word up to its "=".
std::string_view flag_of(std::string_view word) { return word.substr(0, word.find('=')); }

}  // namespace

std::optional<std::vector<std::string>> changed_variables(const std::vector<std::string>& before,
                                                          const std::vector<std::string>& now, Names may_come,
                                                          Names may_change) {
  const auto is_one_of = [](const std::string& entry, Names names) {
    return std::ranges::any_of(names, [&](std::string_view name) { return node::is_named(entry, name); });
  };
  std::vector<std::string> more;
  for (const std::string& entry : now) {
    if (contains(before, entry)) continue;
    if (!is_one_of(entry, may_come) && !is_one_of(entry, may_change)) return std::nullopt;
    more.push_back(entry);
  }
  const auto is_kept = [&](const std::string& entry) {
    const std::string_view name = node::entry_name(entry);
    const bool is_new =
        std::ranges::any_of(more, [&](const auto& other) { return node::is_named(other, name); });
    return contains(now, entry) || (is_new && is_one_of(entry, may_change));
  };
  if (!std::ranges::all_of(before, is_kept)) return std::nullopt;
  return more;
}

std::optional<std::vector<std::string>> changed_flags(const std::vector<std::string>& before,
                                                      const std::vector<std::string>& now, Names may_change) {
  if (before.size() != now.size()) return std::nullopt;
  std::vector<std::string> changed;
  for (std::size_t at = 0; at < now.size(); ++at) {
    if (before[at] == now[at]) continue;
    const std::string_view flag = flag_of(now[at]);
    const bool may = flag.starts_with("--") && flag != now[at] && contains(may_change, flag.substr(2));
    const auto first = std::ranges::find(before, flag, flag_of);
    if (!may || first - before.begin() != static_cast<std::ptrdiff_t>(at) || *first == flag)
      return std::nullopt;
    changed.push_back(now[at]);
  }
  return changed;
}

}  // namespace rankshim::run
