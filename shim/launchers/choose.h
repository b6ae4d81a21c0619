#pragma once

#include <memory>

#include "base/fault.h"
#include "launchers/launcher.h"
#include "launchers/torchrun/torchrun_command.h"

namespace rankshim::launchers {

/// The number of the platform's nodes that wait as spares (--spares).
unsigned number_of_spares(const settings::Settings& settings);

/// Chooses what starts the workers, and everything else that is known before the wait. Pure. `torchrun` is
/// the command as read by own_torchrun(); null if it is not a torchrun.
Outcome<LaunchChoice> choose_launch(const plan::LaunchInput& input,
                                    std::shared_ptr<const TorchrunCommand> torchrun);

}  // namespace rankshim::launchers
