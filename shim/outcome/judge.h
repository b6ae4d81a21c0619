#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "outcome/look.h"
#include "outcome/outcome.h"

namespace rankshim::outcome {

using Time = std::chrono::steady_clock::time_point;

/// Whether who ended so was not stopped by its launcher because another worker of its node had failed:
/// programs answer a TERM by any exit code.
bool ended_by_itself(const Culprit& culprit);

/// What is known of a worker.
struct WorkerEvidence {
  unsigned rank = 0;
  std::optional<int> code;         ///< as an exit code; nullopt while it runs
  Time ended;                      ///< if it has
  std::optional<WorkerLook> look;  ///< what it did when somebody had failed
  std::optional<Hang> waited;      ///< of a victim: where, by its exception; the node's first has it there
};

/// What is known of a node.
struct NodeEvidence {
  std::string host;
  std::string address;
  std::optional<Culprit> failure;  ///< the first that it reported, but rather a timeout than a lost peer
  Time failed;                     ///< when that was reported
  std::optional<Culprit> further;  ///< after a victim's: the first that no peer caused
  std::string lost;                ///< "its connection ended"; empty: it is connected, or has ended well
  Time lost_since;                 ///< if it is lost
  bool is_silent = false;          ///< it was asked how its workers are, and did not answer
  std::vector<WorkerEvidence> workers;
};

/// What is known of the job when somebody has failed: a node for each node rank, and when all were launched.
struct Evidence {
  std::vector<NodeEvidence> nodes;
  Time launched;
  std::chrono::milliseconds slept{0};  ///< that the hub's process did not run (SIGSTOP); 0: it did
  unsigned hub = 0;                    ///< the node that has gathered this
};

/// Decides who is to blame, by the first row of the table that finds somebody:
///
/// - own failure: somebody failed, and not because of a peer. The first of these.
/// - asleep: connections are gone, and the hub's process did not run. The hub.
/// - cut off: at least two other nodes, and the connections of all are gone. The hub, as its network.
/// - lost node: a node's connection is gone. The first such node.
/// - exited early: ranks exited 0 before the first victim failed. These ranks.
/// - further failure: after a victim on the same node, a worker failed that lost no peer: a victim may end
///   before its culprit. The first such node's.
/// - silent node: nodes do not answer, and no more of them than have failed. The first such node.
/// - still running: ranks still run, or one ran until its launcher killed it, and a victim timed out. Where
///   all that run could be looked at, who hangs by outcome/hang.h; else these ranks, if no more of them than
///   have failed. Only by a look, and fewer than these, where NCCL's watchdog may have aborted the victims:
///   it does not say why.
/// - in different collectives: all nodes have failed, one timed out, and the victims' tracebacks end in
///   different collectives. Those that are not in the most frequent one; if there is none, nobody. Who sends
///   or receives while others are in a collective is to blame; if all do, nobody.
/// - first victim: anything else. The first victim, but rather one whose peer is on its own node.
///
/// Pure. nullopt if nobody failed and no node is lost.
std::optional<Culprit> judge(const Evidence& evidence);

}  // namespace rankshim::outcome
