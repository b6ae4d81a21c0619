#pragma once

#include "init/policy.h"
#include "launch/launch.h"
#include "settings/settings.h"

namespace rankshim {

/// What the settings and the plan say to the supervisor; not by what the command starts its workers.
supervise::Policy plan_supervision(const LaunchPlan& plan, const Settings& settings);

/// The part of it that holds for hooks too.
supervise::Policy plan_supervision(const Settings& settings);

}  // namespace rankshim
