#pragma once

#include <sys/types.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "node/process.h"
#include "outcome/outcome.h"
#include "supervise/signals.h"
#include "supervise/spawn.h"

namespace rankshim::supervise {

/// How one worker ended.
struct WorkerEnd {
  pid_t pid = 0;
  unsigned local_rank = 0;
  std::optional<unsigned> rank;  ///< in the whole job, if its environment could be read
  int status = 0;                ///< as wait(2) gives it
  bool status_known = false;     ///< the kernel reported it; otherwise it is only known to have ended
  std::chrono::steady_clock::time_point when;
  std::chrono::steady_clock::time_point started;  ///< when it was seen first
};

/// A worker of the current set.
struct WorkerState {
  pid_t pid = 0;
  unsigned local_rank = 0;
  std::optional<unsigned> rank;
  bool ended = false;
  std::chrono::steady_clock::time_point started = std::chrono::steady_clock::now();
};

/// This node's numbers when the launcher started its last set of workers: an elastic job's nodes come and go.
struct NodeNumbers {
  unsigned node_rank = 0;
  unsigned nodes = 0;
};

/// What a launcher knows about its workers.
struct WorkerRecord {
  bool followed = false;               ///< they are followed; if not, only the last four members can be set
  std::vector<WorkerState> states;     ///< the last set, in the order in which its workers were seen
  std::vector<WorkerEnd> ends;         ///< of that set, in the order of their ends
  std::optional<NodeNumbers> numbers;  ///< of this node in that set
  std::optional<std::chrono::steady_clock::time_point> first_at;  ///< when the first worker was seen
  std::string error_folder;   ///< a worker of the last set left its error in LOCAL_RANK/error.json below it
  unsigned attempts = 0;      ///< 1 + the launcher's restarts; 0 if no worker was seen
  bool never_met = false;     ///< the other nodes did not come, and the command was killed for that
  std::string unreached;      ///< then: "torchrun could not reach …", if it was not connected to any of them
  std::string trains_alone;   ///< "this node trains alone: worker 12 has WORLD_SIZE=8, but …"; empty if there
                              ///< is no sign
  std::string trained_alone;  ///< then: "trained alone (world 8 of 16)"
  bool stopped_for_it = false;  ///< the command was stopped because of trains_alone

  /// Those of the last set that run, as /proc shows them.
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

  /// Adds the end of one of the last set, with its wait status if known. Null if no such one was running.
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

/// ExitRecord is how the command ended.
struct ExitRecord {
  enum class Kind : std::uint8_t {
    exited,       ///< `number` is its exit code
    signalled,    ///< `number` is the signal that killed it
    not_started,  ///< `failure` says why; `number` is its errno
    withheld,     ///< it ran, and the kernel does not report how it ended; `number` is the errno of wait4
  };
  Kind kind = Kind::exited;
  int number = 0;
  SpawnFailure failure;
  std::string interpreter;  ///< the one that is missing (SpawnFailure::interpreter), if it is known
  /// The first stop while the command ran; its signal is the one before Policy::rewrite.
  std::optional<outcome::StopRequest> stop;
  std::optional<int> signal_after_order;  ///< a stop signal that came after that order
  /// The first signal after the command's end that would have ended rankshim, or a stop signal that was not
  /// passed on before the end; for a hook, also one that came while it ran.
  std::optional<int> late_signal;
  bool killed_by_us = false;  ///< rankshim ended the command itself: by KILL, or when asking for its stacks
  unsigned leftovers = 0;     ///< processes that still existed when the command had ended
  unsigned leftovers_killed = 0;  ///< of these, how many had to be killed
  /// The processes that had not stopped in time, before stacks and KILL: "worker 0 (rank 8, pid 17, state S,
  /// in futex_do_wait) did not stop in 1.6 s".
  std::string did_not_stop;
  std::string left_behind;  ///< the processes that survived SIGKILL: "17 (dd, state D, in folio_wait_bit), …"
  pid_t pid = 0;            ///< the command's; 0 if it was not started
  std::chrono::milliseconds ran{0};
  std::chrono::steady_clock::time_point started_at;               ///< just before the command was started
  std::optional<std::chrono::steady_clock::time_point> ended_at;  ///< when the command had ended
  WorkerRecord workers;

  /// The signal by which somebody outside stopped this node, at any time; nullopt if nobody did.
  [[nodiscard]] std::optional<int> stopped_from_outside() const {
    return late_signal && is_stop_signal(*late_signal) ? late_signal : command_stopped_from_outside();
  }

  /// The same while the command ran.
  [[nodiscard]] std::optional<int> command_stopped_from_outside() const {
    const bool by_order = stop && stop->by == outcome::StopRequest::By::order;
    if (by_order || !stop) return signal_after_order;
    return stop->signal;
  }
};

/// The exit code of this end: the command's own; 128 + its signal; 127 if it was not found, 126 if it cannot
/// be executed; 71 if the system refused to start it or does not report how it ended.
int exit_code_of(const ExitRecord& record);

/// The same for a wait status, as wait(2) gives it.
int exit_code_of_status(int status);

}  // namespace rankshim::supervise
