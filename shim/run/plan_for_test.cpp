#include "run/plan_for_test.h"

#include <catch2/catch.hpp>
#include <utility>
#include <variant>

#include "platform/recognise.h"
#include "run/run.h"
#include "settings/settings.h"

namespace rankshim::run::for_test {

using node::Host;

Planned try_plan(const Host& host, Words line) {
  const auto read = settings::read_settings(line, host);
  if (const auto* rejected = std::get_if<settings::Rejected>(&read)) FAIL(to_line(rejected->faults.front()));
  const auto& invocation = std::get<settings::Invocation>(read);
  const auto profiles = platform::builtin_profiles();
  const auto platform =
      platform::recognise(profiles, invocation.settings.text(settings::Option::platform), host);
  const auto torchrun = launchers::own_torchrun(invocation.settings, invocation.arguments);
  const auto topology =
      topology::resolve_topology(invocation.settings, std::get<platform::Platform>(platform), host,
                                 torchrun ? &torchrun->given : nullptr);
  if (const auto* faults = std::get_if<Faults>(&topology)) FAIL(to_line(faults->front()));
  const auto& known = std::get<topology::Topology>(topology);
  const plan::LaunchInput input{known, invocation.settings, invocation.arguments, host};
  auto chosen = launchers::choose_launch(input, torchrun);
  if (auto* faults = std::get_if<Faults>(&chosen)) return {known, std::move(*faults)};
  const auto& choice = std::get<launchers::LaunchChoice>(chosen);
  return {known, ShownPlan{choice, plan_shown_launch(choice, input),
                           launchers::plan_site(choice, input, std::nullopt),
                           invocation.settings.choice<SignalScope>(settings::Option::signal_scope)}};
}

ShownPlan planned(const Host& host, Words line) {
  auto result = try_plan(host, std::move(line));
  if (const auto* faults = std::get_if<Faults>(&result.plan)) FAIL(to_line(faults->front()));
  return std::get<ShownPlan>(std::move(result.plan));
}

node::Environment environment_of(const launchers::LaunchPlan& plan, const Host& host) {
  return plan.environment.apply(host.environment());
}

}  // namespace rankshim::run::for_test
