#include "run/job.h"

#include <optional>
#include <utility>
#include <variant>

#include "platform/recognise.h"
#include "platform/user_profiles.h"

namespace rankshim {

Outcome<Job> resolve_job(const Settings& settings, const std::vector<std::string>& command,
                         const Node& node) {
  auto set = platform::read_profiles(settings.text(Option::profile), node);
  if (auto* faults = std::get_if<Faults>(&set)) return std::move(*faults);
  const auto& known = std::get<platform::ProfileSet>(set);
  const auto profiles = known.profiles();
  auto platform = platform::recognise(profiles, settings.text(Option::platform), node, known.own());
  if (auto* faults = std::get_if<Faults>(&platform)) return std::move(*faults);
  auto& found = std::get<platform::Platform>(platform);
  found.command_finds_master =
      !command.empty() && found.profile != nullptr && platform::is_agent(*found.profile, command.front());

  const auto torchrun = own_torchrun(settings, command);
  auto topology = resolve_topology(settings, found, platform::find(profiles, "generic"), node,
                                   torchrun ? &*torchrun : nullptr);
  if (auto* faults = std::get_if<Faults>(&topology)) return std::move(*faults);

  auto plan = plan_launch(std::get<Topology>(topology), settings, command, node, std::nullopt);
  if (auto* faults = std::get_if<Faults>(&plan)) return std::move(*faults);
  return Job{std::move(std::get<Topology>(topology)), std::move(std::get<LaunchPlan>(plan))};
}

}  // namespace rankshim
