#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "launchers/launcher.h"
#include "link/roster.h"
#include "node/host.h"
#include "report/phase.h"
#include "report/verdict.h"
#include "settings/settings.h"
#include "supervise/exit_record.h"

namespace rankshim::report {

/// An attempt of the job that was followed by another one.
struct PastAttempt {
  unsigned number = 0;
  int code = 0;
  std::string sentence;
  std::vector<Phase> phases;
  std::optional<std::chrono::steady_clock::time_point> first_worker_at;
  std::chrono::steady_clock::time_point end;
};

/// Adds an attempt. If there are more than 100, only the first, where the run began, and the newest are kept,
/// so that a report stays readable.
void remember(std::vector<PastAttempt>& attempts, PastAttempt attempt);

/// Everything that is known at the end. Pointers may be null if there was no job, or the command was not
/// started.
struct ExitReport {
  const Verdict* verdict = nullptr;  ///< never null
  int exit_code = 0;                 ///< after --exit-map
  const topology::Topology* topology = nullptr;
  const supervise::ExitRecord* record = nullptr;
  const Details* details = nullptr;  ///< never null
  std::string host;
  std::vector<Phase> phases;  ///< of the last attempt
  std::vector<PastAttempt> past_attempts;
  unsigned attempt = 0;                        ///< the number of the last attempt
  std::vector<link::Node> nodes;               ///< of the whole job, by rank, if this node knows them
  std::vector<link::Members::Tenure> history;  ///< of the ranks that several nodes have had
  std::chrono::steady_clock::time_point end = std::chrono::steady_clock::now();
};

/// All nodes of the job by rank, for the report and the status.
std::vector<json::Object> nodes_json(const std::vector<link::Node>& nodes);

/// The ranks that spares have taken over, each with all its nodes in order.
std::vector<json::Object> history_json(const std::vector<link::Members::Tenure>& history);

/// The report, version 1; docs/report.md describes its members.
std::string as_json(const ExitReport& report);

/// The text for the termination log: at most 1 KiB of the verdict, then as much of the traceback's end as
/// fits. Empty on success, and if nothing is known but an exit code that the command chose: Kubernetes'
/// FallbackToLogsOnError then shows the end of the log.
std::string termination_message(const ExitReport& report);

/// Writes the report and the termination log for invalid settings, following the part of them that was
/// understood. Returns the exit code.
int conclude_rejected(const settings::Rejected& rejected, const node::Host& host);

}  // namespace rankshim::report
