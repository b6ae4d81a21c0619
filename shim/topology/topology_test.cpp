#include "topology/topology.h"

#include <catch2/catch.hpp>

#include "node/fake_host_for_test.h"
#include "topology/resolve_for_test.h"

namespace rankshim::topology {
namespace {

using node::FakeHost;

Topology resolved(const node::Host& host, std::vector<std::string> options = {}) {
  auto result = resolve(host, std::move(options));
  if (const auto* faults = std::get_if<Faults>(&result)) FAIL(to_line(faults->front()));
  return std::get<Topology>(result);
}

TEST_CASE("a node without any variables is alone at 127.0.0.1:29500, or the next free port") {
  FakeHost host({});
  auto topology = resolved(host);
  CHECK(topology.platform.name() == "single-node");
  CHECK(topology.is_alone());
  CHECK(topology.facts.text(Fact::nnodes) == "1");
  CHECK(topology.facts.text(Fact::node_rank) == "0");
  CHECK(topology.facts.text(Fact::nproc_per_node) == "1");
  CHECK(topology.facts.text(Fact::master_addr) == "127.0.0.1");
  CHECK(topology.facts.text(Fact::master_port) == "29500");
  CHECK(topology.facts[Fact::master_port]->source() == "default");
  host.taken_ports = {29500, 29501};
  CHECK(resolved(host).facts.text(Fact::master_port) == "29502");
}

TEST_CASE("generic variables give nodes, their source and the host") {
  const FakeHost host({"NNODES=3", "NODE_RANK=1", "NPROC_PER_NODE=8", "MASTER_ADDR=m", "MASTER_PORT=1234"});
  const auto topology = resolved(host);
  CHECK(topology.platform.name() == "generic");
  CHECK(topology.facts[Fact::nnodes]->source() == "env NNODES");
  CHECK(topology.facts.text(Fact::node_rank) == "1");
  CHECK(topology.facts.text(Fact::nproc_per_node) == "8");
  CHECK(topology.facts.text(Fact::run_id) == "rankshim");
  CHECK(topology.facts[Fact::run_id]->source() == "default");
  CHECK(topology.hosts_master() == false);
  CHECK_FALSE(topology.is_alone());
}

TEST_CASE(
    "numbers lose their leading zeros and an address its brackets: programs would take them otherwise") {
  const FakeHost host({"NNODES=012", "NODE_RANK=08", "MASTER_ADDR=[fd00::1]", "MASTER_PORT=029500"});
  const auto topology = resolved(host);
  CHECK(topology.facts.text(Fact::nnodes) == "12");
  CHECK(topology.facts.text(Fact::node_rank) == "8");
  CHECK(topology.facts.text(Fact::master_addr) == "fd00::1");
  CHECK(topology.facts.text(Fact::master_port) == "29500");
}

TEST_CASE("blanks and ends of lines around a value do not count, and a message shows what is odd in one") {
  const auto topology =
      resolved(FakeHost({"WORLD_SIZE=3\n", "RANK= 1 ", "MASTER_ADDR=m\r\n", "MASTER_PORT=\t1234"}));
  CHECK(topology.facts.text(Fact::nnodes) == "3");
  CHECK(topology.facts.text(Fact::node_rank) == "1");
  CHECK(topology.facts.text(Fact::master_addr) == "m");
  CHECK(topology.facts.text(Fact::master_port) == "1234");
  CHECK(resolved(FakeHost({"RANKSHIM_NNODES=2 ", "NODE_RANK=1", "MASTER_ADDR=m"})).facts.text(Fact::nnodes) ==
        "2");

  const auto outcome = resolve(FakeHost({"NNODES=2\n3 \x1b[2J", "NODE_RANK=1", "MASTER_ADDR=m"}));
  REQUIRE(std::holds_alternative<Faults>(outcome));
  CHECK_THAT(std::get<Faults>(outcome).front().what, Catch::Contains("NNODES=$'2\\n3 \\x1b[2J' is not"));
}

TEST_CASE("an elastic job's port loses its leading zeros, and an address its brackets but in the endpoint") {
  const FakeHost host({"PET_NNODES=2:3", "PET_RDZV_BACKEND=c10d", "PET_RDZV_ENDPOINT=[fe80::1%eth0]:029400"});
  const auto topology = resolved(host);
  CHECK(topology.facts.text(Fact::master_addr) == "fe80::1%eth0");
  CHECK(topology.facts.text(Fact::master_port) == "29400");
  CHECK(topology.facts.text(Fact::rdzv_endpoint) == "[fe80::1%eth0]:29400");
}

TEST_CASE("WORLD_SIZE beside NODE_RANK is asked about only where it would count") {
  const std::vector<std::pair<std::vector<std::string>, std::string>> rows = {
      {{"NNODES=2:4", "NODE_RANK=0", "WORLD_SIZE=4", "MASTER_ADDR=m"}, "2:4"},
      {{"NODE_RANK=1", "WORLD_SIZE=3", "NPROC_PER_NODE=1", "MASTER_ADDR=m"}, "3"},
      {{"RANKSHIM_RANK_UNIT=node", "NODE_RANK=1", "WORLD_SIZE=3", "MASTER_ADDR=m"}, "3"},
      {{"RANKSHIM_NODE_RANK=1", "RANK=1", "WORLD_SIZE=3", "MASTER_ADDR=m"}, "3"},
  };
  for (const auto& [variables, nnodes] : rows) {
    INFO(variables.front());
    CHECK(resolved(FakeHost(variables)).facts.text(Fact::nnodes) == nnodes);
  }
}

TEST_CASE("an address that is this machine itself by way of IPv6 is one") {
  CHECK(is_loopback("::ffff:127.0.0.1"));
  CHECK_FALSE(is_loopback("::ffff:10.0.0.1"));
}

TEST_CASE("RANK and WORLD_SIZE without a sign of processes count nodes") {
  const FakeHost host({"RANK=2", "WORLD_SIZE=3", "MASTER_ADDR=m", "MASTER_PORT=1"});
  const auto topology = resolved(host);
  CHECK(topology.facts.text(Fact::nnodes) == "3");
  CHECK(topology.facts[Fact::nnodes]->source() == "env WORLD_SIZE");
  CHECK(topology.facts.text(Fact::node_rank) == "2");
  CHECK(topology.facts[Fact::node_rank]->source() == "env RANK");
}

TEST_CASE("variables that count processes are recognised if possible, and otherwise settled by --rank-unit") {
  const std::vector<std::string> processes = {"RANK=8", "WORLD_SIZE=16", "NPROC_PER_NODE=8", "MASTER_ADDR=m"};
  const FakeHost host(processes);
  CHECK(resolved(host).facts.text(Fact::nnodes) == "16");
  CHECK(resolved(host, {"--rank-unit=process"}).facts.text(Fact::nnodes) == "2");
  CHECK(resolved(host, {"--rank-unit=process"}).facts.text(Fact::node_rank) == "1");

  const FakeHost known(
      {"RANK=1", "WORLD_SIZE=16", "NNODES=2", "NODE_RANK=1", "NPROC_PER_NODE=8", "MASTER_ADDR=m"});
  CHECK(resolved(known).facts.text(Fact::nnodes) == "2");

  const FakeHost first({"RANK=0", "WORLD_SIZE=16", "NNODES=2", "MASTER_ADDR=m"});
  CHECK(resolved(first).facts.text(Fact::node_rank) == "0");

  const FakeHost worker({"RANK=9", "WORLD_SIZE=16", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=8", "MASTER_ADDR=m"});
  const auto topology = resolved(worker, {"--rank-unit=process"});
  CHECK(topology.is<CreatedProcess>());
  CHECK(topology.facts.text(Fact::rank) == "9");
  CHECK(topology.facts.text(Fact::nnodes) == "2");
}

TEST_CASE(
    "what is incomplete or contradictory is refused, names its variables and ends with what settles it") {
  struct Row {
    std::vector<std::string> variables;
    std::vector<std::string> names;
    std::string says;
    std::string settles;
  };
  const std::vector<Row> rows = {
      {{"WORLD_SIZE=3"}, {"WORLD_SIZE", "NODE_RANK", "RANK"}, "WORLD_SIZE=3", "--node-rank"},
      {{"NNODES=2", "MASTER_ADDR=m"}, {"NNODES", "NODE_RANK", "RANK"}, "NNODES=2", "--node-rank"},
      {{"NNODES=2", "NODE_RANK=0"},
       {"NNODES", "MASTER_ADDR"},
       "the master's address is unknown",
       "--master-addr"},
      {{"NODE_RANK=1"},
       {"NODE_RANK", "NNODES", "WORLD_SIZE"},
       "NODE_RANK=1 shows that there are other nodes",
       "--nnodes"},
      {{"RANK=0"}, {"RANK", "NNODES", "WORLD_SIZE"}, "RANK=0 is this node's rank, but", "--nnodes"},
      {{"MASTER_ADDR=10.0.0.5"}, {"MASTER_ADDR", "NNODES", "WORLD_SIZE"}, "but not how many", "--nnodes"},
      {{"NNODES=2", "NODE_RANK=2", "MASTER_ADDR=m"},
       {"NODE_RANK", "NNODES"},
       "NODE_RANK=2 is not below NNODES=2",
       "--node-rank"},
      {{"NNODES=1", "NODE_RANK=1"}, {"NODE_RANK", "NNODES"}, "is not below NNODES=1", "--node-rank"},
      {{"NODE_RANK=1", "WORLD_SIZE=16", "MASTER_ADDR=m"},
       {"NODE_RANK", "WORLD_SIZE"},
       "count nodes or processes: NODE_RANK=1, WORLD_SIZE=16",
       "--rank-unit"},
      {{"NNODES=2", "NODE_RANK=1", "MASTER_ADDR=[]"},
       {"MASTER_ADDR"},
       "neither a host name nor an address",
       "--master-addr"},
      {{"NNODES=2:4", "MASTER_ADDR=m:2222"},
       {"MASTER_ADDR"},
       "neither a host name nor an address",
       "--master-addr"},
      {{"NNODES=2", "NODE_RANK=1", "MASTER_ADDR=$(POD_IP)"},
       {"MASTER_ADDR"},
       "MASTER_ADDR='$(POD_IP)' is neither a host name nor an address",
       "--master-addr"},
      {{"NNODES=2", "NODE_RANK=1", "MASTER_ADDR=m:2222", "MASTER_PORT=1"},
       {"MASTER_ADDR"},
       "is neither a host name nor an address",
       "--master-addr"},
      {{"PET_NNODES=2:3", "PET_RDZV_BACKEND=c10d", "PET_RDZV_ENDPOINT=m:65536"},
       {"PET_RDZV_ENDPOINT"},
       "PET_RDZV_ENDPOINT=m:65536 does not name a host",
       "--rdzv-endpoint"},
      {{"PET_NNODES=2:3", "PET_RDZV_BACKEND=c10d", "PET_RDZV_ENDPOINT=m1:1,m2:2"},
       {"PET_RDZV_ENDPOINT"},
       "does not name a host",
       "--rdzv-endpoint"},
      {{"NNODES=x"}, {"NNODES"}, "NNODES=x is not a number of nodes", "--nnodes"},
      {{"NNODES=0"}, {"NNODES"}, "NNODES=0 is not a number of nodes", "--nnodes"},
      {{"NNODES=3:2", "MASTER_ADDR=m"}, {"NNODES"}, "MIN above MAX", "--nnodes"},
      {{"NNODES=2", "NODE_RANK=x", "MASTER_ADDR=m"},
       {"NODE_RANK", "NNODES"},
       "NODE_RANK=x is not a number",
       "--node-rank"},
      {{"NNODES=2", "NODE_RANK=0", "MASTER_ADDR=m", "MASTER_PORT=0"},
       {"MASTER_PORT"},
       "is not a port",
       "--master-port"},
      {{"NNODES=2", "NODE_RANK=0", "MASTER_ADDR=m", "MASTER_PORT=65536"},
       {"MASTER_PORT"},
       "is not a port",
       "--master-port"},
      {{"NNODES=2", "NODE_RANK=1", "MASTER_ADDR=localhost"},
       {"MASTER_ADDR"},
       "this node itself",
       "--master-addr"},
      {{"NPROC_PER_NODE=gpu"}, {"NPROC_PER_NODE"}, "no visible accelerator", "--nproc-per-node"},
      {{"NPROC_PER_NODE=many"}, {"NPROC_PER_NODE"}, "is not a number of workers", "--nproc-per-node"},
      {{"NNODES=2", "NODE_RANK=0", "WORLD_SIZE=2", "RANK=1", "MASTER_ADDR=m"},
       {"NODE_RANK", "RANK"},
       "NODE_RANK=0 contradicts RANK=1",
       "--node-rank"},
      {{"NNODES=2", "WORLD_SIZE=3", "RANK=0", "MASTER_ADDR=m"},
       {"NNODES", "WORLD_SIZE"},
       "NNODES=2 contradicts WORLD_SIZE=3",
       "--nnodes"},
      {{"RANK=1", "WORLD_SIZE=16", "LOCAL_WORLD_SIZE=8", "MASTER_ADDR=m"},
       {"RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"},
       "count nodes or processes",
       "--rank-unit"},
      {{"PET_NNODES=3:1", "PET_NODE_RANK=1", "PET_MASTER_ADDR=m", "RANK=1", "WORLD_SIZE=3"},
       {"PET_NNODES"},
       "MIN above MAX",
       "--nnodes"},
      {{"PET_NNODES=all", "PET_NODE_RANK=1", "PET_MASTER_ADDR=m", "RANK=1", "WORLD_SIZE=3"},
       {"PET_NNODES"},
       "is not a number of nodes",
       "--nnodes"},
      {{"NNODES=3", "NODE_RANK=x", "MASTER_ADDR=m", "RANK=1", "WORLD_SIZE=3"},
       {"NODE_RANK", "NNODES"},
       "NODE_RANK=x is not a number",
       "--node-rank"},
      {{"PET_NODE_RANK=1", "RANK=1", "WORLD_SIZE=24", "PET_NPROC_PER_NODE=8", "MASTER_ADDR=m",
        "MASTER_PORT=1"},
       {"PET_NODE_RANK", "MASTER_ADDR", "PET_NNODES", "WORLD_SIZE", "NNODES"},
       "but not how many",
       "--nnodes"},
      {{"PET_NNODES=1:3", "PET_RDZV_BACKEND=c10d"},
       {"PET_NNODES", "PET_RDZV_ENDPOINT", "PET_MASTER_ADDR", "MASTER_ADDR"},
       "rendezvous endpoint is unknown",
       "--rdzv-endpoint"},
      {{"PET_NNODES=3", "PET_NODE_RANK=1", "PET_MASTER_ADDR=m", "NNODES=2"},
       {"PET_NNODES", "NNODES"},
       "PET_NNODES=3 contradicts NNODES=2",
       "--nnodes"},
      {{"PET_NNODES=3", "PET_NODE_RANK=1", "PET_MASTER_ADDR=m", "MASTER_ADDR=n"},
       {"PET_MASTER_ADDR", "MASTER_ADDR"},
       "PET_MASTER_ADDR=m contradicts MASTER_ADDR=n",
       "--master-addr"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.variables);
    const FakeHost host(row.variables);
    auto result = resolve(host);
    REQUIRE(std::holds_alternative<Faults>(result));
    const Fault& fault = std::get<Faults>(result).front();
    CHECK(fault.names == row.names);
    CHECK_THAT(fault.what, Catch::Contains(row.says));
    CHECK_THAT(fault.fix, Catch::Contains(row.settles));
    CHECK(fault.fix.find("none") == std::string::npos);  // where this node would train alone
  }
}

TEST_CASE("RANK and WORLD_SIZE change nothing if the platform has its own variables for the nodes") {
  const FakeHost elastic({"PET_NNODES=2:3", "PET_NODE_RANK=1", "PET_MASTER_ADDR=m", "PET_RDZV_BACKEND=c10d",
                          "PET_RDZV_ENDPOINT=m:1", "RANK=1", "WORLD_SIZE=3"});
  CHECK(resolved(elastic).facts.text(Fact::nnodes) == "2:3");
  const FakeHost processes(
      {"PET_NNODES=2", "PET_NODE_RANK=1", "PET_MASTER_ADDR=m", "RANK=1", "WORLD_SIZE=17"});
  CHECK(resolved(processes).facts.text(Fact::nnodes) == "2");
}

TEST_CASE("what the user sets wins over everything") {
  const FakeHost host({"PET_NNODES=3", "PET_NODE_RANK=1", "PET_MASTER_ADDR=m", "PET_MASTER_PORT=1",
                       "NNODES=2", "RANKSHIM_MASTER_ADDR=other"});
  const auto topology = resolved(host, {"--nnodes=4", "--node-rank=3"});
  CHECK(topology.facts.text(Fact::nnodes) == "4");
  CHECK(topology.facts[Fact::nnodes]->source() == "option --nnodes");
  CHECK(topology.facts.text(Fact::node_rank) == "3");
  CHECK(topology.facts.text(Fact::master_addr) == "other");
  CHECK(topology.facts[Fact::master_addr]->source() == "env RANKSHIM_MASTER_ADDR");
}

TEST_CASE("two spellings of one address are no contradiction") {
  CHECK(same_host("job-master-0", "job-master-0.ns.svc.cluster.local."));
  CHECK(same_host("[FD00::1]", "fd00:0::1"));
  CHECK(same_host("Master", "master."));
  CHECK_FALSE(same_host("job-master-0", "job-master-01"));
  CHECK_FALSE(same_host("10.0.0.1", "10.0.0.1.example"));
  const FakeHost host({"PET_NNODES=2", "PET_NODE_RANK=1", "PET_MASTER_ADDR=m.ns.svc", "MASTER_ADDR=m"});
  CHECK(resolved(host).facts.text(Fact::master_addr) == "m.ns.svc");
}

TEST_CASE("PORT is never the master's port: it is mostly a web server's") {
  const FakeHost host({"NNODES=2", "NODE_RANK=1", "MASTER_ADDR=m", "PORT=8080"});
  CHECK(resolved(host).facts.text(Fact::master_port) == "29500");
}

TEST_CASE("a Kubernetes service link is no port: it is ignored with a warning, and the default is used") {
  const FakeHost host({"NNODES=2", "NODE_RANK=1", "MASTER_ADDR=m", "MASTER_PORT=tcp://10.0.0.1:80"});
  const auto topology = resolved(host);
  CHECK(topology.facts.text(Fact::master_port) == "29500");
  CHECK(topology.facts[Fact::master_port]->source() == "default");
  REQUIRE(topology.warnings.size() == 1);
  CHECK(topology.warnings[0] == "MASTER_PORT=tcp://10.0.0.1:80 is a Kubernetes service link and is ignored");
}

TEST_CASE("the default port is 20000 plus the CRC-32 of the run id mod 10000") {
  CHECK(default_port("123456789") == 20000 + 0xCBF43926U % 10000);  // the check value of CRC-32
  CHECK(default_port("") == 20000);
}

TEST_CASE("workers per node come from the user, the platform, the devices, else 1") {
  FakeHost host({"NNODES=2", "NODE_RANK=0", "MASTER_ADDR=m"});
  CHECK(resolved(host).facts[Fact::nproc_per_node]->source() == "default");
  host.devices = node::DeviceCount{4, "/dev/nvidia[0-9]*"};
  CHECK(resolved(host).facts.text(Fact::nproc_per_node) == "4");
  CHECK(resolved(host).facts[Fact::nproc_per_node]->source() == "devices /dev/nvidia[0-9]*");
  CHECK(resolved(host, {"--nproc-per-node=cpu"}).facts[Fact::nproc_per_node]->source() ==
        "devices cgroup CPU quota");
  CHECK(resolved(host, {"--nproc-per-node=9"}).facts.text(Fact::nproc_per_node) == "9");
  CHECK(resolved(host, {"--nproc-per-node=gpu"}).facts.text(Fact::nproc_per_node) == "4");

  FakeHost greedy({"NPROC_PER_NODE=8"});
  greedy.devices = node::DeviceCount{4, "/dev/nvidia[0-9]*"};
  auto result = resolve(greedy);
  REQUIRE(std::holds_alternative<Faults>(result));
  CHECK_THAT(std::get<Faults>(result).front().what,
             Catch::Contains("only 4 accelerators are visible here (/dev/nvidia"));
}

TEST_CASE("the generic RDZV_BACKEND makes a job elastic") {
  const auto topology =
      resolved(FakeHost({"NNODES=2", "NODE_RANK=1", "MASTER_ADDR=m", "MASTER_PORT=1", "RDZV_BACKEND=c10d"}));
  CHECK(topology.is<ElasticNode>());
  CHECK(topology.facts.text(Fact::rdzv_endpoint) == "m:1");
  CHECK(topology.hosts_master() == false);
}

TEST_CASE(
    "what looks like a job of several nodes on an unknown platform is a warning, with --strict a fault") {
  const FakeHost host({"FOO_REPLICA=0", "FOO_REPLICA_TOTAL=2", "FOO_NODE_RANK=1"});
  const Topology warned = resolved(host);
  CHECK(warned.is_alone());
  REQUIRE(warned.warnings.size() == 1);
  CHECK(warned.warnings[0].starts_with(
      "FOO_REPLICA_TOTAL=2, FOO_NODE_RANK=1 look like a job of several nodes"));
  CHECK(warned.warnings[0].find("--master-addr") != std::string::npos);

  const auto strict = resolve(host, {"--strict"});
  REQUIRE(std::holds_alternative<Faults>(strict));
  CHECK(std::get<Faults>(strict)[0].names == std::vector<std::string>{"FOO_REPLICA_TOTAL", "FOO_NODE_RANK"});

  // Generic names do not indicate other nodes if their value is this machine.
  CHECK(resolved(FakeHost({"MASTER_ADDR=localhost", "FOO_NODE_RANK=1"})).warnings.size() == 1);
  // A user who sets the number gets no warning.
  CHECK(resolved(host, {"--nnodes=1", "--strict"}).warnings.empty());
}

TEST_CASE("an elastic job has a rendezvous, and the node of that name hosts it") {
  FakeHost host({"PET_NNODES=1:3", "PET_RDZV_BACKEND=c10d", "PET_RDZV_ENDPOINT=job-worker-0:29400",
                 "PET_RDZV_ID=job", "PET_MAX_RESTARTS=7"});
  host.name = "job-worker-0";
  auto topology = resolved(host);
  CHECK(topology.is<ElasticNode>());
  CHECK(topology.facts.text(Fact::nnodes) == "1:3");
  CHECK_FALSE(topology.facts.has(Fact::node_rank));
  CHECK(topology.facts.text(Fact::rdzv_endpoint) == "job-worker-0:29400");
  CHECK(topology.facts.text(Fact::rdzv_id) == "job");
  CHECK(topology.facts.text(Fact::max_restarts) == "7");
  CHECK(topology.hosts_master() == true);
  host.name = "job-worker-1";
  CHECK_FALSE(resolved(host).hosts_master().has_value());
}

TEST_CASE("in an elastic job with ranks node 0 is the host, unless the endpoint is elsewhere") {
  const std::vector<std::string> job = {"PET_NNODES=1:3", "PET_NODE_RANK=0", "PET_RDZV_BACKEND=c10d",
                                        "PET_RDZV_ENDPOINT=job-worker-0:1"};
  FakeHost host(job);
  host.name = "any";
  CHECK(resolved(host).hosts_master() == true);
  auto with_master = job;
  with_master.emplace_back("PET_MASTER_ADDR=job-master-0");
  FakeHost master(with_master);
  master.name = "job-master-0";
  CHECK_FALSE(resolved(master).hosts_master().has_value());
  FakeHost worker(with_master);
  worker.name = "job-worker-0";
  CHECK(resolved(worker).hosts_master() == true);
}

TEST_CASE("a platform that only the user names is told with who named it") {
  const auto outcome = resolve(FakeHost({}), {"--platform=kubeflow-pytorchjob"});
  REQUIRE(std::holds_alternative<Faults>(outcome));
  CHECK_THAT(std::get<Faults>(outcome)[0].what,
             Catch::StartsWith("this is kubeflow-pytorchjob (--platform=kubeflow-pytorchjob), but "));
}

}  // namespace
}  // namespace rankshim::topology
