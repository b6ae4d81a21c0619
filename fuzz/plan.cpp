/// A whole start up to the launch: variables, an empty part, words of the command line; separated by NUL.

#include <algorithm>

#include "base/json.h"
#include "cli/subcommands.h"
#include "node/fake_host_for_test.h"
#include "run/plan.h"
#include "target.h"

FUZZ_TARGET(plan) {
  using namespace rankshim;
  constexpr std::size_t most = 64;
  std::vector<std::string> variables = fuzz::split(fuzz::text_of(data, size), '\0', most), words;
  const auto between = std::find(variables.begin(), variables.end(), "");
  if (between != variables.end()) words.assign(between + 1, variables.end());
  variables.erase(between, variables.end());
  const node::FakeHost host(variables);
  const auto read = settings::read_settings(words, host);
  const auto* invocation = std::get_if<settings::Invocation>(&read);
  if (invocation == nullptr) return 0;
  auto resolved = run::resolve_job(invocation->settings, invocation->arguments, host);
  if (const auto* faults = std::get_if<Faults>(&resolved)) {
    fuzz::check(!faults->empty() && json::error(cli::explain::as_json(*faults)).empty());
    return 0;
  }
  launchers::Job& job = std::get<launchers::Job>(resolved);
  launchers::LaunchPlan plan =
      run::plan_shown_launch(job.choice, {job.topology, invocation->settings, invocation->arguments, host});
  const node::Environment left = plan.environment.apply(host.environment());
  const auto is_set = [&](const std::string& name) {
    return std::ranges::any_of(plan.environment.set, [&](const auto& entry) { return entry.first == name; });
  };
  for (const std::string& name : plan.environment.unset) fuzz::check(left.has(name) == is_set(name));
  report::Redactor redactor(host.environment());
  cli::explain::redact(job, plan, redactor);
  fuzz::check(!cli::explain::as_text(job, plan, invocation->settings).empty());
  fuzz::check(json::error(cli::explain::as_json(job, plan, invocation->settings)).empty());
  return 0;
}
