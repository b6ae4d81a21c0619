#include "run/plan.h"

#include <fmt/format.h>

#include <utility>

#include "base/text.h"
#include "launchers/choose.h"
#include "launchers/launcher.h"
#include "launchers/temporary_folder.h"
#include "launchers/torchrun/inner_torchrun.h"
#include "platform/recognise.h"
#include "report/redact.h"

namespace rankshim::run {

using launchers::Job;
using launchers::LaunchChoice;
using launchers::LaunchPlan;
using plan::LaunchInput;
using settings::Option;

namespace {

Outcome<Job> resolve(const settings::Settings& settings, const std::vector<std::string>& command,
                     const node::Host& host) {
  auto set = platform::read_profiles(settings.text(Option::profile), host);
  if (auto* faults = std::get_if<Faults>(&set)) return std::move(*faults);
  const auto& known = std::get<platform::ProfileSet>(set);
  auto platform = platform::recognise(known.profiles, settings.text(Option::platform), host, known.own,
                                      settings.text(Option::nnodes));
  if (auto* faults = std::get_if<Faults>(&platform)) return std::move(*faults);
  auto& found = std::get<platform::Platform>(platform);
  found.command_finds_master =
      !command.empty() && found.profile != nullptr && platform::is_agent(*found.profile, command.front());

  const auto torchrun = launchers::own_torchrun(settings, command);
  auto topology = topology::resolve_topology(settings, found, host, torchrun ? &torchrun->given : nullptr);
  if (auto* faults = std::get_if<Faults>(&topology)) return std::move(*faults);

  auto choice =
      launchers::choose_launch({std::get<topology::Topology>(topology), settings, command, host}, torchrun);
  if (auto* faults = std::get_if<Faults>(&choice)) return std::move(*faults);
  return Job{std::move(std::get<topology::Topology>(topology)), std::move(std::get<LaunchChoice>(choice))};
}

}  // namespace

LaunchPlan plan_launch(const LaunchChoice& choice, const LaunchInput& input,
                       const launchers::KnownAtStart& known) {
  const auto& [topology, settings, command, host] = input;
  LaunchPlan plan;
  plan.agent_name = known.torch.agent_name();
  plan::EnvironmentChange& change = plan.environment;
  change = plan::environment_change(topology, host);
  choice.launcher->change_environment(change, choice, input, known.folder);
  plan::hide_own_settings(change, host.environment());
  const bool by_worker = choice.launcher->starts_each_worker();  // and gives each its own
  if (settings.get<settings::RestartLimit>(Option::job_restarts)->most != 0) {
    const std::string attempt = std::to_string(known.attempt);
    change.set.emplace_back("RANKSHIM_ATTEMPT", attempt);
    // A torchrun overrides it for its workers, with its own restarts.
    if (!by_worker) change.set.emplace_back("TORCHELASTIC_RESTART_COUNT", attempt);
  }
  change.set.insert(change.set.end(), known.network_interface.begin(), known.network_interface.end());
  for (const auto& [name, value] : plan::hang_dumps(settings.text(Option::hang_dumps), host.environment()))
    change.replace(name, value);
  if (!by_worker) {
    for (const auto& [name, value] : plan::user_variables(settings)) change.replace(name, value);
  }
  if (command.empty()) return plan;
  plan.argv = choice.launcher->argv(choice, input, known);
  return plan;
}

LaunchPlan plan_shown_launch(const LaunchChoice& choice, const LaunchInput& input) {
  const std::string folder = launchers::temporary_folder_template(*choice.launcher, input.host);
  launchers::KnownAtStart known;
  known.folder = {.path = folder, .has_site = launchers::plan_site(choice, input, std::nullopt).has_value()};
  LaunchPlan plan = plan_launch(choice, input, known);
  plan.workers = choice.launcher->shown_workers(plan, choice, input, folder);
  return plan;
}

Outcome<Job> resolve_job(const settings::Settings& settings, const std::vector<std::string>& command,
                         const node::Host& host) {
  auto resolved = resolve(settings, command, host);
  auto* const faults = std::get_if<Faults>(&resolved);
  auto* const job = std::get_if<Job>(&resolved);
  const bool silent = job != nullptr && job->topology.warnings.empty() && job->choice.warnings.empty();
  if (silent)
    return resolved;  // as at nearly every start, whose time a search for secrets would noticeably lengthen
  report::Redactor redactor(host.environment());
  if (faults != nullptr) return report::redacted(std::move(*faults), redactor);
  for (auto* warnings : {&job->topology.warnings, &job->choice.warnings})
    for (std::string& warning : *warnings) warning = redactor.whole(warning);
  return resolved;
}

}  // namespace rankshim::run
