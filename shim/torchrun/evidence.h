#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "init/supervise.h"
#include "node/node.h"
#include "report/memory.h"

namespace rankshim {

/// What Python said: the exception's one line and its traceback, both with the secrets taken out.
struct PythonError {
  std::string message;    ///< "ValueError: boom"; empty where there is none
  std::string traceback;  ///< the whole of it, oldest call first
};

/// What is known of an end besides the wait statuses.
struct Evidence {
  /// By local rank, of the last attempt; shorter where no further worker wrote one.
  std::vector<PythonError> workers;
  PythonError agent;         ///< the launcher's own, or a copy of the worker's that failed first
  bool agent_tells = false;  ///< it would have told there if it had failed by itself
  MemoryReading memory;      ///< at the end, with oom_kills since the start
  std::string shm;           ///< what /dev/shm has left: "/dev/shm has 0 MiB of 64 MiB left"
};

/// The error file that torch.distributed.elastic writes for a worker or the agent: {"message": {"message",
/// "extraInfo": {"py_callstack"}}}, or {"message": TEXT} (torch/distributed/elastic/multiprocessing/errors,
/// ErrorHandler). A script's @record, our part in Python's start and an agent's exception write one.
PythonError read_error_file(const Node& node, const std::string& path);

/// Whether the file was written since then; a shared folder may hold that of an earlier run.
bool is_newer(const std::string& path, std::chrono::steady_clock::time_point start);

/// How full /dev/shm is; empty where there is none.
std::string describe_shm();

}  // namespace rankshim
