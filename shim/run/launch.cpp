#include "run/launch.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "run/plan.h"

namespace rankshim::run {
namespace {

plan::LaunchInput plan_input(const AttemptInput& input) {
  return {input.job.topology, input.run.settings, input.command, input.run.host};
}

std::string make_log_folder(const AttemptInput& input, const std::string& temporary) {
  const launchers::LaunchChoice& choice = input.job.choice;
  if (choice.log_dir.empty()) return choice.launcher->make_log_folder(input.job, temporary);
  if (!input.kept_logs) input.kept_logs = choice.launcher->make_log_folder(input.job, temporary);
  return *input.kept_logs;
}

launchers::LaunchPlan make_plan(const AttemptInput& input, unsigned number,
                                const std::optional<std::string>& master_address,
                                const launchers::OwnFolder& folder) {
  return plan_launch(
      input.job.choice, plan_input(input),
      {.torch = input.torch,
       .master_address = master_address,
       .folder = folder,
       .network_interface = plan::network_interface(input.job.topology, input.run.host, master_address),
       .attempt = number});
}

std::shared_ptr<supervise::Workers> make_workers(const AttemptInput& input, const std::string& log_folder,
                                                 unsigned number, const launchers::OwnFolder& folder) {
  return input.job.choice.launcher->workers({input.run.io, input.job.topology, input.run.settings,
                                             input.run.host, log_folder, number,
                                             folder.has_site ? folder.path : ""});
}

/// Whether what this launcher starts can still be given another place of the node before it runs. Its output
/// must not be going to files named by rank.
bool can_move(const AttemptInput& input) {
  const auto* node = input.job.topology.as<topology::StaticNode>();
  const settings::Settings& settings = input.run.settings;
  return node != nullptr && node->member && input.job.choice.launcher->starts_each_worker() &&
         input.job.choice.log_dir.empty() && !settings.flag(settings::Option::prefix);
}

using VariableNames = std::span<const std::string_view>;

/// The entries of `now` that `before` lacks; nullopt if a variable outside `may_come` and `may_change` is
/// new, or one outside `may_change` has a new value or is gone.
std::optional<std::vector<std::string>> changed(const std::vector<std::string>& before,
                                                const std::vector<std::string>& now, VariableNames may_come,
                                                VariableNames may_change) {
  const auto is_one_of = [](const std::string& entry, VariableNames names) {
    return std::ranges::any_of(names, [&](std::string_view name) { return node::is_named(entry, name); });
  };
  std::vector<std::string> more;
  for (const std::string& entry : now) {
    if (contains(before, entry)) continue;
    if (!is_one_of(entry, may_come) && !is_one_of(entry, may_change)) return std::nullopt;
    more.push_back(entry);
  }
  const auto is_kept = [&](const std::string& entry) {
    const std::string_view name = node::entry_name(entry);
    const bool is_new =
        std::ranges::any_of(more, [&](const auto& other) { return node::is_named(other, name); });
    return contains(now, entry) || (is_new && is_one_of(entry, may_change));
  };
  if (!std::ranges::all_of(before, is_kept)) return std::nullopt;
  return more;
}

}  // namespace

Launch::Launch(const AttemptInput& input, unsigned attempt, const std::optional<std::string>& master_address)
    : number(attempt),
      site_(launchers::plan_site(input.job.choice, plan_input(input), master_address)),
      folder(input.job.choice, site_, input.run.host),
      log_folder(make_log_folder(input, folder.own().path)),
      plan(make_plan(input, number, master_address, folder.own())),
      environment(plan.environment.apply(input.run.host.environment())),
      command{plan.argv, environment.entries()},
      ignored(input.job.choice.launcher->ignored_at_start(plan, input.job.choice, plan_input(input))),
      workers(make_workers(input, log_folder, number, folder.own())),
      ranks_(ranks_of(input.job.topology)) {}

std::optional<Launch::Ranks> Launch::ranks_of(const topology::Topology& topology) {
  const auto* node = topology.as<topology::StaticNode>();
  return node == nullptr
             ? std::nullopt
             : std::optional(Ranks{node->first_rank(), node->world_size(), topology.master()->text()});
}

std::optional<std::vector<std::vector<std::string>>> Launch::update(
    const AttemptInput& input, const std::optional<std::string>& master_address,
    std::vector<supervise::Command>& commands) {
  // gloo and NCCL read it when the first process group is created.
  static constexpr auto may_come = std::to_array<std::string_view>({"GLOO_SOCKET_IFNAME"});
  // A script asks for its place when it runs; the modules that --warm imports before do not.
  static constexpr auto of_place = std::to_array<std::string_view>(
      {"RANK", "WORLD_SIZE", "ROLE_RANK", "ROLE_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE", "NODE_RANK",
       "NNODES", "MASTER_ADDR", "MASTER_PORT"});
  const auto ranks = ranks_of(input.job.topology);
  const bool moves = ranks != ranks_;
  launchers::LaunchPlan now = make_plan(input, number, master_address, folder.own());
  node::Environment its_environment = now.environment.apply(input.run.host.environment());
  if (now.argv != plan.argv || (moves && !can_move(input)) || !workers->can_still_start() ||
      launchers::plan_site(input.job.choice, plan_input(input), master_address) != site_)
    return std::nullopt;
  const auto may_change = moves ? VariableNames(of_place) : VariableNames();
  supervise::Command its_command = command;
  its_command.environment = its_environment.entries();
  const auto its_workers = moves ? make_workers(input, log_folder, number, folder.own()) : workers;
  std::vector<supervise::Command> its_commands = commands;
  std::vector<std::vector<std::string>> late;
  if (moves) its_commands = its_workers->workers_to_start(its_command);
  if (its_commands.size() != commands.size()) return std::nullopt;
  const auto common = changed(environment.entries(), its_command.environment, may_come, may_change);
  for (std::size_t at = 0; common && at < commands.size(); ++at) {
    supervise::Command& its = its_commands[at];
    if (!moves) its.environment.insert(its.environment.end(), common->begin(), common->end());
    its.prepared = commands[at].prepared;
    auto more = changed(commands[at].environment, its.environment, may_come, may_change);
    if (!more || its.argv != commands[at].argv) return std::nullopt;
    late.push_back(*std::move(more));
  }
  if (!common) return std::nullopt;
  commands = std::move(its_commands);
  workers = its_workers;
  ranks_ = ranks;
  plan = std::move(now);
  environment = std::move(its_environment);
  command.environment = std::move(its_command.environment);
  return late;
}

}  // namespace rankshim::run
