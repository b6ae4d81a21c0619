#pragma once

#include <string>
#include <vector>

#include "report/memory.h"
#include "torchrun/error_file.h"

namespace rankshim {

/// What is known of an end besides the wait statuses.
struct Details {
  /// By local rank, of the last attempt; shorter where no further worker wrote one.
  std::vector<PythonError> workers;
  PythonError agent;         ///< the launcher's own, or a copy of the worker's that failed first
  bool agent_tells = false;  ///< it would have told there if it had failed by itself
  MemoryReading memory;      ///< at the end, with oom_kills since the start
  std::string shm;           ///< what /dev/shm has left: "/dev/shm has 0 MiB of 64 MiB left"
};

}  // namespace rankshim
