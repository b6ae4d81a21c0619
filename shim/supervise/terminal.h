#pragma once

#include <sys/types.h>

#include <boost/core/noncopyable.hpp>

#include "base/files.h"

namespace rankshim::supervise {

/// rankshim's controlling terminal. If rankshim is in its foreground, the command's group gets the
/// foreground. While that group is stopped (Ctrl-Z), rankshim takes it back for the shell, and lends it again
/// when it is continued in the foreground (fg). Without a terminal all functions do nothing; a refusal is a
/// warning.
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

  /// Whether rankshim stops when the command does.
  [[nodiscard]] bool is_there() const { return descriptor_ >= 0; }

  /// Gives the foreground to the command's group if rankshim has it now.
  void lend(pid_t group);

  /// The command needs the foreground after all. Returns whether it has it now.
  bool share(pid_t group);

  /// Takes the foreground back for rankshim's group.
  void take_back();

 private:
  Descriptor opened_;
  int descriptor_ = -1;
  pid_t group_ = 0;
  bool keep_ = false;
  bool lent_ = false;
};

}  // namespace rankshim::supervise
