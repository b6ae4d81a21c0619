#pragma once

#include "node/node.h"
#include "settings/settings.h"

namespace rankshim {

/// Writes the report and the termination log for settings that cannot be used, following the part of them
/// that was understood. Returns the exit code.
int conclude_rejected(const Rejected& rejected, const Node& node);

}  // namespace rankshim
