#pragma once

#include "node/node.h"
#include "settings/settings.h"

namespace rankshim {

/// The whole way of `rankshim COMMAND` and `rankshim wait`: resolve, wait, launch, supervise, say how it
/// ended. Returns the exit code.
int run_job(const Invocation& invocation, const Node& node);

}  // namespace rankshim
