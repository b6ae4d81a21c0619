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
#include "supervise/exit_record.h"
#include "topology/topology.h"

namespace rankshim::report {

/// What is prepared for an attempt to come (--warm).
struct PreparedAttempt {
  unsigned number = 0;
  std::size_t processes = 0;
  std::size_t ready = 0;  ///< of these, how many have imported what they were to import
};

/// How the last attempt that is over has ended on this node.
struct LastExit {
  int code = 0;
  outcome::Cause cause = outcome::Cause::none;
};

/// Snapshot is what a run does at one moment, as `rankshim status` and the metrics show it.
struct Snapshot {
  using Clock = std::chrono::steady_clock;

  std::string_view phase;  ///< as in docs/report.md, or "ended"
  Clock::time_point since;
  bool failed = false;  ///< the run has failed, and the container is kept
  std::string waiting_for;
  pid_t command = 0;  ///< 0: none was started in this attempt
  unsigned attempt = 0;
  const topology::Topology* topology = nullptr;  ///< null until it is known
  std::string host;
  std::optional<PreparedAttempt> prepared;
  std::string slow;  ///< which ranks are slow; empty: none is
  std::string hang;  ///< the last notice of a hang, until the job continues; empty: there is none
  supervise::WorkerRecord workers;
  std::vector<link::Node> nodes;               ///< of the whole job, by rank, where this node knows them
  std::vector<link::Members::Tenure> history;  ///< as in ExitReport

  std::map<std::string_view, Clock::duration> spent;  ///< in the phases that are over, of all attempts
  std::map<outcome::Cause, unsigned> restarts;        ///< of the job, by what ended the attempt before
  std::optional<LastExit> last_exit;
  std::chrono::system_clock::duration calendar{0};  ///< what makes calendar time of the monotonic clock's
};

/// An element of a list in an answer.
struct ListElement {
  std::string_view state;
  json::Object object;
};

/// Adds a list to an answer, in which it takes about `most` bytes at most. Where that is too little for all
/// elements, those stay whose state the fewest others have, and NAME_by_state has the number of all in each
/// state.
void add_list(json::Object& answer, std::string_view name, const std::vector<ListElement>& all,
              std::size_t most);

/// The answer to `rankshim status`, of at most 64 KiB; docs/report.md describes its members.
std::string status_json(const Snapshot& snapshot);

/// The same as metrics, in the form of OpenMetrics 1.0 that node_exporter's textfile collector reads, too. It
/// depends on the state alone: the phase that lasts is told by its begin. At most 32 KiB.
std::string as_metrics(const Snapshot& snapshot);

}  // namespace rankshim::report
