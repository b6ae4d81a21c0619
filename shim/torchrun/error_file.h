#pragma once

#include <cstdint>
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
/// ErrorHandler). Of a file that is larger than 1 MiB, or was not written to its end, what there is. A
/// script's @record, our part in Python's start and an agent's exception write one.
PythonError read_error_file(const Node& node, const std::string& path);

/// How a file looks without its being opened; all 0 where it is not there. Two looks that differ: it was
/// written in between, whatever the clocks of the machines that share it say.
struct FileState {
  std::uint64_t device = 0, inode = 0;
  std::int64_t size = 0, seconds = 0, nanoseconds = 0;
  bool operator==(const FileState&) const = default;
};
FileState state_of(const std::string& path);

}  // namespace rankshim
