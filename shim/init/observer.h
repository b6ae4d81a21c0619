#pragma once

#include <sys/types.h>

namespace rankshim::supervise {

class WorkerWatch;

/// Who wants to know what happens while the command runs. Every call comes from the event loop and returns
/// at once; what it throws is a warning of the supervisor's and changes nothing.
class Observer {
 public:
  Observer() = default;
  virtual ~Observer() = default;
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;

  /// The command runs. `workers` is null where no workers are followed, and valid until the supervision
  /// is over.
  virtual void started(pid_t command, const WorkerWatch* workers) = 0;

  /// The first stop signal was passed on.
  virtual void stopping(int signal) = 0;

  /// The command has ended; what it left behind may still run.
  virtual void command_ended() = 0;
};

}  // namespace rankshim::supervise
