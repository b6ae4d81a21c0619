#include "run/launch.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include "base/text.h"
#include "run/plan.h"

namespace rankshim {
namespace {

plan::LaunchInput plan_input(const AttemptInput& input) {
  return {input.job.topology, input.run.settings, input.command, input.run.node};
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
       .network_interface = plan::network_interface(input.job.topology, input.run.node, master_address),
       .attempt = number});
}

/// The entries that `now` has besides those of `before`; nullopt if one of these is missing.
std::optional<std::vector<std::string>> added(const Environment& before, const Environment& now) {
  const auto all_in = [](const std::vector<std::string>& entries) {
    return [&entries](const std::string& entry) { return contains(entries, entry); };
  };
  if (!std::ranges::all_of(before.entries(), all_in(now.entries()))) return std::nullopt;
  std::vector<std::string> more;
  std::ranges::copy_if(now.entries(), std::back_inserter(more), std::not_fn(all_in(before.entries())));
  return more;
}

}  // namespace

Launch::Launch(const AttemptInput& input, unsigned attempt, const std::optional<std::string>& master_address)
    : number(attempt),
      site_(launchers::plan_site(input.job.choice, plan_input(input), master_address)),
      folder(input.job.choice, site_, input.run.node),
      log_folder(make_log_folder(input, folder.own().path)),
      plan(make_plan(input, number, master_address, folder.own())),
      environment(plan.environment.apply(input.run.node.environment())),
      command{plan.argv, environment.entries()},
      ignored(input.job.choice.launcher->ignored_at_start(plan, input.job.choice, plan_input(input))),
      workers(input.job.choice.launcher->workers(
          {input.run.io, input.job.topology, input.run.settings, input.run.node, log_folder, number})),
      ranks_(ranks_of(input.job.topology)) {}

std::optional<Launch::Ranks> Launch::ranks_of(const topology::Topology& topology) {
  const auto* node = topology.as<topology::StaticNode>();
  return node == nullptr ? std::nullopt : std::optional(Ranks{node->first_rank(), node->world_size()});
}

std::optional<std::vector<std::string>> Launch::update(const AttemptInput& input,
                                                       const std::optional<std::string>& master_address) {
  // gloo and NCCL read it when the first process group is made.
  constexpr std::string_view may_come_late = "GLOO_SOCKET_IFNAME";
  launchers::LaunchPlan now = make_plan(input, number, master_address, folder.own());
  Environment its_environment = now.environment.apply(input.run.node.environment());
  auto more = added(environment, its_environment);
  const bool is_same =
      now.argv == plan.argv && more && ranks_of(input.job.topology) == ranks_ &&
      std::ranges::all_of(*more, [&](const std::string& entry) { return is_named(entry, may_come_late); }) &&
      launchers::plan_site(input.job.choice, plan_input(input), master_address) == site_ &&
      workers->can_still_start();
  if (!is_same) return std::nullopt;
  plan = std::move(now);
  environment = std::move(its_environment);
  command.environment = environment.entries();
  return more;
}

}  // namespace rankshim
