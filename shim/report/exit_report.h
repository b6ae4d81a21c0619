#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "init/ending.h"
#include "launch/job.h"
#include "report/details.h"
#include "report/verdict.h"

namespace rankshim {

/// A stretch of our life, until the next one begins: "resolve", "wait", "launch", "run", "wind-down", and
/// "pre-start" and "post-stop" where there are hooks.
struct Phase {
  std::string_view name;
  std::chrono::steady_clock::time_point begin;
};

/// All that is known at the end. Pointers may be null: there was no job, nothing was started.
struct ExitReport {
  const Verdict* verdict = nullptr;  ///< never null
  int exit_code = 0;                 ///< after --exit-map
  const Job* job = nullptr;
  const supervise::Ending* ending = nullptr;
  const Details* details = nullptr;  ///< never null
  std::string host;
  std::vector<Phase> phases;
  std::chrono::steady_clock::time_point end;
};

/// The report, version 1: docs/report.md says what each member means.
std::string as_json(const ExitReport& report);

/// What belongs into the termination log: the verdict, at most 1 KiB of it, then as much of the traceback's
/// end as fits. Empty on success, and where nothing is
/// known but an exit code that the command chose: Kubernetes' FallbackToLogsOnError then shows the log's end.
std::string termination_message(const ExitReport& report);

}  // namespace rankshim
