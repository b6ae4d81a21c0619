#pragma once

#include <string>
#include <vector>

#include "base/fault.h"
#include "node/node.h"
#include "plan/launch.h"
#include "settings/settings.h"

namespace rankshim {

/// Makes settings, platform, topology and choice for `command` (empty: only the environment and the waiting);
/// pure. Faults and warnings are redacted (report/redact.h).
Outcome<Job> resolve_job(const Settings& settings, const std::vector<std::string>& command, const Node& node);

}  // namespace rankshim
