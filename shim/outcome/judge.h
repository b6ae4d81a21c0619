#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "outcome/look.h"
#include "outcome/outcome.h"

namespace rankshim::outcome {

using Time = std::chrono::steady_clock::time_point;

/// Whether the worker certainly ended on its own, and was not stopped by its launcher because another worker
/// of its node had failed. A plain exit code proves nothing: programs answer a TERM with any code.
bool ended_by_itself(const Culprit& culprit);

/// What is known of a worker, by its rank in the job and the judging node's clock. supervise::WorkerEnd is
/// what the kernel of its own node reports, by pid, and link::WorkerReport what its node tells the hub, which
/// shares neither that node's pids nor its clock.
struct WorkerEvidence {
  unsigned rank = 0;
  std::optional<int> code;         ///< the exit code, or 128 + the signal; nullopt while it runs
  Time ended;                      ///< when it ended, if it has
  std::optional<WorkerLook> look;  ///< what it was doing when somebody had failed
  std::optional<Hang> waited;  ///< a victim's wait, by its exception; the node's first has it in `failure`
};

/// What is known of a node.
struct NodeEvidence {
  std::string host;
  std::string address;
  std::optional<Culprit> failure;  ///< the first one it reported; a timeout takes precedence over a lost peer
  Time failed;                     ///< when that was reported
  std::optional<Culprit> further;  ///< the first failure after a victim's that no peer caused
  std::optional<Loss> lost;        ///< nullopt if it is connected or has succeeded
  Time lost_since;                 ///< if it is lost
  bool took_part = true;           ///< false: a spare that has not come in this attempt, or was stopped
  bool is_silent = false;          ///< it did not answer when asked about its workers
  std::vector<WorkerEvidence> workers;
};

/// What is known of the job when somebody has failed.
struct Evidence {
  std::vector<NodeEvidence> nodes;     ///< by node rank
  Time launched;                       ///< when all nodes were launched
  std::chrono::milliseconds slept{0};  ///< for how long the hub's process did not run (SIGSTOP); 0 if it did
  unsigned hub = 0;                    ///< the node that gathered this
  bool is_outvoted = false;            ///< so many nodes are out of the hub's reach that they may go on alone
};

/// Decides who is to blame, by the first row of this table that finds somebody:
///
/// - own failure: nodes reported failures that no peer caused. To blame: the first of these.
/// - found to differ: torch has compared the ranks' collectives (TORCH_DISTRIBUTED_DEBUG=DETAIL). To blame:
///   the rank that most of them name, or else the first that failed; its message has both collectives.
/// - outvoted: more than half of all nodes are out of the hub's reach. To blame: the hub's own network.
/// - asleep: connections are gone, and the hub's process did not run for a while. To blame: the hub.
/// - cut off: at least two other nodes took part, the connections to all of them are gone, and nothing has
///   come from their machines since. To blame: the hub's own network.
/// - lost node: nodes' connections are gone. To blame: the first of these nodes.
/// - exited early: ranks exited 0 before the first victim failed. To blame: these ranks.
/// - further failure: after a victim, a worker of the same node failed that lost no peer; a victim may end
///   before its culprit. To blame: the one on the node that failed first.
/// - silent node: nodes do not answer, and there are no more of them than nodes that failed. To blame: the
///   first of them by rank.
/// - still running: a victim timed out, and ranks still run, or one ran until its launcher killed it. To
///   blame: if all running workers could be looked at, whoever hangs according to outcome/hang.h; else these
///   ranks, if there are no more of them than victims. If no victim reports a timeout but NCCL's watchdog may
///   have aborted some, which it does without saying why: only what the look shows, and only if fewer are to
///   blame than were aborted.
/// - in different collectives: all nodes failed, one timed out, and the victims' tracebacks end in different
///   collectives. To blame: the ranks outside the most frequent one, or nobody if no single one is. If some
///   ranks send or receive while others are in a collective, those; if all of them do, nobody.
/// - first victim: anything else. To blame: the first victim, preferably one whose lost peer is on its own
///   node.
///
/// Returns nullopt if nobody failed and no node is lost. Pure.
std::optional<Culprit> judge(const Evidence& evidence);

/// What a node knows that has lost the hub, and cannot reach it again.
struct HubLoss {
  unsigned node = 0;  ///< this one
  std::string host;
  unsigned hub = 0;
  std::string hub_host;
  std::optional<Culprit> failure;      ///< the first that this node reported
  Loss loss;                           ///< of the hub
  std::chrono::milliseconds slept{0};  ///< for how long this node's process did not run (SIGSTOP) before
};

/// Decides who is to blame when no hub can, by the first row of this table that fits:
///
/// - own failure: this node has reported a failure that no peer caused. To blame: that.
/// - asleep: this node's process did not run for a while, so the others have lost it. To blame: this node.
/// - lost hub: anything else. To blame: the hub.
///
/// Pure.
Culprit judge_hub_loss(const HubLoss& evidence);

}  // namespace rankshim::outcome
