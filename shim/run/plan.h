#pragma once

#include <memory>

#include "base/fault.h"
#include "launchers/launcher.h"

namespace rankshim::run {

/// Makes settings, platform, topology and choice for `command` (empty: only the environment and the waiting);
/// pure. Faults and warnings are redacted (report/redact.h).
Outcome<launchers::Job> resolve_job(const settings::Settings& settings,
                                    const std::vector<std::string>& command, const node::Host& host);

/// What is executed for that choice; pure. To be called once, when everything is known.
launchers::LaunchPlan plan_launch(const launchers::LaunchChoice& choice, const plan::LaunchInput& input,
                                  const launchers::KnownAtStart& known);

/// The same if nothing is started, only shown: rankshim's folder is the pattern of its name, and what only
/// the steps before the start find out is missing.
launchers::LaunchPlan plan_shown_launch(const launchers::LaunchChoice& choice,
                                        const plan::LaunchInput& input);

}  // namespace rankshim::run
