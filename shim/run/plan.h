#pragma once

#include <optional>
#include <string>

#include "base/fault.h"
#include "launch/launch.h"
#include "torchrun/torchrun_plan.h"

namespace rankshim {

/// Chooses what starts the workers, and plans everything that is known before the waiting; pure.
Outcome<LaunchPlan> plan_launch(const LaunchInput& input);

/// Writes into the plan what is executed, once. `master_address` is the master's literal address, if the
/// waiting has found it; pure.
void write_command(LaunchPlan& plan, const LaunchInput& input,
                   const std::optional<std::string>& master_address, const OwnFolder& folder);

/// The same if nothing is started, only shown: rankshim's folder is the pattern of its name.
void write_shown_command(LaunchPlan& plan, const LaunchInput& input);

}  // namespace rankshim
