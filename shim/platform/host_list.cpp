#include "platform/host_list.h"

#include <algorithm>
#include <cstdint>
#include <set>

#include "base/text.h"

namespace rankshim::platform {
namespace {

constexpr std::size_t most_hosts = 65'536;      // more than any Slurm cluster has nodes
constexpr std::size_t longest_host_name = 253;  // DNS

/// How ranges are written in a bracket: Slurm's n[01-03], or Open MPI's n[2:1-3] with the digits' number.
enum class Notation : std::uint8_t { slurm, orte };

/// Appends every host of an entry to `hosts`, each after `prefix`; false if the entry is malformed, or they
/// are too many or too long.
bool append_hosts(const std::string& prefix, std::string_view entry, Notation notation,
                  std::vector<std::string>& hosts) {
  const auto open = entry.find('[');
  const std::string base = prefix + std::string(entry.substr(0, open));
  if (base.size() > longest_host_name || base.find(']') != std::string::npos) return false;
  if (open == std::string_view::npos) {
    if (base.empty() || hosts.size() == most_hosts) return false;
    hosts.push_back(base);
    return true;
  }
  const auto close = entry.find(']', open);
  if (close == std::string_view::npos) return false;
  std::string_view ranges = entry.substr(open + 1, close - open - 1);
  std::size_t width = 0;
  if (notation == Notation::orte) {
    width = parse_number<std::size_t>(take_part(ranges, ":")).value_or(std::string::npos);
    if (width > longest_host_name) return false;
  }
  for (bool is_last = false; !is_last;) {
    is_last = ranges.find(',') == std::string_view::npos;
    std::string_view range = take_part(ranges, ",");
    if (notation == Notation::slurm) {
      width = range.substr(0, range.find('-')).size();
      if (range.ends_with('-')) range.remove_suffix(1);  // Slurm takes `1-` for 1
    }
    const auto numbers = number_range<std::uint64_t>(range);
    if (!numbers) return false;
    for (std::uint64_t number = numbers->first; number <= numbers->second; ++number) {
      std::string digits = std::to_string(number);
      if (digits.size() < width) digits.insert(0, width - digits.size(), '0');
      if (!append_hosts(base + digits, entry.substr(close + 1), notation, hosts)) return false;
    }
  }
  return true;
}

/// The end of the first entry of a host list: a separator outside brackets.
std::size_t entry_end(std::string_view list) {
  bool inside = false;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list[i] == '[') inside = true;
    if (list[i] == ']') inside = false;
    if (!inside && list_separators.find(list[i]) != std::string_view::npos) return i;
  }
  return list.size();
}

std::optional<std::vector<std::string>> expand(std::string_view list, Notation notation) {
  std::vector<std::string> hosts;
  while (!list.empty()) {
    const std::size_t end = entry_end(list);
    const std::string_view entry = list.substr(0, end);
    list.remove_prefix(std::min(end + 1, list.size()));
    if (entry.empty() && notation == Notation::slurm) continue;
    if (!append_hosts({}, entry, notation, hosts)) return std::nullopt;
  }
  if (hosts.empty()) return std::nullopt;
  return hosts;
}

}  // namespace

std::vector<std::string_view> host_list(std::string_view list) {
  std::vector<std::string_view> hosts;
  std::set<std::string_view> seen;
  for (std::size_t at = list.find_first_not_of(list_separators); at != std::string_view::npos;
       at = list.find_first_not_of(list_separators, at)) {
    if (list[at] == '#') {
      at = list.find('\n', at);
      if (at == std::string_view::npos) break;
      continue;
    }
    const std::string_view entry = list.substr(at, list.find_first_of(list_separators, at) - at);
    at += entry.size();
    if (entry.find('=') != std::string_view::npos || all_digits(entry)) continue;
    const auto [host, slots] = split_host_port(entry);
    if (host.find('[') != std::string_view::npos) return {};  // Slurm's brackets: not a list of this kind
    if (host.empty() || (!hosts.empty() && hosts.back() == host) || !seen.insert(host).second) continue;
    hosts.push_back(host);
  }
  return hosts;
}

std::optional<std::size_t> position(std::string_view host, std::string_view list) {
  const auto hosts = host_list(list);
  const auto same =
      std::find_if(hosts.begin(), hosts.end(), [&](auto other) { return same_but_case(host, other); });
  if (same != hosts.end()) return static_cast<std::size_t>(same - hosts.begin());
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    const std::string_view shorter = host.size() < hosts[i].size() ? host : hosts[i];
    const std::string_view longer = host.size() < hosts[i].size() ? hosts[i] : host;
    const bool is_full_name = longer.size() > shorter.size() && longer[shorter.size()] == '.' &&
                              same_but_case(longer.substr(0, shorter.size()), shorter);
    if (!is_full_name) continue;
    if (all_digits(shorter.substr(0, shorter.find('.'))) || found)
      return std::nullopt;  // a part of an address is no name
    found = i;
  }
  return found;
}

std::optional<std::vector<std::string>> expand_slurm(std::string_view list) {
  return expand(list, Notation::slurm);
}

std::optional<std::vector<std::string>> expand_orte(std::string_view regex) {
  return expand(regex.substr(0, regex.find('@')), Notation::orte);
}

}  // namespace rankshim::platform
