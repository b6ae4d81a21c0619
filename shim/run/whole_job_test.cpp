#include "run/whole_job.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <fstream>

#include "base/files.h"
#include "wait/test_network.h"

namespace rankshim::run {
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
  CHECK(why("/nowhere") == "cannot read the job's token from the file /nowhere: No such file or directory");
}

TEST_CASE("a token that is none, or that others can choose, is refused", "[link][attack]") {
  const auto why = [](const std::string& text, mode_t mode = 0600) -> std::string {
    const wait::test::TemporaryFile file;
    std::ofstream(file.path(), std::ios::binary) << text;
    REQUIRE(chmod(file.path().c_str(), mode) == 0);
    const auto read = read_token(file.path());
    const auto* faults = std::get_if<Faults>(&read);
    if (faults == nullptr) return "";
    const std::string& what = faults->front().what;
    return what.substr(what.find(": ") + 2);
  };
  CHECK(why(std::string(16, '\0')) == "it has 16 bytes, but fewer than 4 different bytes");
  CHECK(why("abcabcabcabcabcabc") == "it has 18 bytes, but fewer than 4 different bytes");
  CHECK(why("abcdabcdabcdabcd").empty());
  CHECK(why(std::string("\0\x01\xFF\x02 a token of bytes", 21)).empty());
  CHECK(why("a token of a job" + std::string(largest_file - 16, 'x')).empty());
  CHECK(why("a token of a job" + std::string(largest_file - 15, 'x')) == "it is larger than 1 MiB");
  CHECK(why("a token of a job", 0666) == "it is world-writable (chmod o-w)");
  CHECK(why("a token of a job", 0602) == "it is world-writable (chmod o-w)");
  CHECK(why("a token of a job", 0664).empty());  // a volume of Kubernetes with fsGroup
}

}  // namespace
}  // namespace rankshim::run
