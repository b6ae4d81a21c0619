#include "launchers/torchrun/torchrun_command.h"

#include <catch2/catch.hpp>

#include "node/fake_host_for_test.h"
#include "topology/resolve_for_test.h"

namespace rankshim::launchers {
namespace {

using node::FakeHost;

using Words = std::vector<std::string>;

Words words(std::string_view line) {
  Words all;
  for (auto word = next_word(line); !word.empty(); word = next_word(line)) all.emplace_back(word);
  return all;
}

std::string first_fault(const Outcome<topology::Topology>& outcome) {
  const auto* faults = std::get_if<Faults>(&outcome);
  return faults == nullptr ? std::string("no fault") : to_line(faults->front());
}

topology::Topology topology_of(const Words& variables, const Words& command) {
  const auto outcome = topology::resolve(FakeHost(variables), {}, command);
  if (const auto* faults = std::get_if<Faults>(&outcome)) FAIL(to_line(faults->front()));
  return std::get<topology::Topology>(outcome);
}

std::string fault_of(const Words& variables, const Words& command) {
  return first_fault(topology::resolve(FakeHost(variables), {}, command));
}

const Words two_nodes = {"PET_NNODES=2", "PET_NODE_RANK=1", "PET_NPROC_PER_NODE=4", "PET_MASTER_ADDR=m",
                         "PET_MASTER_PORT=5"};

TEST_CASE("torchrun is recognised by all of its names") {
  const std::vector<std::pair<Words, std::size_t>> commands = {
      {{"torchrun", "t.py"}, 1},
      {{"/opt/conda/bin/torchrun", "t.py"}, 1},
      {{"torchrun3", "t.py"}, 1},
      {{"torchrun-3.11", "t.py"}, 1},
      {{"python", "-m", "torch.distributed.run", "t.py"}, 3},
      {{"/usr/bin/python3.11", "-u", "-m", "torch.distributed.launch", "t.py"}, 4},
      {{"python3", "-um", "torch.distributed.run", "t.py"}, 3},
      {{"python3", "-mtorch.distributed.run", "t.py"}, 2},
      {{"python", "-W", "ignore", "-X", "dev", "-m", "torch.distributed.run", "t.py"}, 7},
      {{"python", "/opt/bin/torchrun", "t.py"}, 2},
      {{"python", "/usr/lib/python3/dist-packages/torch/distributed/run.py", "t.py"}, 2},
      {{"-m", "torch.distributed.run", "t.py"}, 2}};
  for (const auto& [command, flags_at] : commands) {
    CAPTURE(command);
    const auto torchrun = read_torchrun(command);
    REQUIRE(torchrun);
    CHECK(torchrun->flags_at == flags_at);
    CHECK(torchrun->script() == "t.py");
  }
  const std::vector<Words> others = {{},
                                     {"python"},
                                     {"python", "-m"},
                                     {"python", "train.py"},
                                     {"python", "-c", "-m", "torch.distributed.run"},
                                     {"python", "-", "torchrun"},
                                     {"pythonic", "-m", "torch.distributed.run"},
                                     {"torchrunner", "t.py"},
                                     {"bash", "torchrun"},
                                     {"train.py", "-m", "torch.distributed.run"}};
  for (const Words& command : others) {
    CAPTURE(command);
    CHECK_FALSE(read_torchrun(command));
  }
}

TEST_CASE("torchrun is found behind programs that execute another one") {
  const auto read = settings::read_settings({"--", "x"}, FakeHost({}));
  const settings::Settings& settings = std::get<settings::Invocation>(read).settings;
  for (const std::string_view line :
       {"timeout -k 5 100", "uv run --no-sync", "uv --directory x run", "env -u X Y=Z nice -n 5", "gosu user",
        "conda run -n train", "poetry run", "pixi run -e cuda", "hatch -e gpu run", "tini -g --",
        "numactl --interleave all", "nvidia_entrypoint.sh", "timeout 9 /opt/entry.sh env X=Y",
        "bash docker/entry.sh"}) {
    CAPTURE(line);
    const Words front = words(line);
    for (const Words& torchrun :
         {Words{"torchrun", "--nnodes=2", "t.py"},
          Words{"python", "-u", "-m", "torch.distributed.run", "--nnodes=2", "t.py"}}) {
      Words command = front;
      command.insert(command.end(), torchrun.begin(), torchrun.end());
      const auto found = own_torchrun(settings, command);
      REQUIRE(found);
      CHECK(found->begins_at == front.size());
      CHECK(found->script() == "t.py");
      CHECK(found->given.facts.text(Fact::nnodes) == "2");
      CHECK_FALSE(read_torchrun(command));
    }
  }
  for (const std::string_view line :
       {"bash torchrun t.py", "entry.sh --flag torchrun t.py", "train.sh torchrun config.yaml",
        "bash run.sh -m torch.distributed.run t.py", "env python t.py torchrun", "./wrap torchrun t.py",
        "env bash -c torchrun"}) {
    CAPTURE(line);
    CHECK_FALSE(own_torchrun(settings, words(line)));
  }
}

TEST_CASE("torchrun's flags end where its script begins, however they are written") {
  const std::vector<std::pair<Words, std::size_t>> commands = {
      {{"torchrun", "--nnodes", "2", "t.py", "--node_rank", "7"}, 3},
      {{"torchrun", "--nnodes=2", "--node-rank", "1", "-r", "3", "-t3", "t.py"}, 7},
      {{"torchrun", "--standalone", "--no-python", "t.py"}, 3},
      {{"torchrun", "-m", "pkg.train"}, 2},
      {{"torchrun", "--nnod", "2", "--standalone", "--", "t.py"}, 5},
      {{"torchrun", "--nproc-per", "2", "t.py"}, 3},
      {{"torchrun", "--rdzv", "t.py"}, 2},  // several begin so: torchrun itself refuses it
      {{"torchrun", "--nnodes"}, 2}};
  for (const auto& [command, script_at] : commands) {
    CAPTURE(command);
    CHECK(read_torchrun(command)->script_at == script_at);
  }
  const auto torchrun =
      read_torchrun({"torchrun", "--nnodes=2", "--node-rank", "1", "--nnodes=3", "-m", "x"});
  CHECK(torchrun->given.facts.text(Fact::nnodes) == "3");
  CHECK(torchrun->given.facts[Fact::node_rank]->source() == "option torchrun --node-rank");
  CHECK(torchrun->script().empty());
}

TEST_CASE("without a platform torchrun's flags are the topology") {
  const auto topology =
      topology_of({}, {"torchrun", "--nnodes", "2", "--node_rank", "1", "--master_addr", "m", "t.py"});
  CHECK(topology.hosts_master() == false);
  CHECK(topology.facts.text(Fact::master_addr) == "m");
  CHECK(topology.facts.text(Fact::master_port) == "29500");
  CHECK(topology_of({}, {"torchrun", "--nproc_per_node=8", "--node_rank=0", "t.py"}).is_alone());
  CHECK(topology_of({}, {"torchrun", "--nproc_per_node=8", "t.py"}).facts.text(Fact::nproc_per_node) == "8");
  CHECK_THAT(fault_of({}, {"torchrun", "--nnodes=2", "--master_addr=m", "t.py"}),
             Catch::Contains("torchrun --nnodes=2, but this node's rank is unknown"));
  CHECK_THAT(fault_of({}, {"torchrun", "--nnodes=$NNODES", "t.py"}), Catch::Contains("--nnodes='$NNODES'"));
}

TEST_CASE("a flag that names this node as the master is refused on a node of another rank") {
  const Words node_1 = {"NNODES=3", "NODE_RANK=1"};
  struct Row {
    Words flags;
    std::string what;
  };
  for (const auto& [flags, what] :
       {Row{{"--nnodes=3", "--rdzv_backend=c10d", "--rdzv_endpoint=localhost:29400"},
            "--rdzv_endpoint=localhost:29400"},
        Row{{"--rdzv_endpoint=localhost:29400"}, "--rdzv_endpoint=localhost"},
        Row{{"--rdzv_endpoint=[::]:29400"}, "--rdzv_endpoint="},
        Row{{"--master_addr=localhost"}, "--master_addr=localhost"},
        Row{{"--master_addr=0.0.0.0"}, "--master_addr=0.0.0.0"}}) {
    Words command = {"torchrun"};
    command.insert(command.end(), flags.begin(), flags.end());
    command.emplace_back("t.py");
    CHECK_THAT(fault_of(node_1, command),
               Catch::StartsWith("torchrun " + what) &&
                   Catch::Contains(" on node 1 is this node itself, not the master; take it out"));
    const auto outcome = topology::resolve(FakeHost({"NNODES=3", "NODE_RANK=0"}), {}, command);
    CHECK(std::holds_alternative<topology::Topology>(outcome));
  }
  const auto warnings = [](const Words& variables, const std::string& flag) {
    const auto topology = topology_of(variables, {"torchrun", "--rdzv_backend=c10d", flag, "t.py"});
    return joined(topology.warnings, "\n");
  };
  for (const std::string endpoint : {"fake-host:29400", "127.0.0.1:29400"})
    CHECK(warnings(node_1, "--rdzv_endpoint=" + endpoint) ==
          "torchrun --rdzv_endpoint=" + endpoint +
              " on node 1 is this node itself, which is right only if all nodes are on it");
  CHECK(warnings(node_1, "--rdzv_endpoint=job-0:29400").empty());
  // The command line may have the rank too.
  const auto flags = [](const std::string& rank, const std::string& address) {
    return Words{"torchrun", "--nnodes=2", "--node_rank=" + rank, "--master_addr=" + address, "t.py"};
  };
  CHECK_THAT(fault_of({}, flags("1", "localhost")),
             Catch::StartsWith("torchrun --master_addr=localhost on node 1 is this node itself") &&
                 Catch::Contains("set it to node 0's name or address"));
  CHECK(topology_of({}, flags("1", "127.0.0.1")).warnings.size() == 1);
  for (const char* address : {"localhost", "127.0.0.1"})
    CHECK(topology_of({}, flags("0", address)).warnings.empty());
}

TEST_CASE("torchrun's flags may not contradict the platform or rankshim's options") {
  const std::vector<std::pair<Words, std::string>> commands = {
      {{"torchrun", "--nnodes=1", "t.py"}, "torchrun --nnodes=1 contradicts PET_NNODES=2"},
      {{"torchrun", "--node-rank", "0", "t.py"}, "torchrun --node-rank=0 contradicts PET_NODE_RANK=1"},
      {{"torchrun", "--nproc_per_node=8", "t.py"},
       "torchrun --nproc_per_node=8 contradicts PET_NPROC_PER_NODE=4"},
      {{"torchrun", "--standalone", "t.py"}, "torchrun --standalone contradicts PET_NNODES=2"},
      {{"torchrun", "--rdzv_backend=c10d", "--rdzv_endpoint=localhost:0", "t.py"},
       "torchrun --rdzv_endpoint=localhost:0 contradicts PET_NNODES=2"}};
  for (const auto& [command, what] : commands) {
    const std::string line = fault_of(two_nodes, command);
    CHECK_THAT(line, Catch::StartsWith(what));
    CHECK_THAT(line, Catch::Contains("--launcher=none"));
  }
  const auto contradicted =
      topology::resolve(FakeHost(two_nodes), {"--nnodes=3"}, {"torchrun", "--nnodes=2", "t.py"});
  CHECK_THAT(first_fault(contradicted), Catch::Contains("torchrun --nnodes=2 contradicts --nnodes=3"));
}

TEST_CASE("torchrun's flags that repeat or add facts are no contradiction") {
  for (const Words& command :
       {Words{"torchrun", "--nnodes=2:2", "--node_rank=1", "--nproc_per_node=auto", "--master_port=5",
              "t.py"},
        Words{"torchrun", "--nnodes=1:4", "t.py"},
        Words{"torchrun", "--rdzv_id=own", "--max_restarts=3", "--rdzv_conf=timeout=60", "t.py"}}) {
    CAPTURE(command);
    CHECK_FALSE(topology_of(two_nodes, command).is_alone());
  }
  const auto elastic = topology_of(
      two_nodes, {"torchrun", "--rdzv_backend=c10d", "--rdzv_endpoint=m", "--rdzv_id=own", "t.py"});
  CHECK(elastic.is<topology::ElasticNode>());
  CHECK(elastic.facts.text(Fact::rdzv_endpoint) == "m:29400");
  CHECK(elastic.facts.text(Fact::rdzv_id) == "own");
  CHECK(elastic.hosts_master() == false);
  const auto fixed =
      topology_of({}, {"torchrun", "--nnodes=2", "--node_rank=1", "--rdzv_endpoint=n:7", "t.py"});
  CHECK(fixed.facts.text(Fact::master_addr) == "n");
  CHECK(fixed.facts.text(Fact::master_port) == "7");
}

TEST_CASE("torchrun's flags may not contradict RANK and WORLD_SIZE, whatever they count") {
  const auto line = [](const std::string& rank, const std::string& world, const Words& flags) {
    Words command = {"torchrun"};
    command.insert(command.end(), flags.begin(), flags.end());
    command.emplace_back("t.py");
    const Words variables = {"RANK=" + rank, "WORLD_SIZE=" + world, "MASTER_ADDR=m", "MASTER_PORT=1"};
    return fault_of(variables, command);
  };
  CHECK_THAT(line("1", "3", {"--standalone"}),
             Catch::StartsWith("torchrun --standalone contradicts WORLD_SIZE=3"));
  CHECK_THAT(line("0", "3", {"--nnodes=1"}),
             Catch::StartsWith("torchrun --nnodes=1 contradicts WORLD_SIZE=3"));
  CHECK_THAT(line("1", "3", {"--nnodes=3", "--node_rank=2"}),
             Catch::StartsWith("torchrun --node_rank=2 contradicts RANK=1"));
  CHECK(line("1", "3", {"--nnodes=3", "--node_rank=1"}) == "no fault");
  CHECK(line("1", "16", {"--nnodes=2", "--node_rank=1", "--nproc_per_node=8"}) == "no fault");
  CHECK(line("8", "16", {"--nnodes=2", "--node_rank=1", "--nproc_per_node=8"}) == "no fault");
  CHECK(line("1", "3", {}) == "no fault");
}

TEST_CASE("torchrun's --node_rank may not contradict RANK, wherever the number of nodes comes from") {
  const Words on_first = {"torchrun", "--node_rank", "0", "t.py"};
  for (const Words& variables :
       {Words{"RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=m"}, Words{"RANK=1", "NNODES=2", "MASTER_ADDR=m"},
        Words{"RANK=1", "WORLD_SIZE=2", "NNODES=2", "MASTER_ADDR=m"}}) {
    CAPTURE(variables);
    CHECK_THAT(fault_of(variables, on_first),
               Catch::StartsWith("torchrun --node_rank=0 contradicts RANK=1; take --node_rank out"));
  }
  CHECK_THAT(fault_of({"NODE_RANK=1", "NNODES=2", "MASTER_ADDR=m"}, on_first),
             Catch::StartsWith("torchrun --node_rank=0 contradicts NODE_RANK=1"));
  CHECK_THAT(fault_of({"RANK=1", "MASTER_ADDR=m"},
                      {"torchrun", "--nnodes=2", "--node_rank=0", "--nproc_per_node=1", "t.py"}),
             Catch::StartsWith("torchrun --node_rank=0 contradicts RANK=1"));
  const auto same = topology_of({"RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=m"},
                                {"torchrun", "--nnodes=2", "--node_rank=1", "--nproc_per_node=1", "t.py"});
  CHECK(same.facts.text(Fact::node_rank) == "1");
  CHECK(fault_of({"RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=m"}, {"torchrun", "--node_rank=1", "t.py"}) ==
        "no fault");
  CHECK(fault_of({"RANK=1", "WORLD_SIZE=2", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=2", "MASTER_ADDR=m"},
                 on_first) == "no fault");
  CHECK(first_fault(topology::resolve(FakeHost({"RANK=8", "WORLD_SIZE=16", "MASTER_ADDR=m"}),
                                      {"--rank-unit=process", "--nproc-per-node=8"},
                                      {"torchrun", "--node_rank=1", "t.py"})) == "no fault");
}

TEST_CASE("a lone torchrun with its own rendezvous meets no other node") {
  for (const Words& command :
       {Words{"torchrun", "--standalone", "t.py"}, Words{"torchrun", "--rdzv_backend=c10d", "t.py"},
        Words{"torchrun", "--nnodes=1", "--rdzv_backend=c10d", "--rdzv_endpoint=localhost:0", "t.py"}}) {
    CAPTURE(command);
    const auto topology = topology_of({}, command);
    CHECK(topology.is_alone());
    CHECK_FALSE(topology.is<topology::ElasticNode>());
  }
}

}  // namespace
}  // namespace rankshim::launchers
