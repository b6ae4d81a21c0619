#include "platform/host_list.h"

#include <catch2/catch.hpp>

using namespace rankshim::platform;

namespace {

std::string slurm(std::string_view list) {
  const auto hosts = expand_slurm(list);
  if (!hosts) return "(nothing)";
  std::string result;
  for (const auto& host : *hosts) result += (result.empty() ? "" : " ") + host;
  return result;
}

}  // namespace

TEST_CASE("a Slurm host list is written out as scontrol does") {
  CHECK(slurm("n1") == "n1");
  CHECK(slurm("n[1-3]") == "n1 n2 n3");
  CHECK(slurm("n[3,1-2]") == "n3 n1 n2");
  CHECK(slurm("n[098-101]") == "n098 n099 n100 n101");
  CHECK(slurm("n[9-010]") == "n9 n10");
  CHECK(slurm("n[1-,4]") == "n1 n4");
  CHECK(slurm("rack[1-2]node[1-3]") == "rack1node1 rack1node2 rack1node3 rack2node1 rack2node2 rack2node3");
  CHECK(slurm("a[1-2]x,b[3-4]y") == "a1x a2x b3y b4y");
  CHECK(slurm("login,gpu[0-1]") == "login gpu0 gpu1");
  CHECK(slurm("n[5],n[1-2]") == "n5 n1 n2");
}

TEST_CASE("a malformed or boundless Slurm host list is nothing") {
  for (const char* list :
       {"", ",", "n[", "n[1", "n]", "n[]", "n[a-b]", "n[1-2-3]", "n[3-1]", "n[-3]", "n[1-2]]", "n[[1]]",
        "n[0-99999999]", "n[0-999999999999999999999]", "n[1-300]m[1-300]"})
    CHECK(slurm(list) == "(nothing)");
  CHECK(slurm(std::string(300, 'n')) == "(nothing)");
}

TEST_CASE("Open MPI's node regex is written out as its daemons do") {
  const auto written = [](std::string_view regex) {
    std::string all;
    for (const std::string& host : expand_orte(regex).value_or(std::vector<std::string>{"(nothing)"}))
      all += (all.empty() ? "" : " ") + host;
    return all;
  };
  // What mpirun of Open MPI 4.1.4 handed on, and what its users' logs show.
  CHECK(written("pi-launcher,pi-worker-[1:0-1].pi.default.svc@0(3)") ==
        "pi-launcher pi-worker-0.pi.default.svc pi-worker-1.pi.default.svc");
  CHECK(written("pi-launcher,a[2:1-2],b@0(4)") == "pi-launcher a01 a02 b");
  CHECK(written("algo-[1:1-2]@0(2)") == "algo-1 algo-2");
  CHECK(written("n[2:9-10,7]x,m@0(3),4294967295") == "n09x n10x n07x m");
  CHECK(written("[3:1-2]@0(2)") == "001 002");
  CHECK(written("a,b") == "a b");
  for (const char* malformed :
       {"", "@0(2)", "a[", "a[2:", "a[2:1-3", "a[1-3]@0(3)", "a[2:]@0", "a[2:3-1]@0", "a[x:1-2]@0",
        "a[2:1,]@0", ",a@0", "a,,b@0", "a[9999:1-2]@0", "a[1:0-70000]@0"})
    CHECK(written(malformed) == "(nothing)");
}
