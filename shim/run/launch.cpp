#include "run/launch.h"

#include <string_view>
#include <utility>

#include "base/text.h"
#include "launchers/choose.h"
#include "run/late.h"
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

/// What a prepared process imports early. In a job with spares a worker's rank may still change, and a module
/// that the user names may read it during its import (Lightning); those of "auto" do not.
std::string early_modules(const AttemptInput& input) {
  const std::string_view named = input.run.settings.text(settings::Option::warm);
  const bool may_move = launchers::number_of_spares(input.run.settings) > 0;
  if (!may_move || !input.job.choice.launcher->starts_each_worker()) return std::string(named);
  return has_part(named, "auto", ",") ? "auto" : "";
}

/// Whether what this launcher starts can still be given another place of the node before it runs. Its output
/// must not be going to files named by rank.
bool can_move(const AttemptInput& input) {
  const auto* node = input.job.topology.as<topology::StaticNode>();
  const settings::Settings& settings = input.run.settings;
  return node != nullptr && node->member && input.job.choice.log_dir.empty() &&
         !settings.flag(settings::Option::prefix);
}

/// The variables that depend on the node's place, the master's first. A script reads them when it runs; the
/// modules that "auto" imports do not.
std::vector<std::string> variables_of_place() {
  std::vector<std::string> names = {plan::role_rank, plan::role_world_size, plan::group_rank,
                                    plan::group_world_size};
  for (const Fact fact :
       {Fact::nnodes, Fact::node_rank, Fact::world_size, Fact::rank, Fact::master_port, Fact::master_addr})
    names.insert(names.begin(), variable_of(fact));
  return names;
}

/// The workers that rankshim starts itself, or else the command.
std::vector<supervise::Command> commands_of(supervise::Workers& workers, const supervise::Command& command) {
  std::vector<supervise::Command> commands = workers.workers_to_start(command);
  if (commands.empty()) commands.push_back(command);
  return commands;
}

}  // namespace

Launch::Launch(const AttemptInput& input, unsigned attempt, const std::optional<std::string>& master_address)
    : number(attempt),
      modules(early_modules(input)),
      site(launchers::plan_site(input.job.choice, plan_input(input), master_address)),
      folder(input.job.choice, site, input.run.host),
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

std::vector<supervise::Command> Launch::commands() const { return commands_of(*workers, command); }

std::optional<std::vector<std::vector<std::string>>> Launch::update(
    const AttemptInput& input, const std::optional<std::string>& master_address,
    std::vector<supervise::Command>& commands) {
  static const std::vector<std::string> of_place = variables_of_place();
  static const Names of_master = Names(of_place).first(2);
  static const std::vector<std::string> may_come = {plan::gloo_interface};
  const std::vector<std::string> flags_of_place = input.job.choice.launcher->flags_of_place();
  const auto ranks = ranks_of(input.job.topology);
  const bool moves = ranks != ranks_;
  const bool knows_rank = flags_of_place.empty() && !modules.empty() && modules != "auto";
  Names may_change;
  if (moves) may_change = knows_rank ? of_master : Names(of_place);
  const auto flags = moves ? Names(flags_of_place) : Names();
  launchers::LaunchPlan now = make_plan(input, number, master_address, folder.own());
  node::Environment its_environment = now.environment.apply(input.run.host.environment());
  if ((moves && !can_move(input)) || !workers->can_still_start() ||
      launchers::plan_site(input.job.choice, plan_input(input), master_address) != site)
    return std::nullopt;
  supervise::Command its_command = command;
  its_command.argv = now.argv;
  its_command.environment = its_environment.entries();
  const auto its_workers = moves ? make_workers(input, log_folder, number, folder.own()) : workers;
  std::vector<supervise::Command> its_commands = moves ? commands_of(*its_workers, its_command) : commands;
  if (its_commands.size() != commands.size()) return std::nullopt;
  const auto common = changed_variables(environment.entries(), its_command.environment, may_come, may_change);
  if (!common || !changed_flags(command.argv, now.argv, flags)) return std::nullopt;
  std::vector<std::vector<std::string>> late;
  for (std::size_t at = 0; at < commands.size(); ++at) {
    supervise::Command& its = its_commands[at];
    if (!moves) its.environment.insert(its.environment.end(), common->begin(), common->end());
    its.prepared = commands[at].prepared;
    auto more = changed_variables(commands[at].environment, its.environment, may_come, may_change);
    const auto words = changed_flags(commands[at].argv, its.argv, flags);
    if (!more || !words) return std::nullopt;
    more->insert(more->end(), words->begin(), words->end());
    late.push_back(*std::move(more));
  }
  commands = std::move(its_commands);
  workers = its_workers;
  ranks_ = ranks;
  plan = std::move(now);
  environment = std::move(its_environment);
  command = std::move(its_command);
  return late;
}

}  // namespace rankshim::run
