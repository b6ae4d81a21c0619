#pragma once

#include <memory>
#include <string>

#include "node/node.h"
#include "plan/launch.h"
#include "settings/settings.h"
#include "supervise/launcher.h"

namespace rankshim {

/// Makes the object that answers the supervisor's questions about the command's workers, by what starts them.
/// `log_folder` is the launcher's; empty: none. `io` and `node` must outlive it.
std::unique_ptr<supervise::Launcher> make_launcher(boost::asio::io_context& io, const Job& job,
                                                   const Settings& settings, const std::string& log_folder,
                                                   const Node& node);

}  // namespace rankshim
