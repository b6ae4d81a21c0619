#include "platform/host_list.h"

#include <algorithm>
#include <set>

#include "base/text.h"

namespace rankshim::platform {

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

}  // namespace rankshim::platform
