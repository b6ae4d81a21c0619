#pragma once

#include <optional>
#include <string>

#include "base/fault.h"
#include "launch/launch.h"
#include "torchrun/torchrun_plan.h"

namespace rankshim {

/// Chooses what starts the workers, and plans all that is known before anything is waited for; pure.
Outcome<LaunchPlan> plan_launch(const LaunchInput& input);

/// Writes what is executed into the plan, once. `master_address` is the master's literal address, where the
/// waiting has found it; pure.
void write_command(LaunchPlan& plan, const LaunchInput& input,
                   const std::optional<std::string>& master_address, const OwnFolder& folder);

/// The same where nothing is started, only shown: our own folder is the pattern of its name.
void write_shown_command(LaunchPlan& plan, const LaunchInput& input);

}  // namespace rankshim
