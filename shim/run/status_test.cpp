#include <catch2/catch.hpp>

#include "run/status.h"

namespace rankshim::status {
namespace {

TEST_CASE("the folders of the socket are the option's alone, else /run, /dev/shm and TMPDIR") {
  const Environment environment({"TMPDIR=/scratch"});
  CHECK(socket_folders("/x", environment) == std::vector<std::string>{"/x"});
  CHECK(socket_folders("", environment) == std::vector<std::string>{"/run", "/dev/shm", "/scratch"});
  CHECK(socket_folders("", Environment()).back() == "/tmp");
}

TEST_CASE("an instance is well that has not failed") {
  CHECK(is_well(R"({"version":1,"phase":"run","failed":false})"));
  CHECK_FALSE(is_well(R"({"version":1,"phase":"held","failed":true})"));
  CHECK_FALSE(is_well(""));
}

}  // namespace
}  // namespace rankshim::status
