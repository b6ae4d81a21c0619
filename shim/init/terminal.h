#pragma once

#include <sys/types.h>

namespace rankshim::supervise {

/// Our controlling terminal. Where we are in its foreground it is lent to the command's group; while that is
/// stopped (Ctrl-Z) it is taken back, so that a shell can have it, and lent again when we are continued in
/// the foreground (fg). Without a terminal everything here does nothing; a refusal is a warning.
class Terminal {
 public:
  /// Looks at stdin, and where that is something else and the session is ours at /dev/tty. (Where it is not
  /// ours, a shell may have other programs of a pipeline in our group, which must keep the terminal.)
  /// `command_has_its_own`: the command gets stdin as the terminal of a session of its own, which only the
  /// leader of ours can give up; everything else here does nothing then.
  /// `keep`: the command does without the foreground, so that what is typed (Ctrl-C) comes to us. Not where
  /// what writes in the background is stopped (stty tostop).
  Terminal(bool command_has_its_own, bool keep);
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  /// To be lent to the command at its start, or −1.
  [[nodiscard]] int descriptor() const { return lent_ ? descriptor_ : -1; }

  /// Whether the command's stops are ours too.
  [[nodiscard]] bool is_there() const { return descriptor_ >= 0; }

  /// To the command's group, where we are in the foreground now.
  void lend(pid_t group);

  /// The command wants the foreground after all. Returns whether it has it now.
  bool share(pid_t group);

  /// Back to our own group.
  void take_back();

 private:
  int descriptor_ = -1;
  pid_t group_ = 0;
  bool keep_ = false;
  bool lent_ = false;
};

}  // namespace rankshim::supervise
