#pragma once

#include <sys/types.h>

namespace rankshim::supervise {

/// Our controlling terminal, where we are in its foreground and so may hand it to the command. Without one,
/// or in the background, everything here does nothing; no failure is more than a debug line.
class Terminal {
 public:
  /// Looks at stdin, and where that is something else and the session is ours at /dev/tty. (Where it is not
  /// ours, a shell may have other programs of a pipeline in our group, which must keep the terminal.)
  Terminal();
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  /// To hand over, or −1.
  [[nodiscard]] int descriptor() const { return descriptor_; }

  /// Back to our own group, when the command has ended.
  void take_back() const;

 private:
  int descriptor_ = -1;
  pid_t group_ = 0;
};

}  // namespace rankshim::supervise
