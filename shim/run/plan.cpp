#include "run/plan.h"

#include <fmt/format.h>

#include <utility>

#include "base/text.h"
#include "launchers/by_name/named_launcher.h"
#include "launchers/choose.h"
#include "launchers/launcher.h"
#include "launchers/temporary_folder.h"
#include "launchers/torchrun/inner_torchrun.h"
#include "platform/recognise.h"
#include "report/redact.h"

namespace rankshim {

using launchers::Job;
using launchers::LaunchChoice;
using launchers::LaunchPlan;
using plan::is_script;
using plan::LaunchInput;

namespace {

/// What cannot be started again as a whole.
Faults check_job_restarts(const LaunchInput& input) {
  const auto& [topology, settings, command, node] = input;
  if (settings.get<RestartLimit>(Option::job_restarts)->most == 0 || command.empty()) return {};
  const auto refuse = [&](std::string_view why, std::string fix) {
    return launchers::refused(settings, Option::job_restarts, why, std::move(fix));
  };
  if (topology.max_restarts() != 0)
    return refuse(fmt::format("max_restarts is {} ({}): each of them starts the workers again",
                              topology.max_restarts(), topology.facts[Fact::max_restarts]->source()),
                  "set --max-restarts (RANKSHIM_MAX_RESTARTS) to 0, or leave --job-restarts out");
  if (topology.is<ElasticNode>())
    return refuse("an elastic job's torchrun starts its workers again itself",
                  "use --max-restarts (RANKSHIM_MAX_RESTARTS) instead");
  if (topology.is<CreatedProcess>())
    return refuse(fmt::format("the platform {} has started one process per accelerator, and would have to "
                              "start them again",
                              topology.platform.name()),
                  "leave it out, or start one rankshim on each node");
  if (topology.has_other_nodes() && settings.text(Option::link) == "off")
    return refuse("--link is off, and all nodes have to know of a failure", "leave --link at auto");
  if (topology.is<StaticNode>() && topology.master() == nullptr)
    return refuse("the nodes cannot be linked: nothing says where the master is",
                  "set --master-addr (RANKSHIM_MASTER_ADDR)");
  return {};
}

/// The launcher that the command is by another name than torchrun's, if that could make a difference.
std::optional<launchers::NamedLauncher> find_named(const LaunchInput& input, bool is_torchrun,
                                                   Faults& faults) {
  const auto& [topology, settings, command, node] = input;
  const bool is_module = is_script(command) && command[0] == "-m";
  const bool searches = is_module || (topology.has_other_nodes() && !is_script(command));
  if (is_torchrun || !searches || topology.is<CreatedProcess>() || topology.is<Idle>()) return std::nullopt;
  return launchers::find_launcher(input, faults);
}

Outcome<Job> resolve(const Settings& settings, const std::vector<std::string>& command, const Node& node) {
  auto set = platform::read_profiles(settings.text(Option::profile), node);
  if (auto* faults = std::get_if<Faults>(&set)) return std::move(*faults);
  const auto& known = std::get<platform::ProfileSet>(set);
  auto platform = platform::recognise(known.profiles, settings.text(Option::platform), node, known.own,
                                      settings.text(Option::nnodes));
  if (auto* faults = std::get_if<Faults>(&platform)) return std::move(*faults);
  auto& found = std::get<platform::Platform>(platform);
  found.command_finds_master =
      !command.empty() && found.profile != nullptr && platform::is_agent(*found.profile, command.front());

  const auto torchrun = launchers::own_torchrun(settings, command);
  auto topology = resolve_topology(settings, found, node, torchrun ? &torchrun->given : nullptr);
  if (auto* faults = std::get_if<Faults>(&topology)) return std::move(*faults);

  auto choice = choose_launch({std::get<Topology>(topology), settings, command, node}, torchrun);
  if (auto* faults = std::get_if<Faults>(&choice)) return std::move(*faults);
  return Job{std::move(std::get<Topology>(topology)), std::move(std::get<LaunchChoice>(choice))};
}

}  // namespace

Outcome<LaunchChoice> choose_launch(const LaunchInput& input,
                                    const std::shared_ptr<const launchers::TorchrunCommand>& torchrun) {
  LaunchChoice choice;
  Faults faults;
  const auto named = find_named(input, torchrun != nullptr, faults);
  for (Fault& fault : launchers::choose_launcher(choice, input, torchrun, named.has_value()))
    faults.push_back(std::move(fault));
  if (auto fault = launchers::check_idle_role(choice, input, is_script(input.command) || torchrun))
    faults.push_back(std::move(*fault));
  for (const auto& found : {choice.launcher->worker_faults(choice, input), check_job_restarts(input)})
    faults.insert(faults.end(), found.begin(), found.end());
  if (!faults.empty()) return faults;
  if (is_script(input.command)) choice.interpreter = plan::find_interpreter(input.settings, input.node);
  launchers::choose_wait(choice, input);
  choice.launcher->complete(choice, input);
  if (input.command.empty()) return choice;
  if (named) {
    launchers::choose_for_launcher(choice, input, *named);
  } else if (!choice.launcher->launches()) {
    for (std::string& warning :
         plan::program_warnings(input.topology, input.settings, input.command, input.node))
      choice.warnings.push_back(std::move(warning));
  }
  launchers::choose_link(choice, input);
  choice.note = launchers::tell_unlinked(choice, input);
  choice.missing = launchers::find_missing(choice, input, choice.launcher->script(input.command));
  return choice;
}

LaunchPlan plan_launch(const LaunchChoice& choice, const LaunchInput& input,
                       const launchers::KnownAtStart& known) {
  const auto& [topology, settings, command, node] = input;
  LaunchPlan plan;
  plan.agent_name = known.torch.agent_name();
  plan::EnvironmentChange& change = plan.environment;
  change = plan::environment_change(topology, node);
  choice.launcher->change_environment(change, choice, input, known.folder);
  plan::hide_own_settings(change, node.environment());
  const bool by_worker = choice.launcher->starts_each_worker();  // and each gets its own
  if (settings.get<RestartLimit>(Option::job_restarts)->most != 0) {
    const std::string attempt = std::to_string(known.attempt);
    change.set.emplace_back("RANKSHIM_ATTEMPT", attempt);
    // A torchrun sets it anew for its workers, to its own restarts.
    if (!by_worker) change.set.emplace_back("TORCHELASTIC_RESTART_COUNT", attempt);
  }
  change.set.insert(change.set.end(), known.network_interface.begin(), known.network_interface.end());
  if (!by_worker) {
    for (const auto& [name, value] : plan::user_variables(settings)) change.replace(name, value);
  }
  if (command.empty()) return plan;
  plan.argv = choice.launcher->argv(choice, input, known);
  return plan;
}

LaunchPlan plan_shown_launch(const LaunchChoice& choice, const LaunchInput& input) {
  const std::string folder = launchers::temporary_folder_template(input.node, choice.launcher->launches());
  launchers::KnownAtStart known;
  known.folder = {.path = folder, .has_site = launchers::plan_site(choice, input, std::nullopt).has_value()};
  LaunchPlan plan = plan_launch(choice, input, known);
  plan.workers = choice.launcher->shown_workers(plan, choice, input, folder);
  return plan;
}

Outcome<Job> resolve_job(const Settings& settings, const std::vector<std::string>& command,
                         const Node& node) {
  auto resolved = resolve(settings, command, node);
  auto* const faults = std::get_if<Faults>(&resolved);
  auto* const job = std::get_if<Job>(&resolved);
  const bool silent = job != nullptr && job->topology.warnings.empty() && job->choice.warnings.empty();
  if (silent)
    return resolved;  // as in nearly every start; searching for secrets would be noticeable in its time
  Redactor redactor(node.environment());
  if (faults != nullptr) return redacted(std::move(*faults), redactor);
  for (auto* warnings : {&job->topology.warnings, &job->choice.warnings})
    for (std::string& warning : *warnings) warning = redactor.whole(warning);
  return resolved;
}

}  // namespace rankshim
