#pragma once

#include <boost/asio/ip/address.hpp>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Which names stand for a host, before anybody is asked. Pure: texts in, values out.
namespace rankshim::wait {

/// The address that `host` is written as: IPv4, IPv6 with or without brackets, with a scope (fe80::1%eth0) or
/// without.
[[nodiscard]] std::optional<boost::asio::ip::address> literal(std::string_view host);

/// Whether the name is `localhost` or below it: those never leave the node (RFC 6761 §6.3).
[[nodiscard]] bool is_localhost(std::string_view name);

/// All addresses that a hosts(5) file gives the name, in the file's order, each once.
[[nodiscard]] std::vector<boost::asio::ip::address> in_hosts(std::string_view file, std::string_view name);

/// What we follow of resolv.conf(5). Time-outs, attempts and rotation are our own.
struct ResolvConf {
  std::vector<std::string> servers;  ///< as written, unchecked
  std::vector<std::string> search;   ///< without dots at either end; "" is the root
  unsigned ndots = 1;                ///< 15 at most, as in glibc
  bool tcp = false;                  ///< options use-vc
};

/// `host_name` gives the search domain where the file names none. An empty file is what a missing one means.
[[nodiscard]] ResolvConf read_resolv_conf(std::string_view file, std::string_view host_name);

/// The absolute names that glibc would ask for, in its order, without the last dot. A name with a dot at its
/// end is only itself. Empty where the name is too long to be asked for (253 octets, RFC 1035 §2.3.4).
[[nodiscard]] std::vector<std::string> candidates(std::string_view name, const ResolvConf& conf);

/// Which of the candidates is worth asking for often: the one in which the name's end and a search domain's
/// beginning overlap (search ns.svc.cluster.local, svc.cluster.local, cluster.local: a.ns and a.ns.svc are
/// a.ns.svc.cluster.local), else the first. Only our pace depends on the guess.
[[nodiscard]] std::size_t likeliest(std::string_view name, const ResolvConf& conf,
                                    const std::vector<std::string>& candidates);

}  // namespace rankshim::wait
