#include "platform/functions.h"

#include <catch2/catch.hpp>

using namespace rankshim::platform;

namespace {

std::string call(Function function, std::vector<std::string> arguments) {
  return compute(function, arguments).value_or("(nothing)");
}

}  // namespace

TEST_CASE("every function has one signature, and none is left out") {
  const auto first = static_cast<std::size_t>(Function::either) + 1;
  for (std::size_t i = 0; i < signatures.size(); ++i) {
    CHECK(static_cast<std::size_t>(signatures[i].function) == first + i);
    CHECK(signatures[i].least <= signatures[i].most);
  }
  CHECK(static_cast<std::size_t>(Function::differ) == first + signatures.size() - 1);
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
