#include "plan/environment_change.h"

#include <algorithm>
#include <initializer_list>
#include <map>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/log.h"
#include "base/text.h"
#include "node/addresses.h"

namespace rankshim {
namespace {

using FactNames = std::initializer_list<std::pair<std::string_view, Fact>>;

/// A node's variables; with PET_ before them they are torchrun's (torch/distributed/argparse_util.py).
constexpr FactNames of_node = {{"NNODES", Fact::nnodes},
                               {"NODE_RANK", Fact::node_rank},
                               {"NPROC_PER_NODE", Fact::nproc_per_node},
                               {"MASTER_ADDR", Fact::master_addr},
                               {"MASTER_PORT", Fact::master_port}};
/// torch's variables for a process that exists already.
constexpr FactNames of_process = {{"RANK", Fact::rank},
                                  {"WORLD_SIZE", Fact::world_size},
                                  {"LOCAL_RANK", Fact::local_rank},
                                  {"LOCAL_WORLD_SIZE", Fact::local_world_size},
                                  {"MASTER_ADDR", Fact::master_addr},
                                  {"MASTER_PORT", Fact::master_port}};

void set_known(EnvironmentChange& change, const Facts& facts, std::string_view name, Fact fact) {
  if (facts.has(fact)) change.set.emplace_back(name, facts.text(fact));
}

void set_known(EnvironmentChange& change, const Facts& facts, FactNames names) {
  for (const auto& [name, fact] : names) set_known(change, facts, name, fact);
}

/// Sets what scripts for elastic jobs read, because NNODES is no number in such a job (LLaMA-Factory,
/// launcher.py).
void set_elastic(EnvironmentChange& change, const Facts& facts) {
  const auto [min, max] = min_and_max(facts.text(Fact::nnodes));
  change.set.emplace_back("MIN_NNODES", min);
  change.set.emplace_back("MAX_NNODES", max);
  set_known(change, facts, "RDZV_ID", Fact::rdzv_id);
}

void set_node(EnvironmentChange& change, const Topology& topology, const Node& node) {
  const Facts& facts = topology.facts;
  set_known(change, facts, of_node);
  const Environment& environment = node.environment();
  if (topology.is<ElasticNode>()) set_elastic(change, facts);
  const auto* lone = topology.as<LoneNode>();
  if (lone != nullptr && lone->by_user && (environment.get("RANK") || environment.get("WORLD_SIZE"))) {
    // The platform's are those of a job of several nodes, which env:// would wait for.
    const bool one = facts.text(Fact::nproc_per_node) == "1";
    for (const auto& [name, value] : {std::pair("RANK", "0"), std::pair("WORLD_SIZE", "1")})
      one ? void(change.set.emplace_back(name, value)) : void(change.unset.emplace_back(name));
  }
  if (lone != nullptr) return;
  // OpenMMLab's scripts read PORT as the master's port; other programs read it as their web server's port.
  if (!environment.get("PORT")) set_known(change, facts, "PORT", Fact::master_port);
  // A node with one worker is that worker's env:// process; the platform's RANK and WORLD_SIZE stay.
  if (!topology.is<ElasticNode>() && facts.text(Fact::nproc_per_node) == "1" && !environment.get("RANK") &&
      !environment.get("WORLD_SIZE")) {
    set_known(change, facts, "RANK", Fact::node_rank);
    set_known(change, facts, "WORLD_SIZE", Fact::nnodes);
  }
}

bool sets(const EnvironmentChange& change, std::string_view name) {
  return std::ranges::any_of(change.set, [&](const auto& one) { return one.first == name; });
}

/// What was read without the blanks and line ends around it (RANK=1\r of a file from Windows), the command
/// gets so too.
void set_trimmed(EnvironmentChange& change, const Facts& facts, const Environment& environment) {
  std::vector<std::string> read = {"RANK",      "WORLD_SIZE",     "LOCAL_RANK",  "LOCAL_WORLD_SIZE", "NNODES",
                                   "NODE_RANK", "NPROC_PER_NODE", "MASTER_ADDR", "MASTER_PORT"};
  for (const Fact fact : all_facts)
    if (facts.has(fact)) facts[fact]->append_inputs(name(fact), read);
  for (const std::string& entry : environment.entries()) {
    const std::string_view name = entry_name(entry);
    const std::string_view value = std::string_view(entry).substr(name.size() + (name.empty() ? 0 : 1));
    const std::string_view plain = trimmed(value);
    if (plain == value || plain.empty()) continue;
    const bool is_read = name.starts_with("PET_") || std::find(read.begin(), read.end(), name) != read.end();
    if (is_read && !sets(change, name)) change.set.emplace_back(name, plain);
  }
}

/// Makes the platform's PET_* agree with rankshim's facts; torchrun fails on empty ones (int('')).
void set_pet(EnvironmentChange& change, const Topology& topology, bool add, const Environment& environment) {
  for (const auto& [plain, fact] : of_node)
    if (const std::string name = "PET_" + std::string(plain); add || environment.get(name))
      set_known(change, topology.facts, name, fact);
  std::unordered_set<std::string_view> names;
  for (const std::string& entry : environment.entries()) {
    const std::string_view name = entry_name(entry);
    if (!name.starts_with("PET_") || !names.insert(name).second) continue;  // the first of a name counts
    const bool is_empty = trimmed(std::string_view(entry).substr(name.size() + 1)).empty();
    if (is_empty && !sets(change, name)) change.unset.emplace_back(name);
  }
}

/// Whether peers can reach this node at the address of its name. The kubelet and container engines write the
/// name into /etc/hosts. A name that only DNS knows counts as unreachable, which costs nothing: setting the
/// interface is right for it too.
bool own_name_is_reachable(const Node& node) {
  const std::string hosts = node.file("/etc/hosts").value_or("");
  const auto addresses = addresses_in_hosts(hosts, node.host_name());
  // In a file from the kubelet, the pod's address is the pod's (Kubernetes documentation, "Adding entries to
  // Pod /etc/hosts with HostAliases"); on the host network the kubelet copies the node's file, with another
  // header. A check by the kernel (socket, bind and close) would take 8 µs.
  const bool own = hosts.starts_with("# Kubernetes-managed hosts file.\n");
  return !addresses.empty() && std::ranges::all_of(addresses, [&](const auto& address) {
    return !unmapped(address).is_loopback() && (own || node.owns_address(address.to_string()));
  });
}

}  // namespace

void EnvironmentChange::replace(std::string name, std::string value) {
  std::erase_if(set, [&](const auto& entry) { return entry.first == name; });
  std::erase(unset, name);
  set.emplace_back(std::move(name), std::move(value));
}

void EnvironmentChange::remove(const std::string& name, const Environment& environment) {
  std::erase_if(set, [&](const auto& entry) { return entry.first == name; });
  if (environment.has(name) && std::ranges::find(unset, name) == unset.end()) unset.push_back(name);
}

Environment EnvironmentChange::apply(const Environment& environment) const {
  std::map<std::string_view, const std::string*> values;  // null: is removed
  for (const std::string& name : unset) values[name] = nullptr;
  for (const auto& [name, value] : set) values[name] = &value;
  std::vector<std::string> entries;
  entries.reserve(environment.entries().size() + set.size());
  for (const std::string& entry : environment.entries())
    if (!values.contains(entry_name(entry))) entries.push_back(entry);
  for (const auto& [name, value] : values)
    if (value != nullptr) entries.push_back(std::string(name).append("=").append(*value));
  return Environment(std::move(entries));
}

EnvironmentChange environment_change(const Topology& topology, const Node& node, bool with_pet) {
  EnvironmentChange change;
  if (topology.is<Idle>()) return change;
  if (topology.is<CreatedProcess>())
    set_known(change, topology.facts, of_process);
  else
    set_node(change, topology, node);
  set_pet(change, topology, with_pet, node.environment());
  set_trimmed(change, topology.facts, node.environment());
  return change;
}

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
