#pragma once

#include <sys/types.h>

namespace rankshim::supervise {

/// Gets to know what happens while the command runs. Every call comes from the event loop and returns at
/// once. What an observer cannot do changes nothing for the command.
class Observer {
 public:
  Observer() = default;
  virtual ~Observer() = default;
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;

  /// The command runs.
  virtual void started(pid_t command) = 0;

  /// The first stop signal was passed on.
  virtual void stopping(int signal) = 0;

  /// The command has ended; what it left behind may still run.
  virtual void command_ended() = 0;
};

}  // namespace rankshim::supervise
