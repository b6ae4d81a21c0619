#include "launchers/native/native_launcher.h"

#include <fmt/format.h>

#include "launchers/native/workers.h"
#include "launchers/torchrun/inner_torchrun.h"
#include "launchers/torchrun/torchrun_launcher.h"

namespace rankshim::launchers {

using settings::Option;

Faults NativeLauncher::faults(const plan::LaunchInput& input) const {
  const auto& [topology, settings, command, host] = input;
  const auto refuse = [&](std::string_view why, std::string_view or_fix) {
    return refused(settings, Option::launcher, why,
                   fmt::format("{} --launcher (RANKSHIM_LAUNCHER) at auto", or_fix));
  };
  if (topology.is<topology::ElasticNode>())
    return refuse("the number of nodes is not fixed: this job is elastic", "leave");
  if (of_torchrun_)
    return refuse(fmt::format("{} would start workers in each of its workers", command[0]),
                  "give the script to rankshim instead, or leave");
  if (topology.max_restarts() != 0 && !topology.is_alone())
    return refuse(
        fmt::format(
            "it restarts the workers of one node, and this job has {} nodes, which would not learn of it",
            topology.facts.text(Fact::nnodes)),
        "leave --max-restarts (RANKSHIM_MAX_RESTARTS) at 0, or");
  if (settings.flag(Option::ctty))
    return refuse("--ctty gives a terminal to one command, not to several workers",
                  "leave --ctty (RANKSHIM_CTTY) off, or");
  return {};
}

Faults NativeLauncher::worker_faults(LaunchChoice& /*choice*/, const plan::LaunchInput& input) const {
  const settings::Settings& settings = input.settings;
  if (input.command.empty() || settings.flag(Option::tee) == settings[Option::log_dir].has_value()) return {};
  if (settings.flag(Option::tee)) return tee_without_files(settings);
  if (!settings.flag(Option::prefix)) return {};
  return refused(settings, Option::prefix, "with --log-dir nothing is printed",
                 "set --tee (RANKSHIM_TEE) too");
}

void NativeLauncher::complete(LaunchChoice& choice, const plan::LaunchInput& input) const {
  choose_for_workers(choice, input);
}

void NativeLauncher::change_environment(plan::EnvironmentChange& change, const LaunchChoice& /*choice*/,
                                        const plan::LaunchInput& input, const OwnFolder& folder) const {
  change_for_workers(change, input);
  hide_other_job(change, input.host.environment(), false);
  add_site(change, input, folder);
  plan::share_cpus(change, true, input);
  show_stacks(change, input);
}

std::vector<WorkerPlan> NativeLauncher::shown_workers(const LaunchPlan& plan, const LaunchChoice& choice,
                                                      const plan::LaunchInput& input,
                                                      const std::string& folder) const {
  return plan.argv.empty() ? std::vector<WorkerPlan>{} : plan_workers(plan, choice, input, folder);
}

SignalSet NativeLauncher::ignored_at_start(const LaunchPlan& plan, const LaunchChoice& choice,
                                           const plan::LaunchInput& input) const {
  return choice.interpreter.empty() ? 0 : notices_to_ignore(plan, input.settings);
}

std::string NativeLauncher::make_log_folder(const Job& job, const std::string& temporary) const {
  const std::string& named = job.choice.log_dir;
  if (named.empty()) return temporary;
  return make_folder_for_logs(named, log_folder_template("", job.topology.facts.text(Fact::run_id)));
}

std::shared_ptr<const Launcher> make_native(const settings::Settings& /*settings*/,
                                            const std::shared_ptr<const TorchrunCommand>& torchrun) {
  return std::make_shared<NativeLauncher>(torchrun != nullptr);
}

std::shared_ptr<supervise::Workers> NativeLauncher::workers(const WorkersInput& input) const {
  return std::make_shared<NativeWorkers>(input.io, input.topology, input.settings, input.log_folder,
                                         input.host, input.attempt);
}

}  // namespace rankshim::launchers
