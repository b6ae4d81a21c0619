#pragma once

#include <sys/types.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "node/process.h"
#include "outcome/alone.h"
#include "outcome/outcome.h"
#include "supervise/signals.h"
#include "supervise/spawn.h"

namespace rankshim::supervise {

/// How one worker ended.
struct WorkerEnd {
  pid_t pid = 0;
  unsigned local_rank = 0;
  std::optional<unsigned> rank;  ///< in the whole job; nullopt if its environment could not be read
  int status = 0;                ///< as wait(2) gives it
  bool status_known = false;     ///< the kernel reported it; if false, it is only known to have ended
  std::chrono::steady_clock::time_point when;
  std::chrono::steady_clock::time_point started;  ///< when it was first seen
};

/// A worker of the current set.
struct WorkerState {
  pid_t pid = 0;
  unsigned local_rank = 0;
  std::optional<unsigned> rank;
  bool ended = false;
  std::chrono::steady_clock::time_point started = std::chrono::steady_clock::now();
};

/// This node's numbers when the launcher started its last set of workers; an elastic job's nodes come and go.
struct NodeNumbers {
  unsigned node_rank = 0;
  unsigned nodes = 0;
};

/// What a launcher knows about its workers.
struct WorkerRecord {
  bool followed = false;               ///< they are followed; if not, only the last four members can be set
  std::vector<WorkerState> states;     ///< the last set, in the order in which its workers were first seen
  std::vector<WorkerEnd> ends;         ///< of that set, in the order in which they ended
  std::optional<NodeNumbers> numbers;  ///< this node's, for that set
  std::optional<std::chrono::steady_clock::time_point> first_at;  ///< when the first worker was seen
  std::string error_folder;  ///< workers of the last set write their errors to LOCAL_RANK/error.json below it
  unsigned attempts = 0;     ///< 1 + the launcher's restarts; 0 if no worker was seen
  bool never_met = false;    ///< the other nodes never came, and the command was killed for that
  std::optional<outcome::Unreached> unreached;         ///< then, if it was connected to none of them
  std::optional<outcome::LoneTraining> lone_training;  ///< nullopt if nothing suggests it
  bool stopped_for_it = false;                         ///< the command was stopped because of lone_training

  /// The workers of the last set that still run, as /proc shows them.
  [[nodiscard]] std::vector<node::Process> running() const {
    std::vector<node::Process> found;
    for (const WorkerState& worker : states) {
      const auto process = worker.ended ? std::nullopt : node::read_process(worker.pid);
      if (process && process->alive()) found.push_back(*process);
    }
    return found;
  }

  /// Whether all workers of the last set have ended with this wait status.
  [[nodiscard]] bool all_ended_with(int status) const {
    return !ends.empty() && ends.size() == states.size() &&
           std::ranges::all_of(ends, [status](const WorkerEnd& worker) {
             return worker.status_known && worker.status == status;
           });
  }

  /// Records that a worker of the last set has ended, with its wait status if known. Returns null if no such
  /// worker was running.
  const WorkerEnd* add_end(pid_t pid, std::optional<int> status) {
    const auto worker =
        std::ranges::find_if(states, [pid](const WorkerState& one) { return one.pid == pid && !one.ended; });
    if (worker == states.end()) return nullptr;
    worker->ended = true;
    ends.push_back({pid, worker->local_rank, worker->rank, status.value_or(0), status.has_value(),
                    std::chrono::steady_clock::now(), worker->started});
    return &ends.back();
  }
};

/// A process that does not end, as /proc shows it.
struct HangingProcess {
  std::optional<unsigned> local_rank;  ///< of a worker
  std::optional<unsigned> rank;        ///< of a worker, in the whole job, if known
  pid_t pid = 0;
  std::string name;    ///< as in /proc/PID/comm; empty for a worker
  char state = '?';    ///< as in proc(5)
  std::string kernel;  ///< the kernel function in which it waits; empty if it does not, or if that is unknown
};

/// Processes that had not stopped that long after they were stopped.
struct NotStopped {
  std::vector<HangingProcess> processes;
  std::chrono::milliseconds after{0};
};

/// How the command ended.
struct ExitRecord {
  enum class Kind : std::uint8_t {
    exited,       ///< `number` is its exit code
    signalled,    ///< `number` is the signal that killed it
    not_started,  ///< `failure` says why; `number` is its errno
    withheld,     ///< it ran, but the kernel does not report how it ended; `number` is the errno of wait4
  };
  Kind kind = Kind::exited;
  int number = 0;
  SpawnFailure failure;
  std::string interpreter;  ///< the missing one (SpawnFailure::interpreter), if known
  /// The first stop while the command ran, with the signal before Policy::rewrite.
  std::optional<outcome::StopRequest> stop;
  std::optional<int> signal_after_order;  ///< a stop signal that came after a stop by order
  /// The first signal that rankshim itself must answer: one after the command's end that would have killed
  /// rankshim, or a stop signal that was not passed on before the end; for a hook, also one that came while
  /// it ran.
  std::optional<int> signal_for_rankshim;
  bool killed_by_us = false;      ///< rankshim itself ended the command, by KILL or by asking for its stacks
  unsigned leftovers = 0;         ///< how many processes were left when the command had ended
  unsigned leftovers_killed = 0;  ///< how many of these had to be killed
  /// The processes that had not stopped in time, before their stacks were printed and they were killed.
  std::optional<NotStopped> not_stopped;
  std::vector<HangingProcess> left_behind;  ///< the processes that survived SIGKILL
  pid_t pid = 0;                            ///< the command's; 0 if it was not started
  std::chrono::milliseconds ran{0};
  std::chrono::steady_clock::time_point started_at;               ///< just before the command was started
  std::optional<std::chrono::steady_clock::time_point> ended_at;  ///< when the command had ended
  WorkerRecord workers;

  /// Which stops count as one from outside.
  enum class During : std::uint8_t {
    command,  ///< those that came while the command ran
    anytime,  ///< also those that came after its end
  };

  /// The signal by which this node was stopped from outside; nullopt if it was not.
  [[nodiscard]] std::optional<int> stopped_from_outside(During during) const {
    if (during == During::anytime && signal_for_rankshim && is_stop_signal(*signal_for_rankshim))
      return signal_for_rankshim;
    return stop && stop->from_outside() ? std::optional(stop->signal) : signal_after_order;
  }
};

/// The exit code for this end: the command's own; 128 + its signal; 127 if it was not found, 126 if it cannot
/// be executed; 71 if the system refused to start it or does not report how it ended.
int exit_code_of(const ExitRecord& record);

/// The exit code for a wait status (wait(2)): the process's own, or 128 + its signal.
int exit_code_of_status(int status);

}  // namespace rankshim::supervise
