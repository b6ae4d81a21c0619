#pragma once

#include <chrono>
#include <string>

#include "node/node.h"

namespace rankshim {

/// What Python said: the exception's one line and its traceback, both with the secrets taken out.
struct PythonError {
  std::string message;    ///< "ValueError: boom"; empty where there is none
  std::string traceback;  ///< the whole of it, oldest call first
};

/// The error file that torch.distributed.elastic writes for a worker or the agent: {"message": {"message",
/// "extraInfo": {"py_callstack"}}}, or {"message": TEXT} (torch/distributed/elastic/multiprocessing/errors,
/// ErrorHandler). A script's @record, our part in Python's start and an agent's exception write one.
PythonError read_error_file(const Node& node, const std::string& path);

/// Whether the file was written since then; a shared folder may hold that of an earlier run.
bool is_newer(const std::string& path, std::chrono::steady_clock::time_point start);

}  // namespace rankshim
