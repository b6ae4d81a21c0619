#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launchers/torchrun/error_file.h"
#include "report/memory.h"

namespace rankshim {

/// What is known of an end besides the wait statuses.
struct Details {
  /// By local rank, for the last attempt; shorter if no further worker wrote one.
  std::vector<PythonError> workers;
  PythonError agent;  ///< the launcher's, or its copy of the error of the worker that failed first
  bool agent_writes_error = false;  ///< the launcher would have written one if it had failed by itself
  /// The worker that failed first, as the last torchrun of the command tells it that has failed.
  std::optional<FailedWorker> told_by_torchrun;
  MemoryReading memory;  ///< at the end; oom_kills counts from the start
  std::string shm;       ///< the free space in /dev/shm: "/dev/shm has 0 MiB of 64 MiB left"
};

}  // namespace rankshim
