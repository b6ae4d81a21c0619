#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <array>
#include <boost/core/noncopyable.hpp>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/fault.h"
#include "base/files.h"
#include "base/signals.h"
#include "node/accelerators.h"

namespace rankshim::supervise {

class Prepared;

struct Command {
  std::vector<std::string> argv;  ///< not empty; argv[0] is searched in PATH of `environment` (execvp(3))
  std::vector<std::string> environment;    ///< NAME=VALUE
  std::array<int, 2> output{-1, -1};       ///< what becomes its stdout and stderr; −1: rankshim's own
  std::optional<node::Affinity> affinity;  ///< its CPUs and memory; nullopt: rankshim's
  std::optional<rlimit> open_files;        ///< its limit on descriptors; nullopt: rankshim's
  std::string working_directory;           ///< empty: rankshim's
  int gate = -1;                           ///< a descriptor of rankshim that it inherits besides; −1: none
  /// It was started before (prepared.h): it is let go, and started only if that cannot be. May be null.
  std::shared_ptr<Prepared> prepared;
};

/// Why a command was not started.
struct SpawnFailure {
  std::string call;  ///< the call that was refused: "pipe", "fork", "execve"
  std::string path;  ///< for execve: the file that was found and refused, or the name that was not found
  int error = 0;     ///< errno
  /// ENOENT although `path` exists: the interpreter or loader that it names does not.
  bool interpreter = false;
};

/// A command that is being started in a new process.
class Spawn : boost::noncopyable {
 public:
  /// The command must live until start() has returned.
  explicit Spawn(const Command& command);

  /// Starts it in a new process group, with the inherited signal mask and ignored signals, and in the
  /// foreground of `terminal` unless that is −1. All signals are blocked in the child until just before exec,
  /// so that a signal sent to it from now on is never lost. Whether exec succeeds is not waited for; but
  /// without a terminal this process is suspended until exec returns (long on a slow file system).
  struct Start {
    int terminal = -1;
    bool new_session = false;  ///< with stdin as its controlling terminal, instead of a new group
    bool detached = false;     ///< in a session without a terminal, killed if rankshim is; instead of a group
    SignalSet ignored = 0;     ///< besides the inherited ones
  };
  std::optional<SpawnFailure> start(const Start& how);

  [[nodiscard]] pid_t pid() const { return pid_; }

  /// To be called when the process has ended. Returns a failure if the process never became the command.
  std::optional<SpawnFailure> failure();

 private:
  /// What the child writes to the close-on-exec pipe; shorter than PIPE_BUF, so that it arrives whole.
  struct Report {
    const char* warning;  // a literal, which both processes have at one address; null: exec has failed
    int error;
    std::size_t candidate = 0;
    bool exists = false;  // the candidate, although the error is ENOENT
  };
  void read_reports();
  [[noreturn]] void become_command(int report, const Start& how);

  const Command& command_;  // until start() has returned
  const std::string name_;  // as the command has it
  std::vector<std::string> candidates_;
  std::vector<char*> argv_;
  std::vector<char*> shell_argv_;  // for a file that is no program: /bin/sh FILE ARG…
  std::vector<char*> environment_;
  /// Socket activation names the process it is for (sd_listen_fds(3)): instead of rankshim, the command.
  std::array<char, 32> listen_pid_{"LISTEN_PID="};
  pid_t pid_ = 0;
  UniqueFd report_;
  std::optional<Report> failure_;
};

/// The exit code of a command that execve(2) refused with this errno: 127 if it was not found, 71 if the
/// system lacks something, else 126.
constexpr int exit_code_of_exec(int error) {
  if (error == ENOENT || error == ENOTDIR) return exit_code::not_found;
  const bool lacks_something = error == ENOMEM || error == EMFILE || error == ENFILE;
  return lacks_something ? exit_code::system : exit_code::not_executable;
}

/// Closes those descriptors above 2 that both rankshim and the command inherited: the reader of such a pipe
/// then sees its end when the command closes it. Descriptors that rankshim opened are all close-on-exec, and
/// stay. Without /proc this does nothing.
void close_what_was_passed_on();

/// What the kernel does not find when it executes this file, which is there: the interpreter of its first
/// line ("#!/bin/bash"), that one's own, or the dynamic loader of a program. Relative paths begin in
/// `folder`; empty: in the working directory. The result is empty if it is not known.
std::string missing_interpreter(std::string file, const std::filesystem::path& folder);

}  // namespace rankshim::supervise
