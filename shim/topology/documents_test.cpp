#include <catch2/catch.hpp>

#include "node/fake_host_for_test.h"
#include "topology/resolve_for_test.h"

namespace rankshim::topology {

using node::FakeHost;

TEST_CASE("a rank table that does not agree with itself or with RANK_SIZE is refused") {
  const auto refused = [](std::string table, std::vector<std::string> variables = {}) {
    variables.emplace_back("XDL_IP=10.0.0.2");
    FakeHost host(std::move(variables));
    host.files["/user/config/jobstart_hccl.json"] = std::move(table);
    const auto outcome = resolve(host);
    const auto* faults = std::get_if<Faults>(&outcome);
    return faults != nullptr && names(*faults, "/user/config/jobstart_hccl.json");
  };
  const auto table = [](const char* servers) {
    return std::string(R"({"status":"completed","server_count":")") + servers +
           R"(","server_list":[{"server_id":"10.0.0.1","device":[{"device_id":"0","rank_id":"0"},)"
           R"({"device_id":"1","rank_id":"1"}]},{"server_id":"10.0.0.2","device":[{"device_id":"0","rank_id":"2"}]}]})";
  };
  const std::string named = "RANK_TABLE_FILE=/user/config/jobstart_hccl.json";
  CHECK(refused(table("3")));
  CHECK(refused(table("2"), {"RANK_SIZE=4"}));
  CHECK_FALSE(refused(table("2"), {"RANK_SIZE=3"}));
  // one process per NPU
  CHECK(refused(table("3"), {named, "RANK_SIZE=3", "RANK_ID=2", "DEVICE_ID=0"}));
  CHECK(refused(table("2"), {named, "RANK_SIZE=4", "RANK_ID=2", "DEVICE_ID=0"}));
  CHECK_FALSE(refused(table("2"), {named, "RANK_SIZE=3", "RANK_ID=2", "DEVICE_ID=0"}));

  FakeHost other({"XDL_IP=10.0.0.2"});
  other.files["/user/serverid/devindex/config/hccl.json"] = table("3");
  CHECK(std::holds_alternative<Faults>(resolve(other)));

  FakeHost smaller({"XDL_IP=10.0.0.2"});
  smaller.files["/user/config/jobstart_hccl.json"] = table("2");
  const auto outcome = resolve(smaller);
  REQUIRE(std::holds_alternative<Topology>(outcome));
  CHECK(std::get<Topology>(outcome).facts.text(Fact::nproc_per_node) == "1");  // not the first server's
}

TEST_CASE("a resourceconfig.json of SageMaker without a host, or with several groups, is refused and named") {
  for (const char* content : {R"({"hosts":["algo-1","algo-2"]})",
                              R"({"current_host":"algo-2","hosts":["algo-1","algo-2"],"instance_groups":)"
                              R"([{"instance_group_name":"a"},{"instance_group_name":"b"}]})"}) {
    FakeHost host({});
    host.files["/opt/ml/input/config/resourceconfig.json"] = content;
    const auto outcome = resolve(host);
    REQUIRE(std::holds_alternative<Faults>(outcome));
    CHECK(names(std::get<Faults>(outcome), "/opt/ml/input/config/resourceconfig.json"));
  }
}

TEST_CASE("a rank table that is initializing is a fault that passes and names its file") {
  FakeHost host({});
  host.files["/user/config/jobstart_hccl.json"] = R"({"status": "initializing"})";
  const auto outcome = resolve(host);
  REQUIRE(std::holds_alternative<Faults>(outcome));
  const Fault& fault = std::get<Faults>(outcome).front();
  CHECK(fault.transient);
  CHECK(names({fault}, "/user/config/jobstart_hccl.json"));
  CHECK(fault.what.find("initializing") != std::string::npos);
}

TEST_CASE("a document that is set and cannot be read is refused and named, in every profile that reads it") {
  struct Row {
    std::vector<std::string> variables;
    std::string file, name;
  };
  constexpr const char* broken = R"({"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker")";
  const std::vector<Row> rows = {
      {{std::string("TF_CONFIG=") + broken}, "", "TF_CONFIG"},
      {{std::string("CLUSTER_SPEC=") + broken}, "", "CLUSTER_SPEC"},
      {{"SM_HOSTS=[\"algo-1\",", "SM_CURRENT_HOST=algo-1"}, "", "SM_HOSTS"},
      {{}, "/opt/ml/input/config/resourceconfig.json", ""},
      {{"DET_MASTER=m", "DET_CLUSTER_ID=x", "DET_EXPERIMENT_ID=1", "DET_SLOT_IDS=[0]"},
       "/run/determined/info/rendezvous.json",
       ""},
      {{}, "/user/config/jobstart_hccl.json", ""},
  };
  for (const Row& row : rows) {
    FakeHost host(row.variables);
    if (!row.file.empty()) host.files[row.file] = broken;
    INFO(row.file << row.name);
    const auto outcome = resolve(host);
    REQUIRE(std::holds_alternative<Faults>(outcome));
    const Fault& fault = std::get<Faults>(outcome).front();
    CHECK_THAT(fault.what, Catch::Contains("is not JSON (unexpected end of data at byte"));
    CHECK(fault.names == std::vector<std::string>{row.file.empty() ? row.name : row.file});
    CHECK(fault.transient == (row.file == "/user/config/jobstart_hccl.json"));  // it is being written
  }
  CHECK(std::holds_alternative<Topology>(
      resolve(FakeHost({std::string("TF_CONFIG=") + broken}), {"--platform=none"})));
}

TEST_CASE(
    "a task of TensorFlow that is not the first does not train alone, whatever its cluster looks like") {
  for (const char* config :
       {R"({"task": {"type": "worker", "index": 1}})",
        R"({"cluster": {"worker": "a:1,b:1"}, "task": {"type": "worker", "index": 1}})",
        R"({"cluster": {"Worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 1}})"}) {
    INFO(config);
    CHECK(std::holds_alternative<Faults>(resolve(FakeHost({std::string("TF_CONFIG=") + config}))));
  }
  CHECK(std::get<Topology>(resolve(FakeHost({R"(TF_CONFIG={"task": {"index": 0}})"}))).is_alone());
}

}  // namespace rankshim::topology
