#include <string>
#include <variant>

#include "base/fault.h"
#include "base/log.h"
#include "cli/explain.h"
#include "cli/print.h"
#include "cli/subcommands.h"
#include "report/redact.h"
#include "run/plan.h"
#include "run/resolve.h"

namespace rankshim::cli {

int explain_job(const Invocation& invocation, const Node& node) {
  const bool json = invocation.settings.text(Option::format) == "json";
  auto resolved = resolve_job(invocation.settings, invocation.arguments, node);
  if (const auto* faults = std::get_if<Faults>(&resolved)) {
    report(*faults, json);
    return exit_code::configuration;
  }
  Job& job = std::get<Job>(resolved);
  LaunchPlan plan =
      plan_shown_launch(job.choice, {job.topology, invocation.settings, invocation.arguments, node});
  Environment known = plan.environment.apply(node.environment());
  for (const WorkerPlan& worker : plan.workers)
    for (const auto& [name, value] : worker.environment) known.set(name, value);
  Redactor redactor(known);
  explain::redact(job, plan, redactor);
  if (json) return print(explain::as_json(job, plan, invocation.settings));
  const int code = print(explain::as_text(job, plan, invocation.settings));
  for (const std::string& warning : job.topology.warnings) log::warn("{}", warning);
  for (const std::string& warning : job.choice.warnings) log::warn("{}", warning);
  if (!job.choice.missing.empty()) log::warn("{}", job.choice.missing);
  return code;
}

}  // namespace rankshim::cli
