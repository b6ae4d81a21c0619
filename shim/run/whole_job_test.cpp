#include "run/whole_job.h"

#include <catch2/catch.hpp>

#include "wait/test_network.h"

namespace rankshim {
namespace {

TEST_CASE("a token is a file's text, without the blanks around it", "[link]") {
  const wait::test::TemporaryFile plain("a token of a job"), edited("  a token of a job\n"),
      short_one("fifteen bytes..\n");
  const auto read = read_token(plain.path()), again = read_token(edited.path());
  REQUIRE(std::holds_alternative<link::Key>(read));
  REQUIRE(std::holds_alternative<link::Key>(again));
  CHECK(std::get<link::Key>(read).tag("x") == std::get<link::Key>(again).tag("x"));
  CHECK(std::get<link::Key>(read).tag("x") == link::Key("a token of a job").tag("x"));
  const auto why = [](const std::string& path) { return std::get<Faults>(read_token(path)).front().what; };
  CHECK(why(short_one.path()).ends_with(": it has 15 bytes"));
  CHECK(why("/nowhere") == "the job's token cannot be had from the file /nowhere: No such file or directory");
}

}  // namespace
}  // namespace rankshim
