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
#include "report/verdict.h"
#include "settings/settings.h"
#include "supervise/exit_record.h"

namespace rankshim::report {

/// A phase of a run, which lasts until the next one begins: "resolve", "wait", "launch", "run", "wind-down",
/// and with hooks "pre-start" and "post-stop".
struct Phase {
  std::string_view name;
  std::chrono::steady_clock::time_point begin;
};

/// An attempt of the job that another one has followed.
struct PastAttempt {
  unsigned number = 0;
  int code = 0;
  std::string sentence;
  std::vector<Phase> phases;
  std::optional<std::chrono::steady_clock::time_point> first_worker_at;
  std::chrono::steady_clock::time_point end;
};

/// Adds an attempt. Of more than 100 the first, where the run began, and the newest are kept: a report stays
/// readable.
void remember(std::vector<PastAttempt>& attempts, PastAttempt attempt);

/// All that is known at the end. Pointers may be null: there was no job, or the command was not started.
struct ExitReport {
  const Verdict* verdict = nullptr;  ///< never null
  int exit_code = 0;                 ///< after --exit-map
  const topology::Topology* topology = nullptr;
  const supervise::ExitRecord* record = nullptr;
  const Details* details = nullptr;  ///< never null
  std::string host;
  std::vector<Phase> phases;  ///< of the last attempt
  std::vector<PastAttempt> past_attempts;
  unsigned attempt = 0;                        ///< the number of the last one
  std::vector<link::Node> nodes;               ///< of the whole job, by rank, where this node knows them
  std::vector<link::Members::Tenure> history;  ///< of the ranks that have had several nodes
  std::chrono::steady_clock::time_point end = std::chrono::steady_clock::now();
};

/// All nodes of the whole job by rank, for the report and the status.
std::vector<json::Object> nodes_json(const std::vector<link::Node>& nodes);

/// The ranks that spares have taken, each with all its nodes in turn.
std::vector<json::Object> history_json(const std::vector<link::Members::Tenure>& history);

/// The report, version 1; docs/report.md describes its members.
std::string as_json(const ExitReport& report);

/// The text for the termination log: the verdict, at most 1 KiB of it, then as much of the traceback's end as
/// fits. Empty on success, and if only an exit code is known, which the command chose: Kubernetes'
/// FallbackToLogsOnError then shows the log's end.
std::string termination_message(const ExitReport& report);

/// Writes the report and the termination log for settings that cannot be used, following the part of them
/// that was understood. Returns the exit code.
int conclude_rejected(const settings::Rejected& rejected, const node::Host& host);

}  // namespace rankshim::report
