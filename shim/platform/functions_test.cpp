#include "platform/functions.h"

#include <catch2/catch.hpp>

using namespace rankshim::platform;

namespace {

std::string call(Function function, std::vector<std::string> arguments) {
  return compute(function, arguments).value_or("(nothing)");
}

std::string slurm(std::string_view list) {
  const auto hosts = expand_slurm(list);
  if (!hosts) return "(nothing)";
  std::string result;
  for (const auto& host : *hosts) result += (result.empty() ? "" : " ") + host;
  return result;
}

}  // namespace

TEST_CASE("every function has one signature, and none is left out") {
  for (std::size_t i = 0; i < signatures.size(); ++i) {
    CHECK(static_cast<std::size_t>(signatures[i].function) == i + 1);
    CHECK(signatures[i].least <= signatures[i].most);
  }
  CHECK(static_cast<std::size_t>(Function::differ) == signatures.size());
}

TEST_CASE("a function of the texts yields its text or nothing") {
  struct Case {
    Function function;
    std::vector<std::string> arguments;
    std::string expected;
  };
  const auto cases = std::to_array<Case>({
      {Function::before, {"job-node-0-3", "-node-0-"}, "job"},
      {Function::before, {"a-b-c", "-"}, "a-b"},
      {Function::before, {"abc", "-"}, "(nothing)"},
      {Function::before, {"-c", "-"}, "(nothing)"},
      {Function::after, {"a-b-c", "-"}, "c"},
      {Function::after, {"a-", "-"}, "(nothing)"},
      {Function::ordinal, {"web-0"}, "0"},
      {Function::ordinal, {"web-12.web.default.svc.cluster.local"}, "12"},
      {Function::ordinal, {"web-007"}, "7"},
      {Function::ordinal, {"web"}, "(nothing)"},
      {Function::ordinal, {"web-"}, "(nothing)"},
      {Function::ordinal, {"web-5d8f"}, "(nothing)"},
      {Function::ordinal, {"web-99999999999999999999"}, "(nothing)"},
      {Function::host, {"job-worker-0:23456"}, "job-worker-0"},
      {Function::host, {"job-worker-0"}, "job-worker-0"},
      {Function::host, {"[fd00::1]:29500"}, "fd00::1"},
      {Function::host, {"[fd00::1]"}, "fd00::1"},
      {Function::host, {"fd00::1"}, "fd00::1"},
      {Function::host, {"[fd00::1"}, "(nothing)"},
      {Function::host, {"[fd00::1]x"}, "(nothing)"},
      {Function::host, {":29500"}, "(nothing)"},
      {Function::port, {"job-worker-0:23456"}, "23456"},
      {Function::port, {"[fd00::1]:29500"}, "29500"},
      {Function::port, {"fd00::1"}, "(nothing)"},
      {Function::port, {"job-worker-0"}, "(nothing)"},
      {Function::port, {"job-worker-0:"}, "(nothing)"},
      {Function::hosts, {"a,b,c"}, "a,b,c"},
      {Function::hosts, {"a\nb\n\na\n"}, "a,b"},
      {Function::hosts, {"a slots=8\nb slots=8 max-slots=9\n"}, "a,b"},
      {Function::hosts, {"# made by mpi-operator\na:8\nb:8 # last\n"}, "a,b"},
      {Function::hosts, {"10.0.0.1:8, 10.0.0.2:8"}, "10.0.0.1,10.0.0.2"},
      {Function::hosts, {"h1 8 h2 8"}, "h1,h2"},
      {Function::hosts, {"[fd00::1]:22,fd00::2"}, "fd00::1,fd00::2"},
      {Function::hosts, {"n[1-3],m"}, "(nothing)"},
      {Function::hosts, {" ,\n"}, "(nothing)"},
      {Function::hosts, {"a,b", "b\nc"}, "a,b,c"},
      {Function::slurm_tasks, {"2(x3),1", "0"}, "2"},
      {Function::slurm_tasks, {"2(x3),1", "2"}, "2"},
      {Function::slurm_tasks, {"2(x3),1", "3"}, "1"},
      {Function::slurm_tasks, {"2(x3),1", "4"}, "(nothing)"},
      {Function::slurm_tasks, {"4", "0"}, "4"},
      {Function::slurm_tasks, {"2(x", "0"}, "(nothing)"},
      {Function::slurm_tasks, {"2(xy)", "0"}, "(nothing)"},
      {Function::slurm_tasks, {",", "0"}, "(nothing)"},
      {Function::slurm_tasks, {"8(x18446744073709551615),1", "70000"}, "8"},
      {Function::first_host, {"job-master-0.job"}, "job-master-0.job"},
      {Function::first_host, {"10.0.0.7\n10.0.0.8"}, "10.0.0.7"},
      {Function::first_host, {"#"}, "(nothing)"},
      {Function::position, {"b", "a,b,c"}, "1"},
      {Function::position, {"B.example", "a.example\nb.example"}, "1"},
      {Function::position, {"b", "a.example b.example"}, "1"},
      {Function::position, {"b.example", "a,b"}, "1"},
      {Function::position, {"b.one", "a.two,b.two"}, "(nothing)"},
      {Function::position, {"b.job.ns.svc", "a.job,B.job"}, "1"},
      {Function::position, {"b.job", "a.job.ns.svc,b.job.ns.svc"}, "1"},
      {Function::position, {"b.jo", "a.job,b.job"}, "(nothing)"},
      {Function::position, {"10.0.0", "10.0.0.1"}, "(nothing)"},
      {Function::position, {"b", "b.one,b.two"}, "(nothing)"},
      {Function::position, {"10", "10.0.0.1"}, "(nothing)"},
      {Function::position, {"c", "a,a,b,b,c,c"}, "2"},
      {Function::position, {"x", "a,b"}, "(nothing)"},
      {Function::count, {"a,b,c"}, "3"},
      {Function::count, {"0, 1,,2\n3 "}, "4"},
      {Function::count, {"GPU-5f1c"}, "1"},
      {Function::count, {" , "}, "(nothing)"},
      {Function::index, {"2", "0,2,1,2"}, "1"},
      {Function::index, {"02", "0,2"}, "(nothing)"},
      {Function::index, {"0", " , "}, "(nothing)"},
      {Function::add, {"1", "2", "39"}, "42"},
      {Function::add, {"1", "x"}, "(nothing)"},
      {Function::add, {"18446744073709551615", "1"}, "(nothing)"},
      {Function::subtract, {"5", "2"}, "3"},
      {Function::subtract, {"2", "5"}, "(nothing)"},
      {Function::multiply, {"4", "8"}, "32"},
      {Function::multiply, {"4294967296", "4294967296"}, "(nothing)"},
      {Function::divide, {"16", "8"}, "2"},
      {Function::divide, {"17", "8"}, "(nothing)"},
      {Function::divide, {"1", "0"}, "(nothing)"},
      {Function::modulo, {"7", "4"}, "3"},
      {Function::modulo, {"7", "0"}, "(nothing)"},
      {Function::larger, {"16", "2"}, "16"},
      {Function::larger, {"2", "2"}, "(nothing)"},
      {Function::differ, {"2", "3"}, "2"},
      {Function::differ, {"2", "02"}, "(nothing)"},
      {Function::differ, {"a", "a"}, "(nothing)"},
      {Function::differ, {"2", "2-"}, "2"},
      {Function::divide, {" 16\n", "8"}, "2"},
      {Function::divide, {"-16", "8"}, "(nothing)"},
      {Function::divide, {"1.5", "1"}, "(nothing)"},
  });
  for (const Case& one : cases) {
    CAPTURE(static_cast<int>(one.function), one.arguments);
    CHECK(call(one.function, one.arguments) == one.expected);
  }
}

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
  CHECK(call(Function::slurm_hosts, {"n[1-2],m"}) == "n1,n2,m");
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

TEST_CASE("a glob fits the whole text") {
  CHECK(fits("job-master-0", "*-master-0"));
  CHECK(fits("job-master-0", "job-*-?"));
  CHECK(fits("", "*"));
  CHECK(fits("abcabc", "*abc"));
  CHECK(fits("a*b", "a*b"));
  CHECK_FALSE(fits("job-master-0.job", "*-master-0"));
  CHECK_FALSE(fits("", "?"));
  CHECK_FALSE(fits("abc", "ab"));
  CHECK_FALSE(fits("Abc", "abc"));
  CHECK_FALSE(fits(std::string(100'000, 'a'), "*a*a*a*a*b"));
}
