#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <array>
#include <boost/core/noncopyable.hpp>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fault.h"
#include "base/files.h"
#include "base/signals.h"
#include "node/accelerators.h"

namespace rankshim::supervise {

class Prepared;

struct Command {
  std::vector<std::string> argv;  ///< not empty; argv[0] is looked up in PATH of `environment` (execvp(3))
  std::vector<std::string> environment;    ///< NAME=VALUE
  std::array<int, 2> output{-1, -1};       ///< its stdout and stderr; −1: rankshim's own
  std::optional<node::Affinity> affinity;  ///< its CPUs and memory; nullopt: rankshim's
  std::optional<rlimit> open_files;        ///< its limit on open files; nullopt: rankshim's
  std::string working_directory;           ///< empty: rankshim's
  int gate = -1;                           ///< another descriptor of rankshim that it inherits; −1: none
  /// The same command, if it was started early (prepared.h): it is let go, and started anew only if that
  /// fails. May be null.
  std::shared_ptr<Prepared> prepared;
};

/// Why a command was not started.
struct SpawnFailure {
  enum class Call : std::uint8_t { pipe, fork, execve };
  Call call = Call::execve;  ///< the one that failed
  std::string path;          ///< for execve: the file that was refused, or the name that was not found
  int error = 0;             ///< errno
  /// ENOENT although `path` exists, because the interpreter or loader that it names does not.
  bool interpreter = false;
};

/// "execve".
std::string_view name(SpawnFailure::Call call);

/// A command that is being started in a new process.
class Spawn : boost::noncopyable {
 public:
  /// The command must live until start() has returned.
  explicit Spawn(const Command& command);

  /// Options for start(), which starts the command in a new process group, with the inherited signal mask and
  /// ignored signals, and in the foreground of `terminal` unless that is −1. All signals are blocked in the
  /// child until just before exec, so that a signal sent to it from now on is never lost. start() does not
  /// wait for exec to succeed; but without a terminal, vfork(2) suspends this process until exec returns
  /// (long on a slow file system).
  struct Start {
    int terminal = -1;
    bool new_session = false;  ///< instead of a new group, with stdin as its controlling terminal
    bool detached = false;  ///< in a session without a terminal instead of a group, and killed if rankshim is
    SignalSet ignored = 0;  ///< besides the inherited ones
  };
  std::optional<SpawnFailure> start(const Start& how);

  [[nodiscard]] pid_t pid() const { return pid_; }

  /// Call this when the process has ended. Returns a failure if the process never became the command.
  std::optional<SpawnFailure> failure();

 private:
  /// A message from the child through the close-on-exec pipe; shorter than PIPE_BUF, so that it arrives
  /// whole.
  struct Report {
    const char* warning;  // a literal, at the same address in both processes; null: exec has failed
    int error;
    std::size_t candidate = 0;
    bool exists = false;  // the candidate does, although the error is ENOENT
  };
  void read_reports();
  [[noreturn]] void become_command(int report, const Start& how);

  const Command& command_;  // until start() has returned
  const std::string name_;  // as in the command
  std::vector<std::string> candidates_;
  std::vector<char*> argv_;
  std::vector<char*> shell_argv_;  // for a file that is not a program: /bin/sh FILE ARG…
  std::vector<char*> environment_;
  /// Socket activation names the process that it is for (sd_listen_fds(3)); this names the command instead of
  /// rankshim.
  std::array<char, 32> listen_pid_{"LISTEN_PID="};
  pid_t pid_ = 0;
  UniqueFd report_;
  std::optional<Report> failure_;
};

/// The exit code for a command that execve(2) refused with this errno: 127 if it was not found, 71 if the
/// system lacks memory or descriptors, else 126.
constexpr int exit_code_of_exec(int error) {
  if (error == ENOENT || error == ENOTDIR) return exit_code::not_found;
  const bool lacks_something = error == ENOMEM || error == EMFILE || error == ENFILE;
  return lacks_something ? exit_code::system : exit_code::not_executable;
}

/// Closes the descriptors above 2 that rankshim and the command both inherited, so that the reader of such a
/// pipe sees its end when the command closes it. Descriptors that rankshim opened are all close-on-exec, and
/// stay open. Does nothing without /proc.
void close_what_was_passed_on();

/// What the kernel fails to find when it executes this existing file: the interpreter in its first line
/// ("#!/bin/bash"), the interpreter's own, or a program's dynamic loader. Relative paths start at `folder`,
/// or at the working directory if that is empty. Returns an empty text if unknown.
std::string missing_interpreter(std::string file, const std::filesystem::path& folder);

}  // namespace rankshim::supervise
