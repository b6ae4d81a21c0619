#pragma once

#include "node/node.h"
#include "settings/settings.h"

namespace rankshim {

/// Runs `rankshim COMMAND` and `rankshim wait`: resolves, waits, launches, supervises, and reports how it
/// ended. Returns the exit code.
int run_job(const Invocation& invocation, const Node& node);

}  // namespace rankshim
