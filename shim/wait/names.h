#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

/// The names that a host may mean, before any query. Pure.
namespace rankshim::wait {

/// The used part of resolv.conf(5). Time-outs, attempts and rotation are rankshim's.
struct ResolvConf {
  std::vector<std::string> servers;  ///< as in the file, unchecked
  std::vector<std::string> search;   ///< without dots at either end; "" is the root
  unsigned ndots = 1;                ///< 15 at most, as in glibc
  bool tcp = false;                  ///< options use-vc
};

/// `host_name` provides the search domain if the file has none. An empty file means the same as a missing
/// one.
[[nodiscard]] ResolvConf read_resolv_conf(std::string_view file, std::string_view host_name);

/// The absolute names that glibc would query, in its order, without the last dot. A name with a dot at its
/// end means only itself. Empty if the name is too long for a query (253 octets, RFC 1035 §2.3.4).
[[nodiscard]] std::vector<std::string> candidates(std::string_view name, const ResolvConf& conf);

/// The index of the candidate that should be queried often: the one in which the name's end and a search
/// domain's beginning overlap (search ns.svc.cluster.local, svc.cluster.local, cluster.local: a.ns and
/// a.ns.svc are a.ns.svc.cluster.local), else the first. Only the intervals depend on this guess.
[[nodiscard]] std::size_t likeliest(std::string_view name, const ResolvConf& conf,
                                    const std::vector<std::string>& candidates);

}  // namespace rankshim::wait
