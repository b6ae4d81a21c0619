#include "base/log.h"

#include <fcntl.h>
#include <pty.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <string>

namespace rankshim::log {
namespace {

struct Ends {
  int reader = -1;
  int writer = -1;
  Ends() = default;
  Ends(const Ends&) = delete;
  Ends& operator=(const Ends&) = delete;
  ~Ends() {
    close(reader);
    close(writer);
  }
};

/// Fills it as another writer would; a blocking write would hang the test.
void check(const Ends& ends) {
  const int flags = fcntl(ends.writer, F_GETFL);
  CHECK(write_what_fits(ends.writer, "first\n") >= 0);
  std::array<char, 16> read_back{};
  CHECK(read(ends.reader, read_back.data(), read_back.size()) >= 6);
  CHECK(std::string(read_back.data(), 5) == "first");
  const std::string line(4096, 'x');
  int taken = 0;
  // Refused once is enough: a terminal makes room again from a worker of the kernel's.
  while (taken < 10'000 && write_what_fits(ends.writer, line) >= 0) ++taken;
  CHECK(taken < 10'000);
  CHECK(fcntl(ends.writer, F_GETFL) == flags);
}

TEST_CASE("a line that would wait is not written, and the descriptor's flags are as they were",
          "[log][attack]") {
  SECTION("pipe") {
    Ends ends;
    REQUIRE(pipe2(&ends.reader, O_CLOEXEC) == 0);
    check(ends);
  }
  SECTION("socket") {
    Ends ends;
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, &ends.reader) == 0);
    check(ends);
  }
  SECTION("terminal") {
    Ends ends;
    REQUIRE(openpty(&ends.reader, &ends.writer, nullptr, nullptr, nullptr) == 0);
    check(ends);
  }
}

TEST_CASE("a line is written to a file at its current offset", "[log]") {
  std::string path = "/tmp/rankshim-test-XXXXXX";
  const int file = mkstemp(path.data());
  REQUIRE(file >= 0);
  unlink(path.c_str());
  REQUIRE(write(file, "a", 1) == 1);
  CHECK(write_what_fits(file, "line\n") >= 0);
  CHECK(lseek(file, 0, SEEK_CUR) == 6);
  close(file);
  CHECK(write_what_fits(file, "nowhere\n") < 0);
}

}  // namespace
}  // namespace rankshim::log
