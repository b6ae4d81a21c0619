#include "launchers/native/workers.h"

#include <catch2/catch.hpp>
#include <ctime>

#include "run/plan_for_test.h"

using namespace rankshim;
using namespace rankshim::launchers;
using namespace rankshim::run::for_test;

using node::FakeHost;

namespace {

/// Node 1 of 3 of a PyTorchJob, with two accelerators' workers.
ShownPlan started_natively(Words line, Words environment = kubeflow) {
  FakeHost host(std::move(environment));
  host.programs = {"/usr/bin/python3"};
  line.insert(line.begin(), {"--launcher=native", "--nproc-per-node=2"});
  return planned(host, std::move(line));
}

std::string value(const node::Variables& variables, std::string_view name) {
  std::string found = "(not set)";
  for (const auto& [known, value] : variables) {
    if (known != name) continue;
    CHECK(found == "(not set)");  // each once
    found = value;
  }
  return found;
}

Fault refused(Words line, const Words& environment = kubeflow) {
  line.insert(line.begin(), "--launcher=native");
  const auto planned = try_plan(FakeHost(environment), std::move(line));
  const auto* faults = std::get_if<Faults>(&planned.plan);
  REQUIRE(faults != nullptr);
  return faults->front();
}

}  // namespace

TEST_CASE("a worker's place follows from its node's and its local rank", "[native]") {
  const ShownPlan plan = started_natively({"train.py"});
  CHECK(value(plan.environment.set, "WORLD_SIZE") == "6");
  CHECK(value(plan.environment.set, "GROUP_RANK") == "1");
  CHECK(value(plan.environment.set, "GROUP_WORLD_SIZE") == "3");
  CHECK(value(plan.environment.set, "MASTER_ADDR") == "job-master-0");
  REQUIRE(plan.workers.size() == 2);
  CHECK(value(plan.workers[0].environment, "RANK") == "2");
  CHECK(value(plan.workers[1].environment, "RANK") == "3");
  CHECK(value(plan.workers[1].environment, "LOCAL_RANK") == "1");
  CHECK(plan.workers[1].argv == Words{"python3", "-u", "train.py"});
}

TEST_CASE("what only the native launcher can do is refused under torchrun, and a warning for a program",
          "[native]") {
  const auto refusal = [](Words line) {
    const auto outcome = try_plan(FakeHost(kubeflow), std::move(line)).plan;
    REQUIRE(std::holds_alternative<Faults>(outcome));
    return to_line(std::get<Faults>(outcome).front());
  };
  CHECK(
      refusal({"--bind=numa", "torchrun", "train.py"}) ==
      "--bind=numa, but torchrun starts the workers; leave it out, or set --launcher (RANKSHIM_LAUNCHER) to "
      "native, or use torchrun's own: --torchrun-args=--numa-binding=node [R23]");
  FakeHost host(kubeflow);
  host.programs = {"/usr/bin/python3"};
  CHECK(planned(host, {"--bind=none", "train.py"}).launcher->name() == "torchrun");
  CHECK_THAT(planned(host, {"--bind=numa", "bash", "run.sh"}).warnings,
             Catch::VectorContains(std::string("--bind is for workers that --launcher=native starts")));
}

TEST_CASE("explain shows what each worker is bound to", "[native]") {
  FakeHost host(kubeflow);
  host.folders = {{"/dev", {"nvidia0"}}, {"/proc/driver/nvidia/gpus", {"0000:01:00.0"}}};
  host.files = {{"/proc/driver/nvidia/gpus/0000:01:00.0/information", "Device Minor: \t 0\n"},
                {"/sys/bus/pci/devices/0000:01:00.0/numa_node", "0\n"},
                {"/sys/devices/system/node/node0/cpulist", "0-3\n"},
                {"/proc/self/status", "Cpus_allowed_list:\t1-9\nMems_allowed_list:\t0\n"}};
  const Words line = {"--launcher=native",
                      "--nproc-per-node=2",
                      "--env=CUDA_VISIBLE_DEVICES={local_rank}",
                      "--bind=numa",
                      "--",
                      "./mytask"};
  const ShownPlan plan = planned(host, line);
  CHECK(plan.workers[0].near.text == "NUMA node 0, CPUs 1-3 (NVIDIA 0000:01:00.0)");
  CHECK(plan.workers[1].near.text == "not bound: no accelerator is known that it can use");
}

TEST_CASE("nothing of an agent reaches a worker that has none", "[native]") {
  Words environment = kubeflow;
  environment.insert(environment.end(),
                     {"TORCHELASTIC_USE_AGENT_STORE=True", "TORCHELASTIC_ERROR_FILE=/agents/own",
                      "LOCAL_RANK=7", "PET_NNODES=3", "TORCH_NCCL_ASYNC_ERROR_HANDLING=3"});
  FakeHost host(environment);
  const ShownPlan plan =
      planned(host, {"--launcher=native", "--rank-unit=node", "--nproc-per-node=2", "train.py"});
  const node::Environment given = environment_of(plan, host);
  for (const char* const name :
       {"TORCHELASTIC_USE_AGENT_STORE", "TORCHELASTIC_ERROR_FILE", "LOCAL_RANK", "PET_NNODES"})
    CHECK_FALSE(given.has(name));
  CHECK(given.get("TORCH_NCCL_ASYNC_ERROR_HANDLING") == "3");
}

TEST_CASE("any program can be started by the native launcher, with each worker's own arguments", "[native]") {
  const ShownPlan plan = started_natively({"--", "./mytask", "--index={local_rank}", "{rank}/{world_size}",
                                           "{{rank}}", "{master_addr}:{master_port}",
                                           "{nnodes}.{node_rank}.{local_world_size}", "{run_id}"});
  CHECK(plan.workers[1].argv ==
        Words{"./mytask", "--index=1", "3/6", "{rank}", "job-master-0:23456", "3.1.2", "rankshim"});
  CHECK(plan.argv[1] == "--index={local_rank}");
}

TEST_CASE("--env sets each worker's variables, which replace others", "[native]") {
  const ShownPlan plan = started_natively(
      {"--env=CACHE=/cache/{rank}", "--env=A=x=1,{{rank}}", "--env", "RANK={local_rank}", "--", "./mytask"});
  const node::Variables& second = plan.workers[1].environment;
  CHECK(value(second, "CACHE") == "/cache/3");
  CHECK(value(second, "A") == "x=1,{rank}");
  CHECK(value(second, "RANK") == "1");
}

TEST_CASE("each run makes its own folder in the folder for logs", "[native]") {
  const ShownPlan plan = started_natively({"--log-dir=/logs", "--run-id=team/job", "train.py"});
  CHECK(value(plan.workers[1].environment, "TORCHELASTIC_ERROR_FILE") ==
        "/logs/team_job_XXXXXX/attempt_0/1/error.json");
}

TEST_CASE("a script's workers wait for the master's port, a program's for its name alone", "[native]") {
  CHECK(started_natively({"train.py"}).wait == wait::Until::port);
  CHECK(started_natively({"--", "./mytask"}).wait == wait::Until::name);
}

TEST_CASE("PYTHON_EXEC names the workers' interpreter, as with torchrun", "[native]") {
  Words environment = kubeflow;
  environment.emplace_back("PYTHON_EXEC=/opt/python");
  CHECK(started_natively({"train.py"}, environment).workers[0].argv[0] == "/opt/python");
}

TEST_CASE("a job that the native launcher cannot start is refused with what to do", "[native]") {
  CHECK_THAT(to_line(refused({"--nnodes=2:3", "train.py"})), Catch::Contains("this job is elastic"));
  CHECK_THAT(to_line(refused({"torchrun", "train.py"})),
             Catch::Contains("give the script to rankshim instead"));
  CHECK_THAT(to_line(refused({"--max-restarts=1", "train.py"})), Catch::Contains("this job has 3 nodes"));
  CHECK_THAT(to_line(refused({"--ctty", "train.py"})), Catch::Contains("--ctty"));
  CHECK_THAT(to_line(refused({"--tee", "train.py"})), Catch::Contains("set --log-dir"));
  CHECK_THAT(to_line(refused({"--prefix", "--log-dir=/logs", "train.py"})), Catch::Contains("set --tee"));
  const Words created = {"RANK=1", "WORLD_SIZE=2", "LOCAL_RANK=1", "MASTER_ADDR=a", "MASTER_PORT=1"};
  CHECK_THAT(to_line(refused({"train.py"}, created)),
             Catch::Contains("already started one process per accelerator"));
}

TEST_CASE("only the native launcher can put a prefix before lines", "[native]") {
  const auto outcome = try_plan(FakeHost(kubeflow), {"--prefix", "train.py"}).plan;
  REQUIRE(std::holds_alternative<Faults>(outcome));
  CHECK(to_line(std::get<Faults>(outcome).front()) ==
        "--prefix=true, but torchrun starts the workers; leave it out, or set --launcher (RANKSHIM_LAUNCHER) "
        "to native [R23]");
}

namespace {

const Placeholders values = {{"rank", "9"}, {"local_rank", "1"}, {"world_size", "16"}};

}  // namespace

TEST_CASE("a name in braces becomes its value, anywhere in the word", "[native]") {
  CHECK(filled_in("{rank}", values) == "9");
  CHECK(filled_in("--shard={rank}/{world_size}", values) == "--shard=9/16");
  CHECK(filled_in("out-{local_rank}{local_rank}.log", values) == "out-11.log");
  CHECK(filled_in("plain", values) == "plain");
  CHECK(filled_in("", values).empty());
}

TEST_CASE("a name in double braces is the text itself", "[native]") {
  CHECK(filled_in("{{rank}}", values) == "{rank}");
  CHECK(filled_in("{{rank}}={rank}", values) == "{rank}=9");
}

TEST_CASE("everything else in braces stays as it is", "[native]") {
  for (const char* const text : {"{", "}", "{{", "}}", "{}", "{{}}", "{Rank}", "{ rank }", "{other}",
                                 "{{other}}", "{rank", "rank}", R"({"a":{"b":[1,{"rank":2}]}})",
                                 R"({{"a": 1}})", "{{ template }}", "{rank:03}", "a{2,3}", "{{ rank }}"}) {
    CHECK(filled_in(text, values) == text);
  }
  CHECK(filled_in(R"({"device":"{local_rank}","x":{"y":1}})", values) == R"({"device":"1","x":{"y":1}})");
  CHECK(filled_in("{{{rank}}}", values) == "{{rank}}");
}

TEST_CASE("a long word of braces takes no time worth mentioning", "[native][attack]") {
  std::string word(300'000, '{');
  const std::clock_t begin = std::clock();
  CHECK(filled_in(word, values) == word);
  while (word.size() < 600'000) word += "{rank";
  CHECK(filled_in(word, values) == word);
  CHECK(std::clock() - begin < 5 * CLOCKS_PER_SEC);
}

TEST_CASE("what follows a dollar is the shell's, but for torchrun's own macro", "[native]") {
  CHECK(filled_in("echo ${rank} $RANK", values) == "echo ${rank} $RANK");
  CHECK(filled_in("--local-rank=${local_rank}", values) == "--local-rank=1");
}
