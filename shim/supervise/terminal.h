#pragma once

#include <sys/types.h>

#include <boost/core/noncopyable.hpp>

#include "base/files.h"

namespace rankshim::supervise {

/// rankshim's controlling terminal. If rankshim is in its foreground, the command's group gets the
/// foreground. Without a terminal all functions do nothing; a refusal is a warning.
class Terminal : boost::noncopyable {
 public:
  /// Uses stdin, or /dev/tty if stdin is something else and rankshim leads the session. (If it does not lead
  /// it, a shell may have other programs of a pipeline in the same group, which must keep the terminal.)
  /// `command_has_its_own`: the command gets stdin as the terminal of a new session, which only the leader of
  /// the present session can give up; the other functions do nothing then.
  /// `keep`: the command gets no foreground, so that Ctrl-C sends its signal to rankshim. This does not apply
  /// if a background process that writes is stopped (stty tostop).
  Terminal(bool command_has_its_own, bool keep);

  /// The descriptor to lend to the command at its start, or −1.
  [[nodiscard]] int descriptor() const { return lent_ ? descriptor_ : -1; }

  /// The command was stopped. If that was Ctrl-Z, or because it reads or writes in the background, rankshim
  /// takes the terminal back and stops too, so that its parent sees it. If nothing could ever continue
  /// rankshim, the kernel does not let it stop, and the command must not stop either.
  void command_stopped(pid_t group, int signal);

  /// Continues a command that was stopped so, with the terminal if rankshim has it (fg); whether it was so.
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
