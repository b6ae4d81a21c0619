#pragma once

#include <memory>
#include <string>

#include "plan/launch.h"
#include "run/run.h"
#include "supervise/supervise.h"

namespace rankshim {

/// The part of the supervisor's policy that applies to hooks too.
supervise::Policy plan_supervision(const Settings& settings);

/// Which processes get a signal, by --signal-scope.
supervise::SignalScope signal_scope(const Settings& settings);

/// Makes the object that answers the supervisor's questions about the command's workers, by what starts them.
/// `log_folder` is the launcher's; empty: none. It serves one attempt.
std::shared_ptr<supervise::Launcher> make_launcher(const Run& run, const Job& job,
                                                   const std::string& log_folder, unsigned attempt);

/// The folder for the launcher's logs: the user's, or else the temporary one. Empty if there is none.
std::string make_log_folder(const Job& job, const std::string& temporary);

}  // namespace rankshim
