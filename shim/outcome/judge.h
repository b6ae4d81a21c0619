#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "outcome/outcome.h"

namespace rankshim::outcome {

using Time = std::chrono::steady_clock::time_point;

/// What is known of a worker.
struct WorkerEvidence {
  unsigned rank = 0;
  std::optional<int> code;  ///< as an exit code; nullopt while it runs
  Time ended;               ///< if it has
};

/// What is known of a node.
struct NodeEvidence {
  std::string host;
  std::string address;
  std::optional<Culprit> failure;  ///< the first that it reported
  Time failed;                     ///< when that was reported
  bool is_lost = false;            ///< its connection ended
  std::vector<WorkerEvidence> workers;
};

/// What is known of the job when somebody has failed: a node for each node rank, and when all were launched.
struct Evidence {
  std::vector<NodeEvidence> nodes;
  Time launched;
};

/// Decides who is to blame, by the first row of the table that finds somebody:
///
/// | row           | evidence                                                      | culprit |
/// |---------------|---------------------------------------------------------------|-----------------------------|
/// | own failure   | somebody failed, and not because of a peer                    | the first of these | |
/// cut off       | at least two other nodes, and the connections of all are gone | node 0, as its network |
/// | lost node     | a node's connection is gone                                   | the first such node | |
/// exited early  | ranks exited 0 before the first victim failed                 | these ranks | | still
/// running | ranks still run, or ran until their launcher killed them, and | these ranks                 | |
/// | a victim's exception names them, or they are at most half     |                             | | first
/// victim  | anything else                                                 | the first victim, but       | |
/// |                                                               | rather one whose peer is on | | | | its
/// own node                |
///
/// Pure. nullopt if nobody failed and no node is lost.
std::optional<Culprit> judge(const Evidence& evidence);

}  // namespace rankshim::outcome
