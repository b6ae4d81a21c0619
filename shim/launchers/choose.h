#pragma once

#include <memory>

#include "launchers/launcher.h"
#include "launchers/torchrun/torchrun_command.h"

namespace rankshim::launchers {

/// Chooses the launcher by --launcher and the command. There is none if another one has created the processes
/// already, or if the command is one by another name than torchrun's (`is_named`). `own` is the torchrun that
/// the command is; else null.
Faults choose_launcher(LaunchChoice& choice, const plan::LaunchInput& input,
                       std::shared_ptr<const TorchrunCommand> own, bool is_named);

}  // namespace rankshim::launchers
