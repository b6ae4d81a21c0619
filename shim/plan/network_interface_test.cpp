#include "plan/launch.h"

#include <catch2/catch.hpp>

#include "node/fake_host_for_test.h"

namespace rankshim::plan {
namespace {

node::Variables named(std::vector<std::string> variables, const std::string& hosts,
                      const std::string& master) {
  node::FakeHost host(std::move(variables));  // its name is fake-host
  host.files["/etc/hosts"] = hosts;
  host.own_addresses = {"127.0.0.1", "::1", "10.0.0.7", "fd00::7", "172.17.0.1"};
  host.interfaces = {{"172.17.0.1", "docker0"}};
  topology::Topology topology;
  topology.part = topology::StaticNode{};
  return network_interface(topology, host, master);
}

TEST_CASE("gloo gets the interface if peers could not reach this node by its name") {
  const node::Variables gloo = {{"GLOO_SOCKET_IFNAME", "eth0"}};
  CHECK(named({}, "", "10.0.0.1") == gloo);
  CHECK(named({}, "127.0.1.1 fake-host\n", "10.0.0.1") == gloo);
  CHECK(named({}, "10.0.0.7 fake-host\n::1 fake-host\n", "10.0.0.1") == gloo);
  CHECK(named({}, "10.9.9.9 fake-host\n", "10.0.0.1") == gloo);  // left from another life
  CHECK(named({}, "", "127.0.0.1") == gloo);                     // the master has "localhost"
  CHECK(named({}, "172.17.0.1 fake-host\n", "10.0.0.1") == gloo);
  CHECK(named({}, "172.17.0.1 fake-host\n", "10.0.0.7") == gloo);  // on the master itself
  CHECK(named({}, "172.17.0.1 fake-host\n", "127.0.0.1") == gloo);
  CHECK(named({}, "10.0.0.7 fake-host\n172.17.0.1 fake-host\n", "10.0.0.1") == gloo);
  CHECK(named({"GLOO_SOCKET_IFNAME=docker0"}, "172.17.0.1 fake-host\n", "10.0.0.1").empty());
  CHECK(named({}, "10.0.0.7 fake-host\n", "10.0.0.1").empty());
  CHECK(named({}, "fd00::7 fake-host.x fake-host\n", "fd00::1").empty());
  CHECK(named({"GLOO_SOCKET_IFNAME=ib0"}, "", "10.0.0.1").empty());
}

TEST_CASE(
    "the pod's address in the kubelet's hosts file is the own one; on the host network it need not be") {
  const std::string pod = "# Kubernetes-managed hosts file.\n";
  const std::string host = "# Kubernetes-managed hosts file (host network).\n";
  CHECK(named({}, pod + "10.9.9.9 fake-host\n", "10.0.0.1").empty());
  CHECK_FALSE(named({}, pod + "127.0.0.1 fake-host\n", "10.0.0.1").empty());
  CHECK_FALSE(named({}, host + "10.9.9.9 fake-host\n", "10.0.0.1").empty());
}

}  // namespace
}  // namespace rankshim::plan
