#include "link/descriptors.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

namespace rankshim::link {

std::optional<rlimit> raise_descriptors(rlim_t needed, std::string& short_of) {
  constexpr rlim_t others = 64;  // of rankshim, and those that it inherited
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return std::nullopt;
  needed += others;
  if (limit.rlim_max < needed)
    short_of = fmt::format(
        "this node may open {} files and needs {} for the connections of all nodes; raise the hard "
        "limit (ulimit -Hn)",
        limit.rlim_max, needed);
  if (limit.rlim_cur >= needed || limit.rlim_cur >= limit.rlim_max) return std::nullopt;
  const rlimit higher{std::min(needed, limit.rlim_max), limit.rlim_max};
  return setrlimit(RLIMIT_NOFILE, &higher) == 0 ? std::optional(limit) : std::nullopt;
}

}  // namespace rankshim::link
