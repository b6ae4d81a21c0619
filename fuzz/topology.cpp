/// Any environment, variables separated by newlines: what comes of it is a topology or faults.

#include "topology/topology.h"

#include "node/fake_host_for_test.h"
#include "platform/recognise.h"
#include "target.h"

FUZZ_TARGET(topology) {
  using namespace rankshim;
  constexpr std::size_t most_variables = 64;
  const node::FakeHost host(fuzz::split(fuzz::text_of(data, size), '\n', most_variables));
  const auto read = settings::read_settings({"x"}, host);
  const auto* invocation = std::get_if<settings::Invocation>(&read);
  if (invocation == nullptr) return 0;
  const auto profiles = platform::builtin_profiles();
  const auto platform =
      platform::recognise(profiles, invocation->settings.text(settings::Option::platform), host);
  const auto* known = std::get_if<platform::Platform>(&platform);
  if (known == nullptr) return 0;
  const auto resolved = topology::resolve_topology(invocation->settings, *known, host);
  if (const auto* faults = std::get_if<Faults>(&resolved)) {
    fuzz::check(!faults->empty());
    return 0;
  }
  const auto& topology = std::get<topology::Topology>(resolved);
  if (topology.is<topology::ElasticNode>() || topology.is<topology::Idle>()) return 0;
  if (const auto* one = topology.as<topology::StaticNode>()) fuzz::check(one->rank < one->nodes);
  if (const auto* process = topology.as<topology::CreatedProcess>())
    fuzz::check(process->rank < process->world_size);
  fuzz::check(topology.facts.has(Fact::master_port) && topology.facts.has(Fact::master_addr));
  return 0;
}
