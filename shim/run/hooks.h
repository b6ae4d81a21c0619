#pragma once

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <optional>
#include <string>

#include "node/environment.h"
#include "run/run.h"
#include "supervise/exit_record.h"
#include "supervise/spawn.h"

namespace rankshim::run {

/// Runs a command that is not the job, and waits for its end, by the rules that the settings define for any
/// command: signals are passed on to its process group, after a stop it has --grace, after `limit` it is
/// killed, and leftover processes are stopped.
boost::asio::awaitable<supervise::ExitRecord> run_helper(const Run& run, supervise::Command command,
                                                         std::chrono::milliseconds limit);

/// Runs `command` by /bin/sh -c.
boost::asio::awaitable<supervise::ExitRecord> run_hook(const Run& run, const std::string& command,
                                                       const node::Environment& environment,
                                                       std::chrono::milliseconds limit);

/// The signal that stopped the hook, or another one that would have killed rankshim and came until nothing of
/// the hook was left. Either ends the run, or the hold after a post-stop hook, as it does between the hooks.
std::optional<int> stop_signal_of(const supervise::ExitRecord& hook);

/// The hook's exit code; 71 whenever the hook could not be started.
int exit_code_of_hook(const supervise::ExitRecord& hook);

}  // namespace rankshim::run
