#pragma once

#include <string>

#include "base/fault.h"
#include "launch/launch.h"

/// The native launcher's part of a launch plan; pure.
namespace rankshim::native {

/// Why rankshim cannot start this job's workers itself; none where it can.
Faults check(const LaunchInput& input, bool is_torchrun);

/// The script's interpreter, as torchrun chooses its workers' one.
void plan_native(LaunchPlan& plan, const LaunchInput& input);

/// What all workers have in common, and nothing of another launcher's.
void change_for_workers(LaunchPlan& plan, const LaunchInput& input);

/// Completes a plan that is only shown by what each worker is given. `folder` is our own.
void show_workers(LaunchPlan& plan, const LaunchInput& input, const std::string& folder);

}  // namespace rankshim::native
