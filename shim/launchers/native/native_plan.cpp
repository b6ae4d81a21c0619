#include "launchers/native/native_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "launchers/native/worker.h"
#include "node/numa.h"

namespace rankshim::native {

Faults check(const LaunchInput& input, bool is_torchrun) {
  const Topology& topology = input.topology;
  const auto& chosen = *input.settings[Option::launcher];
  const std::string native = chosen.detail + "=native";
  const auto fault = [&](std::string what, std::string fix) {
    return Faults{{std::move(what), {chosen.detail}, std::move(fix)}};
  };
  if (topology.is<ElasticNode>()) {
    return fault(fmt::format("{} starts a fixed number of nodes, but this job is elastic", native),
                 "leave --launcher (RANKSHIM_LAUNCHER) at auto");
  }
  if (is_torchrun) {
    return fault(fmt::format("{} starts the workers itself, but {} would start workers in each of them",
                             native, input.command[0]),
                 "give the script to rankshim instead, or leave --launcher (RANKSHIM_LAUNCHER) at auto");
  }
  if (topology.max_restarts() != 0 && !topology.is_alone()) {
    return fault(
        fmt::format("{} restarts the workers of one node, and this job has {} nodes, which would not "
                    "learn of it",
                    native, topology.facts.text(Fact::nnodes)),
        "leave --max-restarts (RANKSHIM_MAX_RESTARTS) at 0, or --launcher (RANKSHIM_LAUNCHER) at auto");
  }
  if (input.settings.flag(Option::ctty)) {
    return fault(fmt::format("{} starts several workers, and --ctty gives one command a terminal", native),
                 "leave --ctty (RANKSHIM_CTTY) off, or --launcher (RANKSHIM_LAUNCHER) at auto");
  }
  return {};
}

bool would_serve(const LaunchInput& input) {
  // What only torchrun does with its workers (torch/distributed/run.py, get_args_parser).
  constexpr std::array<std::string_view, 7> torchruns = {
      "PET_LOG_DIR",   "PET_REDIRECTS",          "PET_TEE",         "PET_LOCAL_RANKS_FILTER",
      "PET_NO_PYTHON", "PET_VIRTUAL_LOCAL_RANK", "PET_NUMA_BINDING"};
  return check(input, false).empty() && std::ranges::none_of(torchruns, [&](std::string_view name) {
           return input.node.environment().get(name).has_value();
         });
}

void choose_for_workers(LaunchChoice& choice, const LaunchInput& input) {
  // torch/distributed/run.py, config_from_args
  const auto workers_own = input.node.environment().get("PYTHON_EXEC");
  if (!choice.interpreter.empty() && workers_own) choice.interpreter = *workers_own;
  choice.log_dir = input.settings.text(Option::log_dir);
}

void change_for_workers(EnvironmentChange& change, const LaunchInput& input) {
  const Environment& environment = input.node.environment();
  auto& [set, unset] = change;
  for (auto& variable : common_variables(static_job(input.topology, input.settings), environment)) {
    std::erase_if(set, [&](const auto& entry) { return entry.first == variable.first; });
    set.push_back(std::move(variable));
  }
  // Each worker gets a different value of these, or they belong to an agent.
  for (const std::string_view name : {"RANK", "LOCAL_RANK", "ROLE_RANK", "TORCHELASTIC_RESTART_COUNT",
                                      "TORCHELASTIC_ERROR_FILE", "TORCHELASTIC_USE_AGENT_STORE"}) {
    std::erase_if(set, [&](const auto& entry) { return entry.first == name; });
    if (environment.has(name)) unset.emplace_back(name);
  }
}

std::vector<WorkerPlan> shown_workers(const LaunchPlan& plan, const LaunchChoice& choice,
                                      const LaunchInput& input, const std::string& folder) {
  std::vector<WorkerPlan> workers;
  const StaticJob job = static_job(input.topology, input.settings);
  const std::string jobs = choice.log_dir.empty() ? folder : log_folder_template(choice.log_dir, job.run_id);
  const Environment common = plan.environment.apply(input.node.environment());
  for (unsigned local_rank = 0; local_rank < job.workers; ++local_rank) {
    const Worker worker{.local_rank = local_rank,
                        .error_file = error_file(worker_folder(jobs, 0, local_rank))};
    WorkerPlan shown{worker_variables(job, worker), filled_in(plan.argv, placeholders_of(job, worker)), {}};
    if (job.binds) {
      Environment environment = common;
      for (const auto& [name, value] : shown.environment) environment.set(name, value);
      shown.bound = near_accelerator(input.node, environment, local_rank).text;
    }
    workers.push_back(std::move(shown));
  }
  return workers;
}

}  // namespace rankshim::native
