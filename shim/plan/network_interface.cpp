#include "plan/network_interface.h"

#include <algorithm>

#include "base/log.h"
#include "node/addresses.h"

namespace rankshim {
namespace {

/// Whether peers can reach this node at the address of its name. The kubelet and container engines write the
/// name into /etc/hosts. A name that only DNS knows counts as unreachable, which costs nothing: setting the
/// interface is right for it too.
bool own_name_is_reachable(const Node& node) {
  const std::string hosts = node.file("/etc/hosts").value_or("");
  auto addresses = addresses_in_hosts(hosts, node.host_name());
  std::erase_if(addresses, [](std::string_view address) { return !is_literal(address); });
  // In a file from the kubelet, the pod's address is the pod's (Kubernetes documentation, "Adding entries to
  // Pod /etc/hosts with HostAliases"); on the host network the kubelet copies the node's file, with another
  // header. A check by the kernel (socket, bind and close) would take 8 µs.
  const bool own = hosts.starts_with("# Kubernetes-managed hosts file.\n");
  return !addresses.empty() && std::all_of(addresses.begin(), addresses.end(), [&](std::string_view address) {
    return !is_loopback(address) && (own || node.owns_address(address));
  });
}

}  // namespace

Variables network_interface(const Topology& topology, const Node& node,
                            const std::optional<std::string>& address) {
  if (topology.is_alone() || topology.is<Idle>() || topology.nodes() == 1U) return {};
  const Environment& environment = node.environment();
  if (environment.get("GLOO_SOCKET_IFNAME") || own_name_is_reachable(node)) return {};
  const std::string master = address.value_or(std::string(topology.facts.text(Fact::master_addr)));
  // If this node has "localhost" as its master, the other nodes reach it by the default route.
  const std::string interface = node.interface_towards(is_loopback(master) ? "" : master);
  if (interface.empty() || interface == "lo") return {};
  log::debug("this node's interface to the other nodes is {}", interface);
  return {{"GLOO_SOCKET_IFNAME", interface}};
}

}  // namespace rankshim
