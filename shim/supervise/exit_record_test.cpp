#include "supervise/exit_record.h"

#include <catch2/catch.hpp>
#include <cerrno>
#include <csignal>
#include <string>

using namespace rankshim::supervise;
using Kind = ExitRecord::Kind;

TEST_CASE("each way to end has its exit code", "[exit code]") {
  struct Case {
    Kind kind;
    int number;
    std::string failed_call;
    int exit_code;
  };
  const auto row = GENERATE(values<Case>({
      {Kind::exited, 0, "", 0},
      {Kind::exited, 42, "", 42},
      {Kind::signalled, SIGKILL, "", 137},
      {Kind::signalled, SIGTERM, "", 143},
      {Kind::withheld, ECHILD, "", 71},
      {Kind::not_started, EAGAIN, "fork", 71},
      {Kind::not_started, ENOENT, "pipe", 71},
      {Kind::not_started, ENOENT, "execve", 127},
      {Kind::not_started, ENOTDIR, "execve", 127},
      {Kind::not_started, EACCES, "execve", 126},
      {Kind::not_started, ENOEXEC, "execve", 126},
      {Kind::not_started, ENOMEM, "execve", 71},
      {Kind::not_started, EMFILE, "execve", 71},
      {Kind::not_started, ENFILE, "execve", 71},
  }));
  ExitRecord record;
  record.kind = row.kind;
  record.number = row.number;
  record.failure.call = row.failed_call;
  CHECK(exit_code_of(record) == row.exit_code);
}
