#pragma once

#include <memory>

#include "base/fault.h"
#include "launchers/launcher.h"

namespace rankshim::run {

/// Recognises the platform, resolves the topology and chooses the launcher for `command` (empty: only the
/// environment and the waiting). Pure. Faults and warnings are redacted (report/redact.h).
Outcome<launchers::Job> resolve_job(const settings::Settings& settings,
                                    const std::vector<std::string>& command, const node::Host& host);

/// Plans what is executed for that choice. Pure. Call it once, when everything is known.
launchers::LaunchPlan plan_launch(const launchers::LaunchChoice& choice, const plan::LaunchInput& input,
                                  const launchers::KnownAtStart& known);

/// The same, for a plan that is only shown: rankshim's folder is the pattern of its name, and what only the
/// steps before the start find out is missing.
launchers::LaunchPlan plan_shown_launch(const launchers::LaunchChoice& choice,
                                        const plan::LaunchInput& input);

}  // namespace rankshim::run
