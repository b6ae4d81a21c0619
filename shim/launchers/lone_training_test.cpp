#include "launchers/launcher_in_proc.h"

#include <catch2/catch.hpp>

#include "base/text.h"
#include "outcome/wording.h"

using namespace rankshim::launchers;

namespace {

SeenProcess program(pid_t pid, pid_t parent, std::string name, std::string alone_by = {}) {
  return {.pid = pid, .parent = parent, .name = std::move(name), .alone_by = std::move(alone_by)};
}

SeenProcess worker(pid_t pid, pid_t parent, unsigned world, unsigned local_rank, unsigned local_world) {
  return {.pid = pid,
          .parent = parent,
          .name = "train.py",
          .world_size = world,
          .local_rank = local_rank,
          .local_world_size = local_world};
}

SeenProcess spawned(pid_t pid, pid_t parent, unsigned world) {
  return {.pid = pid, .parent = parent, .name = "python3", .world_size = world};
}

/// The words of a command line.
std::vector<std::string> split_words(std::string_view line) {
  std::vector<std::string> all;
  while (!line.empty()) all.emplace_back(rankshim::split_next(line, " "));
  return all;
}

std::string read_alone_by(const std::vector<std::string>& line) { return seen_by_words(line).alone_by; }

}  // namespace

TEST_CASE("a node trains alone where its workers' world is no larger than the node", "[lone]") {
  const SeenProcess script = program(10, 0, "run.sh");
  const SeenProcess agent = program(11, 10, "torchrun");
  const SeenProcess lone = program(12, 10, "torchrun", "--standalone");
  struct Case {
    const char* what;
    std::vector<SeenProcess> processes;
    JobSize job;
    std::string found;
  };
  const std::vector<Case> cases = {
      {"nothing is there yet", {script, agent}, {2, 8}, ""},
      {"the job's size", {script, agent, worker(12, 11, 16, 0, 8), worker(13, 11, 16, 1, 8)}, {2, 8}, ""},
      {"this node's size",
       {script, agent, worker(12, 11, 8, 0, 8)},
       {2, 8},
       "this node trains alone: worker 12 (torchrun, started by run.sh) has WORLD_SIZE=8, but the job has "
       "16"},
      {"more workers than the topology knows",
       {script, agent, worker(12, 11, 8, 0, 8)},
       {2, 1},
       "this node trains alone: worker 12 (torchrun, started by run.sh) has WORLD_SIZE=8, but the job has "
       "16"},
      {"fewer workers than the topology knows", {script, agent, worker(12, 11, 2, 0, 1)}, {2, 8}, ""},
      {"a launcher that says no local size",
       {script, worker(12, 10, 2, 0, 0), worker(13, 10, 2, 1, 0)},
       {2, 1},
       "this node trains alone: worker 12 (run.sh) has WORLD_SIZE=2, but the job has 4"},
      {"one that has met others", {script, worker(12, 10, 4, 0, 0), worker(13, 10, 4, 1, 0)}, {2, 2}, ""},
      {"a job of fewer nodes than this one was told of",
       {script, agent, worker(12, 11, 2, 1, 1)},
       {3, 1},
       "the nodes do not agree on their number: worker 12 (torchrun, started by run.sh) has WORLD_SIZE=2, "
       "this "
       "job has 3"},
      {"the same with several workers",
       {agent, worker(12, 11, 16, 0, 8)},
       {3, 8},
       "the nodes do not agree on their number: worker 12 (torchrun) has WORLD_SIZE=16, this job has 24"},
      {"a helper of a part of the job",
       {agent, worker(12, 11, 2, 0, 1), worker(13, 11, 3, 0, 1)},
       {3, 1},
       ""},
      {"nodes with fewer workers than this one", {agent, worker(12, 11, 12, 0, 8)}, {2, 8}, ""},
      {"nodes with more workers than this one", {agent, worker(12, 11, 12, 0, 4)}, {2, 4}, ""},
      {"a helper beside the job", {agent, worker(12, 11, 16, 0, 8), worker(13, 12, 1, 0, 1)}, {2, 8}, ""},
      {"a helper before the job", {agent, worker(13, 12, 1, 0, 1), worker(14, 11, 16, 0, 8)}, {2, 8}, ""},
      {"an elastic job that may have one node", {agent, worker(12, 11, 8, 0, 8)}, {1, 8}, ""},
      {"an elastic job below its fewest nodes",
       {agent, worker(12, 11, 8, 0, 8)},
       {2, 8},
       "this node trains alone: worker 12 (torchrun) has WORLD_SIZE=8, but the job has 16"},
      {"an elastic job of its fewest nodes", {agent, worker(12, 11, 16, 0, 8)}, {2, 8}, ""},
      {"a torchrun that is told so",
       {script, lone},
       {2, 8},
       "this node trains alone: torchrun 12 (started by run.sh) is limited to this node (--standalone), but "
       "the job has 2 nodes"},
      {"spawned workers, of which nothing but their number tells",
       {script, program(11, 10, "train.py"), spawned(12, 11, 2), spawned(13, 11, 2)},
       {2, 8},
       "this node trains alone: worker 12 (train.py, started by run.sh) has WORLD_SIZE=2, but the job has "
       "16"},
      {"what the platform says to all",
       {spawned(10, 0, 2), spawned(11, 10, 2), spawned(12, 10, 2)},
       {2, 8},
       ""},
      {"spawned workers of a larger world", {script, spawned(12, 10, 4), spawned(13, 10, 4)}, {2, 8}, ""},
      {"spawned workers of the job's world", {script, spawned(12, 10, 2), spawned(13, 10, 2)}, {2, 1}, ""},
      {"a torchrun on purpose beside the job", {script, lone, agent, worker(14, 11, 16, 0, 8)}, {2, 8}, ""},
  };
  for (const Case& one : cases) {
    INFO(one.what);
    const auto found = lone_training(one.processes, one.job);
    CHECK((found ? in_words(*found) : "") == one.found);
  }
}

TEST_CASE("a process has its script's name, and a torchrun's flags show whether it stays on this node",
          "[lone]") {
  CHECK(seen_by_words(split_words("/bin/bash -eu /w/run.sh a")).name == "run.sh");
  CHECK(seen_by_words(split_words("bash -c torchrun")).name == "bash");
  CHECK(seen_by_words(split_words("bash -lc torchrun")).name == "bash");
  CHECK(seen_by_words(split_words("bash --norc -e run.sh")).name == "run.sh");
  CHECK(seen_by_words(split_words("/usr/bin/python3 -u train.py")).name == "train.py");
  CHECK(seen_by_words(split_words("python -W ignore -X dev train.py")).name == "train.py");
  CHECK(seen_by_words(split_words("python -c torchrun")).name == "python");
  CHECK(seen_by_words(split_words("python3.13t -u train.py")).name == "train.py");
  CHECK(seen_by_words(split_words("/opt/deepspeed")).name == "deepspeed");
  CHECK(seen_by_words(split_words("python -u -m torch.distributed.run --nnodes=2 train.py")).name ==
        "torchrun");
  CHECK(seen_by_words({}).name.empty());
  CHECK(read_alone_by(split_words("python /venv/bin/torchrun --nproc_per_node 8 --standalone t.py")) ==
        "--standalone");
  CHECK(read_alone_by(split_words("python -m torch.distributed.run --nnodes=1 t.py")) == "--nnodes=1");
  CHECK(read_alone_by(split_words("python torchrun --rdzv_endpoint=localhost:0 t.py")) ==
        "--rdzv_endpoint=localhost:0");
  CHECK(read_alone_by(split_words("python torchrun --nnodes 1 t.py")) == "--nnodes 1");
  CHECK(read_alone_by(split_words("python torchrun --nnodes 2 --rdzv-endpoint 127.0.0.1:0 t.py")) ==
        "--rdzv-endpoint 127.0.0.1:0");
  for (const char* here : {"localhost", "localhost:29400", "127.0.1.1", "[::1]:29400"}) {
    CAPTURE(here);
    CHECK_FALSE(
        read_alone_by(split_words("python torchrun --rdzv_endpoint=" + std::string(here) + " t.py")).empty());
  }
  for (const char* elsewhere :
       {"localhost.example.com:29400", "localhost-0:29400", "127.example.com:29400", "10.0.0.1:1"}) {
    CAPTURE(elsewhere);
    CHECK(read_alone_by(split_words("python torchrun --rdzv_endpoint=" + std::string(elsewhere) + " t.py"))
              .empty());
  }
  CHECK(seen_by_words(split_words("torchrun --nnodes=2 --rdzv_endpoint=pod-1:29500 t.py"),
                      {.own_name = "pod-1"})
            .alone_by == "--rdzv_endpoint=pod-1:29500");
  CHECK(seen_by_words(split_words("torchrun --nnodes=2 --rdzv_endpoint=pod-0:29500 t.py"),
                      {.own_name = "pod-1"})
            .alone_by.empty());
  CHECK(seen_by_words(split_words("torchrun --rdzv_endpoint=127.0.0.1:1 t.py"), {.on_loopback = true})
            .alone_by.empty());  // of a job on one machine
  CHECK(read_alone_by(split_words("python torchrun --nnodes=16 t.py --standalone")).empty());
  CHECK(read_alone_by(split_words("python train.py --standalone")).empty());
}
