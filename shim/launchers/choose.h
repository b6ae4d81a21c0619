#pragma once

#include <memory>

#include "base/fault.h"
#include "launchers/launcher.h"
#include "launchers/torchrun/torchrun_command.h"

namespace rankshim::launchers {

/// --spares: so many of the platform's nodes wait.
unsigned number_of_spares(const settings::Settings& settings);

/// Chooses what starts the workers, and everything else that is known before the waiting; pure. `torchrun` is
/// the command as own_torchrun() has read it; null if it is not a torchrun.
Outcome<LaunchChoice> choose_launch(const plan::LaunchInput& input,
                                    std::shared_ptr<const TorchrunCommand> torchrun);

}  // namespace rankshim::launchers
