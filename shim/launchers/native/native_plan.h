#pragma once

#include <string>
#include <vector>

#include "base/fault.h"
#include "plan/launch.h"

/// The native launcher's part of a launch plan; pure.
namespace rankshim::native {

/// Why rankshim cannot start this job's workers itself; nothing if it can.
Faults check(const LaunchInput& input, bool is_torchrun);

/// Whether this launcher gives the workers of a script all that torchrun would give them.
bool would_serve(const LaunchInput& input);

/// The script's interpreter, chosen as torchrun chooses that of its workers, and the folder for logs.
void choose_for_workers(LaunchChoice& choice, const LaunchInput& input);

/// The variables that all workers have in common, without those of another launcher.
void change_for_workers(EnvironmentChange& change, const LaunchInput& input);

/// The workers of a plan that is only shown. `folder` is rankshim's.
std::vector<WorkerPlan> shown_workers(const LaunchPlan& plan, const LaunchChoice& choice,
                                      const LaunchInput& input, const std::string& folder);

}  // namespace rankshim::native
