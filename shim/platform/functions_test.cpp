#include "platform/expression.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <utility>

using namespace rankshim::platform;

namespace {

std::string call(std::string_view name, std::vector<std::string> arguments) {
  return signature(function_named(name).value()).compute(arguments).value_or("(nothing)");
}

/// The hosts separated by spaces.
std::string hosts(const std::string& list) {
  std::string all = call("slurm_hosts", {list});
  std::ranges::replace(all, ',', ' ');
  return all;
}

}  // namespace

TEST_CASE("every function has its place, and can be called") {
  for (const Signature& one : signatures()) {
    CAPTURE(one.name);
    CHECK(&signature(function_named(one.name).value()) == &one);
    CHECK(one.least <= one.most);
  }
  for (const auto& [name, function] :
       {std::pair("variables", Function::variables), std::pair("join", Function::join),
        std::pair("field", Function::field), std::pair("differ", Function::differ)})
    CHECK(function_named(name) == function);
}

TEST_CASE("a function of the texts yields its text or nothing") {
  struct Case {
    std::string_view function;
    std::vector<std::string> arguments;
    std::string expected;
  };
  const auto cases = std::to_array<Case>({
      {"before", {"job-node-0-3", "-node-0-"}, "job"},
      {"before", {"a-b-c", "-"}, "a-b"},
      {"before", {"abc", "-"}, "(nothing)"},
      {"before", {"-c", "-"}, "(nothing)"},
      {"after", {"a-b-c", "-"}, "c"},
      {"after", {"a-", "-"}, "(nothing)"},
      {"ordinal", {"web-0"}, "0"},
      {"ordinal", {"web-12.web.default.svc.cluster.local"}, "12"},
      {"ordinal", {"web-007"}, "7"},
      {"ordinal", {"web"}, "(nothing)"},
      {"ordinal", {"web-"}, "(nothing)"},
      {"ordinal", {"web-5d8f"}, "(nothing)"},
      {"ordinal", {"web-99999999999999999999"}, "(nothing)"},
      {"host", {"job-worker-0:23456"}, "job-worker-0"},
      {"host", {"job-worker-0"}, "job-worker-0"},
      {"host", {"[fd00::1]:29500"}, "fd00::1"},
      {"host", {"[fd00::1]"}, "fd00::1"},
      {"host", {"fd00::1"}, "fd00::1"},
      {"host", {"[fd00::1"}, "(nothing)"},
      {"host", {"[fd00::1]x"}, "(nothing)"},
      {"host", {":29500"}, "(nothing)"},
      {"port", {"job-worker-0:23456"}, "23456"},
      {"port", {"[fd00::1]:29500"}, "29500"},
      {"port", {"fd00::1"}, "(nothing)"},
      {"port", {"job-worker-0"}, "(nothing)"},
      {"port", {"job-worker-0:"}, "(nothing)"},
      {"hosts", {"a,b,c"}, "a,b,c"},
      {"hosts", {"a\nb\n\na\n"}, "a,b"},
      {"hosts", {"a slots=8\nb slots=8 max-slots=9\n"}, "a,b"},
      {"hosts", {"# made by mpi-operator\na:8\nb:8 # last\n"}, "a,b"},
      {"hosts", {"10.0.0.1:8, 10.0.0.2:8"}, "10.0.0.1,10.0.0.2"},
      {"hosts", {"h1 8 h2 8"}, "h1,h2"},
      {"hosts", {"[fd00::1]:22,fd00::2"}, "fd00::1,fd00::2"},
      {"hosts", {"n[1-3],m"}, "(nothing)"},
      {"hosts", {" ,\n"}, "(nothing)"},
      {"hosts", {"a,b", "b\nc"}, "a,b,c"},
      {"slurm_tasks", {"2(x3),1", "0"}, "2"},
      {"slurm_tasks", {"2(x3),1", "2"}, "2"},
      {"slurm_tasks", {"2(x3),1", "3"}, "1"},
      {"slurm_tasks", {"2(x3),1", "4"}, "(nothing)"},
      {"slurm_tasks", {"4", "0"}, "4"},
      {"slurm_tasks", {"2(x", "0"}, "(nothing)"},
      {"slurm_tasks", {"2(xy)", "0"}, "(nothing)"},
      {"slurm_tasks", {",", "0"}, "(nothing)"},
      {"slurm_tasks", {"8(x18446744073709551615),1", "70000"}, "8"},
      {"first_host", {"job-master-0.job"}, "job-master-0.job"},
      {"first_host", {"10.0.0.7\n10.0.0.8"}, "10.0.0.7"},
      {"first_host", {"#"}, "(nothing)"},
      {"position", {"b", "a,b,c"}, "1"},
      {"position", {"B.example", "a.example\nb.example"}, "1"},
      {"position", {"b", "a.example b.example"}, "1"},
      {"position", {"b.example", "a,b"}, "1"},
      {"position", {"b.one", "a.two,b.two"}, "(nothing)"},
      {"position", {"b.job.ns.svc", "a.job,B.job"}, "1"},
      {"position", {"b.job", "a.job.ns.svc,b.job.ns.svc"}, "1"},
      {"position", {"b.jo", "a.job,b.job"}, "(nothing)"},
      {"position", {"10.0.0", "10.0.0.1"}, "(nothing)"},
      {"position", {"b", "b.one,b.two"}, "(nothing)"},
      {"position", {"10", "10.0.0.1"}, "(nothing)"},
      {"position", {"c", "a,a,b,b,c,c"}, "2"},
      {"position", {"x", "a,b"}, "(nothing)"},
      {"count", {"a,b,c"}, "3"},
      {"count", {"0, 1,,2\n3 "}, "4"},
      {"count", {"GPU-5f1c"}, "1"},
      {"count", {" , "}, "(nothing)"},
      {"index", {"2", "0,2,1,2"}, "1"},
      {"index", {"02", "0,2"}, "(nothing)"},
      {"index", {"0", " , "}, "(nothing)"},
      {"add", {"1", "2", "39"}, "42"},
      {"add", {"1", "x"}, "(nothing)"},
      {"add", {"18446744073709551615", "1"}, "(nothing)"},
      {"subtract", {"5", "2"}, "3"},
      {"subtract", {"2", "5"}, "(nothing)"},
      {"multiply", {"4", "8"}, "32"},
      {"multiply", {"4294967296", "4294967296"}, "(nothing)"},
      {"divide", {"16", "8"}, "2"},
      {"divide", {"17", "8"}, "(nothing)"},
      {"divide", {"1", "0"}, "(nothing)"},
      {"modulo", {"7", "4"}, "3"},
      {"modulo", {"7", "0"}, "(nothing)"},
      {"larger", {"16", "2"}, "16"},
      {"larger", {"2", "2"}, "(nothing)"},
      {"differ", {"2", "3"}, "2"},
      {"differ", {"2", "02"}, "(nothing)"},
      {"differ", {"a", "a"}, "(nothing)"},
      {"differ", {"2", "2-"}, "2"},
      {"divide", {" 16\n", "8"}, "2"},
      {"divide", {"-16", "8"}, "(nothing)"},
      {"divide", {"1.5", "1"}, "(nothing)"},
  });
  for (const Case& one : cases) {
    CAPTURE(one.function, one.arguments);
    CHECK(call(one.function, one.arguments) == one.expected);
  }
}

TEST_CASE("a Slurm host list is written out as scontrol does") {
  CHECK(hosts("n1") == "n1");
  CHECK(hosts("n[1-3]") == "n1 n2 n3");
  CHECK(hosts("n[3,1-2]") == "n3 n1 n2");
  CHECK(hosts("n[098-101]") == "n098 n099 n100 n101");
  CHECK(hosts("n[9-010]") == "n9 n10");
  CHECK(hosts("n[1-,4]") == "n1 n4");
  CHECK(hosts("rack[1-2]node[1-3]") == "rack1node1 rack1node2 rack1node3 rack2node1 rack2node2 rack2node3");
  CHECK(hosts("a[1-2]x,b[3-4]y") == "a1x a2x b3y b4y");
  CHECK(hosts("login,gpu[0-1]") == "login gpu0 gpu1");
  CHECK(hosts("n[5],n[1-2]") == "n5 n1 n2");
}

TEST_CASE("a malformed or boundless Slurm host list is nothing") {
  for (const char* list :
       {"", ",", "n[", "n[1", "n]", "n[]", "n[a-b]", "n[1-2-3]", "n[3-1]", "n[-3]", "n[1-2]]", "n[[1]]",
        "n[0-99999999]", "n[0-999999999999999999999]", "n[1-300]m[1-300]"})
    CHECK(hosts(list) == "(nothing)");
  CHECK(hosts(std::string(300, 'n')) == "(nothing)");
}

TEST_CASE("Open MPI's node regex up to its @ is written out as its daemons do") {
  // What mpirun of Open MPI 4.1.4 handed on, and what its users' logs show.
  CHECK(hosts("pi-launcher,pi-worker-[1:0-1].pi.default.svc") ==
        "pi-launcher pi-worker-0.pi.default.svc pi-worker-1.pi.default.svc");
  CHECK(hosts("pi-launcher,a[2:1-2],b") == "pi-launcher a01 a02 b");
  CHECK(hosts("algo-[1:1-2]") == "algo-1 algo-2");
  CHECK(hosts("n[2:9-10,7]x,m") == "n09x n10x n07x m");
  CHECK(hosts("[3:1-2]") == "001 002");
  CHECK(hosts("a,b") == "a b");
  for (const char* malformed : {"", "a[", "a[2:", "a[2:1-3", "a[2:]", "a[2:3-1]", "a[x:1-2]", "a[2:1,]",
                                "a[9999:1-2]", "a[1:0-70000]"})
    CHECK(hosts(malformed) == "(nothing)");
}
