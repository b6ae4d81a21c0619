#include "supervise/exit_record.h"

#include <catch2/catch.hpp>
#include <cerrno>
#include <csignal>

using namespace rankshim::supervise;
using Kind = ExitRecord::Kind;
using Call = SpawnFailure::Call;

TEST_CASE("each way to end has its exit code", "[exit code]") {
  struct Case {
    Kind kind;
    int number;
    Call failed_call;
    int exit_code;
  };
  const auto row = GENERATE(values<Case>({
      {Kind::exited, 0, Call::execve, 0},
      {Kind::exited, 42, Call::execve, 42},
      {Kind::signalled, SIGKILL, Call::execve, 137},
      {Kind::signalled, SIGTERM, Call::execve, 143},
      {Kind::withheld, ECHILD, Call::execve, 71},
      {Kind::not_started, EAGAIN, Call::fork, 71},
      {Kind::not_started, ENOENT, Call::pipe, 71},
      {Kind::not_started, ENOENT, Call::execve, 127},
      {Kind::not_started, ENOTDIR, Call::execve, 127},
      {Kind::not_started, EACCES, Call::execve, 126},
      {Kind::not_started, ENOEXEC, Call::execve, 126},
      {Kind::not_started, ENOMEM, Call::execve, 71},
      {Kind::not_started, EMFILE, Call::execve, 71},
      {Kind::not_started, ENFILE, Call::execve, 71},
  }));
  ExitRecord record;
  record.kind = row.kind;
  record.number = row.number;
  record.failure.call = row.failed_call;
  CHECK(exit_code_of(record) == row.exit_code);
}
