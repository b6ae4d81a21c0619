#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "link/roster.h"
#include "outcome/outcome.h"
#include "report/phase.h"
#include "supervise/exit_record.h"
#include "topology/topology.h"

namespace rankshim::report {

/// What is prepared for a future attempt (--warm).
struct PreparedAttempt {
  unsigned number = 0;
  std::size_t processes = 0;
  std::size_t ready = 0;  ///< how many of these have finished their imports
};

/// How the last finished attempt ended on this node.
struct LastExit {
  int code = 0;
  outcome::Cause cause = outcome::Cause::none;
};

/// Snapshot is the state of a run at one moment, as `rankshim status` and the metrics show it.
struct Snapshot {
  using Clock = std::chrono::steady_clock;

  PhaseName phase = PhaseName::resolve;
  Clock::time_point since;
  bool failed = false;  ///< the run has failed, and the container is kept
  std::string waiting_for;
  pid_t command = 0;  ///< 0 if none was started in this attempt
  unsigned attempt = 0;
  const topology::Topology* topology = nullptr;  ///< null until it is known
  std::string host;
  std::optional<PreparedAttempt> prepared;
  std::string slow;  ///< which ranks are slow; empty if none is
  std::string hang;  ///< the last notice of a hang, until the job continues; empty if there is none
  supervise::WorkerRecord workers;
  std::vector<link::Node> nodes;               ///< of the whole job, by rank, where this node knows them
  std::vector<link::Members::Tenure> history;  ///< as in ExitReport

  std::map<PhaseName, Clock::duration> spent;   ///< in the phases that are over, of all attempts
  std::map<outcome::Cause, unsigned> restarts;  ///< of the job, by the cause that ended the attempt before
  std::optional<LastExit> last_exit;
  std::chrono::system_clock::duration calendar{0};  ///< calendar time minus the monotonic clock
};

/// An element of a list in an answer.
struct ListElement {
  std::string_view state;
  json::Object object;
};

/// Adds a list to an answer, taking about `most` bytes at most. If that is too little for all elements, those
/// with the rarest states are kept, and NAME_by_state has the total number in each state.
void add_list(json::Object& answer, std::string_view name, const std::vector<ListElement>& all,
              std::size_t most);

/// The answer to `rankshim status`, of at most 64 KiB; docs/report.md describes its members.
std::string status_json(const Snapshot& snapshot);

/// The same as metrics, in a form of OpenMetrics 1.0 that node_exporter's textfile collector also reads; at
/// most 32 KiB. Depends only on the state, not on the time: the current phase is given by when it began.
std::string as_metrics(const Snapshot& snapshot);

}  // namespace rankshim::report
