#include "run/resolve.h"

#include <optional>
#include <utility>
#include <variant>

#include "platform/profiles.h"
#include "platform/recognise.h"
#include "report/redact.h"
#include "run/plan.h"

namespace rankshim {

namespace {

Outcome<Job> resolve(const Settings& settings, const std::vector<std::string>& command, const Node& node) {
  auto set = platform::read_profiles(settings.text(Option::profile), node);
  if (auto* faults = std::get_if<Faults>(&set)) return std::move(*faults);
  const auto& known = std::get<platform::ProfileSet>(set);
  const auto profiles = known.profiles();
  auto platform = platform::recognise(profiles, settings.text(Option::platform), node, known.own(),
                                      settings.text(Option::nnodes));
  if (auto* faults = std::get_if<Faults>(&platform)) return std::move(*faults);
  auto& found = std::get<platform::Platform>(platform);
  found.command_finds_master =
      !command.empty() && found.profile != nullptr && platform::is_agent(*found.profile, command.front());

  const auto torchrun = own_torchrun(settings, command);
  auto topology = resolve_topology(settings, found, node, torchrun ? &torchrun->given : nullptr);
  if (auto* faults = std::get_if<Faults>(&topology)) return std::move(*faults);

  auto choice = choose_launch({std::get<Topology>(topology), settings, command, node}, torchrun);
  if (auto* faults = std::get_if<Faults>(&choice)) return std::move(*faults);
  return Job{std::move(std::get<Topology>(topology)), std::move(std::get<LaunchChoice>(choice))};
}

}  // namespace

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
