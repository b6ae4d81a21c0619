#include "launch/network_interface.h"

#include <algorithm>

#include "base/log.h"
#include "node/hosts_file.h"

namespace rankshim {
namespace {

/// Whether peers can reach us at what our own name stands for. The kubelet and container engines write it
/// into /etc/hosts; a name that only DNS knows is treated as unknown, which costs nothing: the interface is
/// right there too.
bool own_name_is_reachable(const Node& node) {
  const std::string hosts = node.file("/etc/hosts").value_or("");
  auto addresses = addresses_in_hosts(hosts, node.host_name());
  std::erase_if(addresses, [](std::string_view address) { return !is_literal(address); });
  // What the kubelet writes for a pod is the pod's own (Kubernetes documentation, "Adding entries to Pod
  // /etc/hosts with HostAliases"); on the host network it copies the node's file, under another header.
  // Asking the kernel takes a fifth of our resolving.
  const bool own = hosts.starts_with("# Kubernetes-managed hosts file.\n");
  return !addresses.empty() && std::all_of(addresses.begin(), addresses.end(), [&](std::string_view address) {
    return !is_loopback(address) && (own || node.owns_address(address));
  });
}

}  // namespace

void set_network_interface(LaunchPlan& plan, const Topology& topology, const Settings& settings,
                           const Node& node, const std::optional<std::string>& address) {
  if (topology.alone || !topology.idle_role.empty() || topology.facts.text(Fact::nnodes) == "1") return;
  const Environment& environment = node.environment();
  const bool gloo = !environment.get("GLOO_SOCKET_IFNAME") && !own_name_is_reachable(node);
  const bool nccl = settings.flag(Option::nccl_ifname) && !environment.get("NCCL_SOCKET_IFNAME");
  if (!gloo && !nccl) return;
  const std::string master = address.value_or(std::string(topology.facts.text(Fact::master_addr)));
  // A master that is told "localhost" is reached by the others on the default route.
  const std::string interface = node.interface_towards(is_loopback(master) ? "" : master);
  if (interface.empty() || interface == "lo") return;
  log::debug("this node's interface to the other nodes is {}", interface);
  if (gloo) plan.environment.set.emplace_back("GLOO_SOCKET_IFNAME", interface);
  // "=" asks for this very name; without it NCCL takes every interface whose name begins so.
  if (nccl) plan.environment.set.emplace_back("NCCL_SOCKET_IFNAME", "=" + interface);
}

}  // namespace rankshim
