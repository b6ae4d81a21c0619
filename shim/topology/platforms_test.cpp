#include <catch2/catch.hpp>

#include "platform/recording_for_test.h"
#include "topology/resolve_for_test.h"

/// What profiles and topology promise together: no node trains alone in silence, and nothing is guessed.

namespace rankshim::topology {
namespace {

using node::FakeHost;
using node::Host;

/// No other variable shows that this part of the job does not train.
bool is_the_only_sign_of_the_role(std::string_view variable) {
  return variable == "K_MPI_JOB_ROLE" || variable == "NODE_TYPE" || variable == "SLURM_HET_SIZE";
}

/// The name of the profile that is recognised.
std::string recognised(const Host& host) {
  const auto outcome = platform::recognise(platform::builtin_profiles(), "auto", host);
  const auto* platform = std::get_if<platform::Platform>(&outcome);
  return platform == nullptr ? "" : platform->id.name();
}

/// Without it nothing indicates other nodes: the one variable of an Indexed Job or of TensorFlow, a rank
/// table at its usual path, variables set by hand.
bool is_all_there_is(std::string_view missing) {
  return missing == "JOB_COMPLETION_INDEX" || missing == "TF_CONFIG" ||
         missing == "/user/config/jobstart_hccl.json" || missing == "NNODES" || missing.starts_with("AFO_") ||
         missing == "BATCH_HOSTS_FILE" || missing == "/valohai/config/distributed.json";
}

/// Without ClearML's NODE_RANK the others are those of an older version, which count nodes.
bool is_of_another_version(std::string_view missing, bool is_sign) {
  return is_sign && missing == "NODE_RANK";
}

/// `is_sign`: without it the platform is not recognised, so that no message can say what is missing.
void check_without(const std::string& missing, bool is_sign, const Host& host, const std::string& expected) {
  INFO("without " << missing);
  const auto outcome = resolve(host);
  if (const auto* topology = std::get_if<Topology>(&outcome))
    if (!topology->platform.is_recognised() && is_sign &&
        (is_all_there_is(missing) || !topology->warnings.empty()))
      return;
  if (expected.empty()) {  // a role that does not train: it must not begin to
    const auto* topology = std::get_if<Topology>(&outcome);
    CHECK((topology == nullptr || topology->is<Idle>() || is_the_only_sign_of_the_role(missing)));
  } else if (const auto* topology = std::get_if<Topology>(&outcome)) {
    // A file can be the platform's only sign; without it there is none.
    if (missing.starts_with('/') && !topology->platform.is_recognised()) return;
    if (topology->is<Idle>()) return;  // a script is refused there
    const bool hosts_master =
        topology->hosts_master().value_or(false);  // which may have its name or localhost
    // Where each node has one process, its number is the node's.
    const auto number = [&](const std::string& text) {
      return text.substr(5, hosts_master ? text.find(',') - 5 : std::string::npos);
    };
    CHECK((number(part_in_job(*topology)) == number(expected) || is_of_another_version(missing, is_sign)));
  } else {
    const auto& faults = std::get<Faults>(outcome);
    INFO(to_line(faults.front()));
    CHECK((names(faults, missing) || is_sign));
  }
}

/// Calls check(NAME, NODE) with each of the recording's variables and files missing.
template <class Check>
void without_each(const platform::Recording& recording, Check check) {
  for (std::size_t i = 0; i < recording.variables.size(); ++i) {
    auto variables = recording.variables;
    variables.erase(variables.begin() + static_cast<std::ptrdiff_t>(i));
    FakeHost host(variables);
    recording.apply(host);
    check(std::string(node::entry_name(recording.variables[i])), host);
  }
  for (const auto& [path, content] : recording.files) {
    FakeHost host(recording.variables);
    recording.apply(host);
    const bool mounted = path.starts_with("/etc/");  // a ConfigMap's files come and go together
    std::erase_if(host.files, [&](const auto& file) {
      return file.first == path || (mounted && file.first.starts_with("/etc/"));
    });
    check(path, host);
  }
}

}  // namespace

TEST_CASE(
    "with one variable or file of a recorded environment missing the place is the same, or it is named") {
  for (const platform::Recording& recording : platform::recordings()) {
    INFO(recording.path.string());
    FakeHost whole(recording.variables);
    recording.apply(whole);
    const auto outcome = resolve(whole);
    const auto* topology = std::get_if<Topology>(&outcome);
    if (topology == nullptr || topology->is_alone()) continue;
    const std::string expected = !topology->is<Idle>() ? part_in_job(*topology) : std::string();
    const std::string name = recognised(whole);
    without_each(recording, [&](const std::string& missing, const Host& host) {
      check_without(missing, recognised(host) != name, host, expected);
    });
  }
}

TEST_CASE("what only looks like other nodes of the job is a warning, and with --strict refused") {
  const std::vector<std::pair<std::vector<std::string>, std::string>> rows = {
      {{"VC_COORDINATOR_HOSTS=j-coordinator-0.j", "VC_COORDINATOR_NUM=1", "VC_WORKER_HOSTS=j-worker-0.j",
        "VC_WORKER_NUM=1", "VC_TASK_INDEX=0"},
       "VC_COORDINATOR_NUM"},
      {{"GROUP_SIZE=128", "WORKER_INDEX=0"}, "GROUP_SIZE"},
      {{"GROUP_SIZE=2", "ENTRY_ADDRESS=registry.example"}, "ENTRY_ADDRESS"}};
  for (const auto& [variables, name] : rows) {
    CAPTURE(variables);
    FakeHost host(variables);
    host.name = "j-worker-0";
    const auto outcome = resolve(host);
    REQUIRE(std::holds_alternative<Topology>(outcome));
    const auto& topology = std::get<Topology>(outcome);
    CHECK(topology.is_alone());
    REQUIRE(topology.warnings.size() == 1);
    CHECK_THAT(topology.warnings.front(), Catch::Contains(name));
    CHECK(std::get<Topology>(resolve(host, {"--nnodes=1"})).warnings.empty());
    const auto refused = resolve(host, {"--strict"});
    REQUIRE(std::holds_alternative<Faults>(refused));
    CHECK(names(std::get<Faults>(refused), name));
  }
}

TEST_CASE("a Volcano worker beside parameter servers, or tasks without pods, is alone without a warning") {
  for (const char* other : {"VC_PS_NUM=2", "VC_COORDINATOR_NUM=0"}) {
    CAPTURE(other);
    FakeHost host({"VC_WORKER_HOSTS=j-worker-0.j", "VC_WORKER_NUM=1", "VC_TASK_INDEX=0",
                   "VC_PS_HOSTS=j-ps-0.j,j-ps-1.j", other});
    host.name = "j-worker-0";
    CHECK(std::get<Topology>(resolve(host)).warnings.empty());
  }
}

TEST_CASE("a first host of Monarch's several does not train alone in silence") {
  FakeHost host({R"(MONARCH_SERVICE_PROC_IDS=["a", "b"])", "MONARCH_SERVICE_PROC_RANK=0"});
  const auto warnings = std::get<Topology>(resolve(host)).warnings;
  REQUIRE(warnings.size() == 1);
  CHECK_THAT(warnings.front(), Catch::Contains("one of several Monarch hosts"));
  CHECK(std::get<Topology>(resolve(FakeHost({R"(MONARCH_SERVICE_PROC_IDS=["a"])"}))).warnings.empty());
}

TEST_CASE(
    "ClearML's node 0 does not take the processes of two nodes for nodes, with accelerators or without") {
  const std::vector<std::string> variables = {"CLEARML_PROC_MASTER_ID=7:t", "MASTER_ADDR=10.0.0.5", "RANK=0",
                                              "NODE_RANK=0", "WORLD_SIZE=16"};
  for (const unsigned accelerators : {0U, 8U}) {
    FakeHost host(variables);
    if (accelerators != 0) host.devices = node::DeviceCount{accelerators, "CUDA_VISIBLE_DEVICES"};
    const auto outcome = resolve(host);
    REQUIRE(std::holds_alternative<Faults>(outcome));
    CHECK_THAT(to_line(std::get<Faults>(outcome).front()),
               Catch::Contains("node 0 cannot tell which") && Catch::Contains("set NNODES to"));
    CHECK(part_in_job(std::get<Topology>(resolve(host, {"--nnodes=2"}))) == "node 0 of 2, master 10.0.0.5");
  }
  auto with_nnodes = variables;
  with_nnodes.emplace_back("NNODES=2");
  CHECK(part_in_job(std::get<Topology>(resolve(FakeHost(with_nnodes)))) == "node 0 of 2, master 10.0.0.5");
}

TEST_CASE("a recorded environment of one node is no suspected job of several") {
  for (const platform::Recording& recording : platform::recordings()) {
    if (recording.path.parent_path().filename() != "single-node") continue;
    INFO(recording.path.string());
    FakeHost host(recording.variables);
    recording.apply(host);
    CHECK(std::holds_alternative<Topology>(resolve(host, {"--strict"})));
  }
}

TEST_CASE("what is refused does not train alone because a variable or file is missing too") {
  for (const platform::Recording& recording : platform::recordings()) {
    FakeHost whole(recording.variables);
    recording.apply(whole);
    if (!std::holds_alternative<Faults>(resolve(whole))) continue;
    INFO(recording.path.string());
    without_each(recording, [&](const std::string& missing, const Host& host) {
      INFO("without " << missing);
      const auto outcome = resolve(host);
      const auto* topology = std::get_if<Topology>(&outcome);
      CHECK(
          (topology == nullptr || !topology->is_alone() || topology->is<Idle>() || is_all_there_is(missing)));
    });
  }
}

}  // namespace rankshim::topology
