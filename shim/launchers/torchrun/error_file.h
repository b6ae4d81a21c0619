#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "node/node.h"

namespace rankshim {

/// A Python exception: its one line and its traceback, both redacted.
struct PythonError {
  std::string message;    ///< "ValueError: boom"; empty if there is none
  std::string traceback;  ///< complete, the oldest call first
};

/// Reads the error file that torch.distributed.elastic writes for a worker or the agent: {"message":
/// {"message", "extraInfo": {"py_callstack"}}}, or {"message": TEXT}
/// (torch/distributed/elastic/multiprocessing/errors, ErrorHandler). A file that is larger than 1 MiB or
/// incomplete is read as far as possible. Such a file comes from a script's @record, from rankshim's
/// sitecustomize.py or from an exception of the agent.
PythonError read_error_file(const Node& node, const std::string& path);

/// A worker that failed first, as torchrun tells it (python/sitecustomize.py, tell_failure).
struct FailedWorker {
  unsigned rank = 0;
  unsigned local_rank = 0;
  pid_t pid = 0;
  int exitcode = 0;  ///< Python's: below 0, the signal that ended it
};

/// Nothing if there is no such file.
std::optional<FailedWorker> read_failure(const Node& node, const std::string& path);

/// The state of a file, without opening it; all 0 if it does not exist. If two states differ, the file was
/// written in between, regardless of the clocks of the machines that share it.
struct FileState {
  std::uint64_t device = 0, inode = 0;
  std::int64_t size = 0, seconds = 0, nanoseconds = 0;
  bool operator==(const FileState&) const = default;
};
FileState state_of(const std::string& path);

}  // namespace rankshim
