#pragma once

#include <string>
#include <vector>

#include "base/fault.h"
#include "launch/job.h"
#include "node/node.h"
#include "settings/settings.h"

namespace rankshim {

/// Settings, platform, topology and plan for `command` (empty: the environment and the waiting only); pure.
/// Faults and warnings are redacted (report/redact.h).
Outcome<Job> resolve_job(const Settings& settings, const std::vector<std::string>& command, const Node& node);

}  // namespace rankshim
