#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "node/process.h"
#include "supervise/exit_record.h"
#include "supervise/kernel.h"

/// Works on the command's processes, as /proc shows them: signals them, and tells how they handle signals and
/// where they hang.
namespace rankshim::supervise {

/// Combines the results of sending a signal to two receivers, as kill(2) does for a group: 0 if one got it,
/// −ESRCH if neither exists, else −errno of the refusal.
inline int either(int one, int other) {
  if (one >= 0 || other >= 0) return 0;
  return one == -ESRCH ? other : one;
}

/// Sends a signal to this process, never to another that has reused its pid. Returns 0 or −errno.
int send_to(const node::Process& process, const Signal& signal);

/// Sends a signal to each of these that is alive; returns either() of all results.
int send_each(const std::vector<node::Process>& processes, const Signal& signal);

/// How a process handles signals (proc(5), SigCgt, SigIgn, SigBlk).
struct SignalMasks {
  SignalSet caught = 0;
  SignalSet ignored = 0;
  SignalSet blocked = 0;
  /// Whether the signal does not kill the process at once. A process that blocks it waits for it with
  /// sigwait(3).
  [[nodiscard]] bool take(int signal) const { return ((caught | ignored | blocked) & bit(signal)) != 0; }
  /// Whether the process acts on the signal.
  [[nodiscard]] bool handle(int signal) const { return ((caught | blocked) & bit(signal)) != 0; }
};

/// Reads a process's masks; nullopt if it is gone, or /proc does not show them (gVisor).
std::optional<SignalMasks> signal_masks(pid_t pid);

/// Whether the process is younger than a minute. A Python script installs its handlers after its imports; if
/// an older one has none, it will never have any.
bool is_young(const node::Process& process);

/// The processes among `all` that get a signal meant only for processes that handle it: the topmost ones at
/// or below `roots`. One that handles it is responsible for its children, as in next_after(); one that
/// ignores it, or would be killed by it, is skipped.
std::vector<node::Process> handlers_below(std::vector<node::Process> roots,
                                          const std::vector<node::Process>& all, int signal);

/// The processes among `all` to which a stop, on its way down the command's tree, goes next after `process`
/// has got it. A process that does not handle the signal is killed by it, and the signal goes on to its
/// children. One that catches, ignores or blocks it is responsible for its children: a script that saves when
/// it is stopped keeps the helpers that it needs for that.
///
/// A shell is not responsible for the command in its foreground, because it runs its trap only when that has
/// ended. And for INT and QUIT, which a terminal sends to the whole group, a process that ignores them may
/// only be waiting for a child that does not (system(3), time(1)).
std::vector<node::Process> next_after(const node::Process& process, const std::vector<node::Process>& all,
                                      int signal);

/// How long a process may take to print its stacks before it is killed: a fifth of its grace, at most a
/// second. Python's fault handler needs milliseconds.
std::chrono::milliseconds time_for_stacks(std::chrono::milliseconds grace);

/// The processes that have not stopped: the workers that still run or, if there are none, all processes.
std::vector<HangingProcess> find_hanging(const std::vector<node::Process>& processes,
                                         const std::vector<WorkerState>& workers = {});

/// The first five for messages: "worker 1 (rank 9, pid 17, state S, in futex_do_wait), 18 (python3, state R),
/// and 3 more". The state is that of proc(5): R running, S sleeping, D in the kernel, T stopped.
std::string in_words(const std::vector<HangingProcess>& processes);

}  // namespace rankshim::supervise
