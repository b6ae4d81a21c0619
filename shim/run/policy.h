#pragma once

#include "plan/launch.h"
#include "settings/settings.h"
#include "supervise/supervise.h"

namespace rankshim {

/// The part of the supervisor's policy that the settings and the choice decide, without the launcher.
supervise::Policy plan_supervision(const LaunchChoice& choice, const Settings& settings);

/// The part of it that applies to hooks too.
supervise::Policy plan_supervision(const Settings& settings);

}  // namespace rankshim
