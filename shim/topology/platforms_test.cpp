#include <catch2/catch.hpp>

#include "platform/recording_for_test.h"
#include "topology/resolve_for_test.h"

/// What profiles and topology promise together: no node trains alone in silence, and nothing is guessed.

namespace rankshim {
namespace {

/// A platform's only sign cannot be named if it is missing; it has to be an error nevertheless.
bool is_the_only_sign(std::string_view variable) {
  return variable == "TORCHELASTIC_RUN_ID" || variable == "MINDX_TASK_ID" || variable == "TORCHX_JOB_ID";
}

/// No other variable shows that this part of the job does not train.
bool is_the_only_sign_of_the_role(std::string_view variable) {
  return variable == "K_MPI_JOB_ROLE" || variable == "NODE_TYPE" || variable == "SLURM_HET_SIZE";
}

/// Without it nothing indicates other nodes: the one variable of an Indexed Job or of TensorFlow, a rank
/// table at its usual path, variables set by hand.
bool is_all_there_is(std::string_view missing) {
  return missing == "JOB_COMPLETION_INDEX" || missing == "TF_CONFIG" ||
         missing == "/user/config/jobstart_hccl.json" || missing == "NNODES" || missing.starts_with("AFO_") ||
         missing == "BATCH_HOSTS_FILE" || missing == "/valohai/config/distributed.json";
}

void check_without(const std::string& missing, const Node& node, const std::string& expected) {
  INFO("without " << missing);
  const auto outcome = resolve(node);
  if (const auto* topology = std::get_if<Topology>(&outcome))
    if (topology->platform == "single-node" && is_all_there_is(missing)) return;
  if (expected.empty()) {  // a role that does not train: it must not begin to
    const auto* topology = std::get_if<Topology>(&outcome);
    CHECK((topology == nullptr || topology->is<Idle>() || is_the_only_sign_of_the_role(missing)));
  } else if (const auto* topology = std::get_if<Topology>(&outcome)) {
    // A file can be the platform's only sign; without it there is none.
    if (missing.starts_with('/') && topology->platform == "single-node") return;
    if (topology->is<Idle>()) return;                            // a script is refused there
    const bool host = topology->hosts_master().value_or(false);  // which may have its name or localhost
    // Where each node has one process, its number is the node's.
    const auto number = [&](const std::string& text) {
      return text.substr(5, host ? text.find(',') - 5 : std::string::npos);
    };
    CHECK(number(part_in_job(*topology)) == number(expected));
  } else {
    const auto& faults = std::get<Faults>(outcome);
    INFO(to_line(faults.front()));
    CHECK((names(faults, missing) || is_the_only_sign(missing)));
  }
}

/// Calls check(NAME, NODE) with each of the recording's variables and files missing.
template <class Check>
void without_each(const platform::Recording& recording, Check check) {
  for (std::size_t i = 0; i < recording.variables.size(); ++i) {
    auto variables = recording.variables;
    variables.erase(variables.begin() + static_cast<std::ptrdiff_t>(i));
    FakeNode node(variables);
    recording.apply(node);
    check(std::string(entry_name(recording.variables[i])), node);
  }
  for (const auto& [path, content] : recording.files) {
    FakeNode node(recording.variables);
    recording.apply(node);
    const bool mounted = path.starts_with("/etc/");  // a ConfigMap's files come and go together
    std::erase_if(node.files, [&](const auto& file) {
      return file.first == path || (mounted && file.first.starts_with("/etc/"));
    });
    check(path, node);
  }
}

}  // namespace

TEST_CASE(
    "with one variable or file of a recorded environment missing the place is the same, or it is named") {
  for (const platform::Recording& recording : platform::recordings()) {
    INFO(recording.path.string());
    FakeNode whole(recording.variables);
    recording.apply(whole);
    const auto outcome = resolve(whole);
    const auto* topology = std::get_if<Topology>(&outcome);
    if (topology == nullptr || topology->is_alone()) continue;
    const std::string expected = !topology->is<Idle>() ? part_in_job(*topology) : std::string();
    without_each(recording, [&](const std::string& missing, const Node& node) {
      check_without(missing, node, expected);
    });
  }
}

TEST_CASE("a recorded environment of one node is no suspected job of several") {
  for (const platform::Recording& recording : platform::recordings()) {
    if (recording.path.parent_path().filename() != "single-node") continue;
    INFO(recording.path.string());
    FakeNode node(recording.variables);
    recording.apply(node);
    CHECK(std::holds_alternative<Topology>(resolve(node, {"--strict"})));
  }
}

TEST_CASE("what is refused does not train alone because a variable or file is missing too") {
  for (const platform::Recording& recording : platform::recordings()) {
    FakeNode whole(recording.variables);
    recording.apply(whole);
    if (!std::holds_alternative<Faults>(resolve(whole))) continue;
    INFO(recording.path.string());
    without_each(recording, [&](const std::string& missing, const Node& node) {
      INFO("without " << missing);
      const auto outcome = resolve(node);
      const auto* topology = std::get_if<Topology>(&outcome);
      CHECK(
          (topology == nullptr || !topology->is_alone() || topology->is<Idle>() || is_all_there_is(missing)));
    });
  }
}

}  // namespace rankshim
