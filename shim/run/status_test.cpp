#include <catch2/catch.hpp>

#include "run/status.h"

namespace rankshim::run::status {
namespace {

TEST_CASE("the folders of the socket are the option's alone, else /run, /dev/shm and TMPDIR") {
  const node::Environment environment({"TMPDIR=/scratch"});
  CHECK(socket_folders("/x", environment) == std::vector<std::string>{"/x"});
  CHECK(socket_folders("", environment) == std::vector<std::string>{"/run", "/dev/shm", "/scratch"});
  CHECK(socket_folders("", node::Environment()).back() == "/tmp");
}

TEST_CASE("an instance is well that has not failed") {
  CHECK(is_well(R"({"version":1,"phase":"run","failed":false})"));
  CHECK_FALSE(is_well(R"({"version":1,"phase":"held","failed":true})"));
  CHECK_FALSE(is_well(""));
}

TEST_CASE("an instance is ready while its command runs, and not while it waits, starts or winds down") {
  CHECK(is_ready(R"({"version":1,"phase":"run","failed":false})"));
  for (const std::string phase : {"resolve", "wait", "meet", "launch", "wind-down", "restart", "held"})
    CHECK_FALSE(is_ready(R"({"version":1,"phase":")" + phase + R"(","failed":false})"));
  CHECK_FALSE(is_ready(""));
}

}  // namespace
}  // namespace rankshim::run::status
