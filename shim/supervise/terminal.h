#pragma once

#include <sys/types.h>

#include <boost/core/noncopyable.hpp>

#include "base/files.h"

namespace rankshim::supervise {

/// rankshim's controlling terminal. If rankshim is in its foreground, the command's group gets the
/// foreground. Without a terminal all functions do nothing. A refusal is logged as a warning.
class Terminal : boost::noncopyable {
 public:
  /// Uses stdin, or /dev/tty if stdin is something else and rankshim leads the session. (If not, a shell may
  /// have put other programs of a pipeline into the same group, which must keep the terminal.)
  /// `command_has_its_own`: the command gets stdin as the terminal of a new session, which only the leader of
  /// the current session can give up; the other functions then do nothing. `keep`: rankshim keeps the
  /// foreground, so that Ctrl-C signals rankshim; ignored if the terminal stops background processes that
  /// write (stty tostop).
  Terminal(bool command_has_its_own, bool keep);

  /// The descriptor to lend to the command at its start, or −1.
  [[nodiscard]] int descriptor() const { return lent_ ? descriptor_ : -1; }

  /// Handles a command that was suspended. If that was Ctrl-Z, or because it read or wrote in the background,
  /// rankshim takes the terminal back and suspends itself too, so that its parent sees it. If nothing could
  /// ever continue rankshim, the kernel does not suspend it, and the command must not stay suspended either.
  void command_stopped(pid_t group, int signal);

  /// Continues a command that was suspended like that, giving it the terminal if rankshim has it (fg).
  /// Returns whether it was.
  bool continue_command(pid_t group);

  /// Takes the foreground back for rankshim's group.
  void take_back();

 private:
  void lend(pid_t group);

  UniqueFd opened_;
  int descriptor_ = -1;
  pid_t group_ = 0;
  bool keep_ = false;
  bool lent_ = false;
  bool stopped_ = false;
};

}  // namespace rankshim::supervise
