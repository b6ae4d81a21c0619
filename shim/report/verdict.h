#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fault.h"
#include "launchers/launcher.h"
#include "launchers/torchrun/error_file.h"
#include "link/message.h"
#include "node/cgroup.h"
#include "node/oom_kills.h"
#include "settings/settings.h"
#include "supervise/ending.h"

namespace rankshim {

/// What is known of an end besides the wait statuses.
struct Details {
  std::map<unsigned, PythonError> workers;  ///< by local rank, for the last attempt
  PythonError agent;  ///< the launcher's, or its copy of the error of the worker that failed first
  bool agent_writes_error = false;  ///< the launcher would have written one if it had failed by itself
  /// The worker that failed first, as the last torchrun of the command tells it that has failed.
  std::optional<supervise::WorkerEnd> told_by_torchrun;
  MemoryReading memory;              ///< at the end; oom_kills counts from the start
  std::string port_holder;           ///< if the port is the reason: "port 29500 is held by python3 (pid 17)"
  std::string shm;                   ///< the free space in /dev/shm: "/dev/shm has 0 MiB of 64 MiB left"
  bool has_accelerators = true;      ///< so that NCCL's watchdog may have ended a worker
  std::map<pid_t, OomEvidence> oom;  ///< of the ends, by process
};

/// What failed first by itself, and how.
struct RootCause {
  std::string_view who;  ///< "worker", "launcher", "program"
  std::optional<unsigned> local_rank;
  std::optional<unsigned> rank;
  pid_t pid = 0;
  int code = 0;                ///< in the shell's convention
  std::optional<int> signal;   ///< the signal that ended it
  bool out_of_memory = false;  ///< the kernel killed it, or one of its processes, at the cgroup's limit
  bool timed_out = false;      ///< it lost its peer by waiting in vain
  bool lost_peer = false;      ///< it ended like a worker whose peer on another node is gone
  const PythonError* error = nullptr;  ///< a pointer into the details; null if it left none
  std::string_view source;             ///< of this information: "kernel", "error file"
  std::optional<std::chrono::steady_clock::time_point> when;
};

/// A worker's end as the cause; what it and the kernel have left of it is in the details. `source` is who
/// tells of it.
RootCause cause_of(const supervise::WorkerEnd& worker, std::string_view source, const Details& details);

/// Why it ended, in one word.
outcome::Cause cause_of(const RootCause& root);

/// The same for the other nodes: "ended with code 1 (ValueError: boom)".
outcome::Culprit as_failure(const RootCause& root);

/// How a run ended, for the exit code and for messages.
struct Verdict {
  int code = 0;
  Cause cause = Cause::none;
  std::string sentence;            ///< "train.py ended with code 3 after 12 s"
  bool failed = false;             ///< whether it is logged as an error
  bool is_doubtful = false;        ///< a success that is logged as a warning
  Anchor anchor = Anchor::none;    ///< of an end that rankshim explains, for the end of the last line
  std::vector<std::string> lines;  ///< what stderr gets instead of the sentence, if it is more
  std::string point;               ///< how the sentence begins if it points to another node
  std::optional<RootCause> root;
  std::optional<link::Stop> ended_for;  ///< the other node that this one was ended for
};

/// The command's end counts, after a stop too. A launcher's exit code says nothing about its workers, so with
/// one the result is, in this order: that of the first worker of the last set that failed by itself before
/// any stop and before the launcher's end; 0 if all workers had ended with 0 before a stop; 128 + the stop's
/// signal, however the workers ended then, because a job that was stopped is not done; the launcher's own. If
/// --strict ended a node that trains alone, that is the cause, with code 78. If a torchrun in a command has
/// failed, its worker is the cause, with the command's code; if that is 0 it hides the failure, and with
/// `strict` the code is the worker's.
/// `numbers` are this node's in the job; nothing if it is alone. `details` must outlive the verdict.
Verdict judge(const supervise::Ending& ending, const LaunchChoice& choice, const LaunchPlan& plan,
              const Details& details, const std::optional<supervise::NodeNumbers>& numbers = std::nullopt,
              bool strict = false);

/// The verdict's code, after --exit-map.
int exit_code_of(const Verdict& verdict, const Settings& settings);

}  // namespace rankshim
