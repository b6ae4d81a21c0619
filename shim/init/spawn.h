#pragma once

#include <sys/types.h>

#include <array>
#include <optional>
#include <string>
#include <vector>

namespace rankshim::supervise {

struct Command {
  std::vector<std::string> argv;  ///< not empty; argv[0] is looked up by PATH of `environment` (execvp(3))
  std::vector<std::string> environment;  ///< NAME=VALUE
};

/// Why a command was not started.
struct SpawnFailure {
  std::string call;  ///< what was refused: "pipe", "fork", "prctl", "execve"
  std::string path;  ///< of execve: the file it was about
  int error = 0;     ///< errno
  bool interpreter =
      false;  ///< ENOENT, and `path` is there: what it names in its first line or as its loader is not
};

/// A command on its way into a process of its own.
class Spawn {
 public:
  explicit Spawn(const Command& command);
  ~Spawn();
  Spawn(const Spawn&) = delete;
  Spawn& operator=(const Spawn&) = delete;

  /// Starts it in a process group of its own, with the signal mask and the ignored signals that we inherited,
  /// in the foreground of `terminal` where that is a descriptor and not −1. All signals stay blocked in the
  /// child until the moment before exec: one that is sent to it from now on is never lost. Whether exec
  /// succeeds is not waited for; but without a terminal we stand still as long as exec takes (an image or a
  /// file system that is slow).
  std::optional<SpawnFailure> start(int terminal) { return start(Start{.terminal = terminal}); }

  /// The same with more to be done in the child.
  struct Start {
    int terminal = -1;
    bool new_session = false;   ///< with stdin as its controlling terminal, instead of a group of its own
    int death_signal = 0;       ///< what the command gets when we end; 0: nothing
    bool no_new_privs = false;  ///< it can gain none; where that is refused it is not started
  };
  std::optional<SpawnFailure> start(const Start& how);

  [[nodiscard]] pid_t pid() const { return pid_; }

  /// To be asked when the process has ended: whether it never became the command, and why.
  std::optional<SpawnFailure> failure();

 private:
  struct Report;
  [[noreturn]] void become_command(int report, const Start& how, pid_t parent);

  std::vector<std::string> candidates_;
  std::vector<char*> argv_;
  std::vector<char*> shell_argv_;  // for a file that is no program: /bin/sh FILE ARG…
  std::vector<char*> environment_;
  /// Descriptors that are passed on say for whom they are (sd_listen_fds(3)): where that is us, it is the
  /// command.
  std::array<char, 32> listen_pid_{"LISTEN_PID="};
  pid_t pid_ = 0;
  int report_ = -1;
};

/// Closes those descriptors above 2 that the command was given and we were too: who reads the other end of
/// such a pipe sees its end when the command closes it. Ours are all close-on-exec, and stay. Without /proc
/// it does nothing.
void close_what_was_passed_on();

}  // namespace rankshim::supervise
