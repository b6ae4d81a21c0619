#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <memory>
#include <string>

#include "launchers/launcher.h"
#include "node/host.h"
#include "report/verdict.h"
#include "run/monitor.h"
#include "settings/settings.h"
#include "supervise/signals.h"
#include "supervise/supervise.h"

namespace rankshim::run {

/// What every step of a run needs, from the pre-start hook to the hold after a failure.
struct Run {
  boost::asio::io_context& io;
  supervise::SignalQueue& signals;
  const settings::Settings& settings;
  const node::Host& host;
  Monitor& monitor;
  bool only_wait = false;  ///< `rankshim wait`, which has no hooks and is not held
  bool preflight = false;  ///< the command is the check of `rankshim preflight`
};

/// The part of the supervisor's policy that applies to hooks too.
supervise::Policy plan_supervision(const settings::Settings& settings);

/// Publishes a verdict: the last line on stderr, the report, the termination log, the post-stop hook, and the
/// hold of a failed container. `job` is null if there was none yet, and `record` if nothing was started.
/// Returns the exit code.
boost::asio::awaitable<int> conclude(const Run& run, report::Verdict verdict, const launchers::Job* job,
                                     const supervise::ExitRecord* record = nullptr,
                                     const report::Details& details = {});

/// Tells the other nodes of the job that this one cannot join because of its settings, if the part of
/// them that was understood identifies the job. Takes a few seconds at most.
void tell_rejection(const settings::Rejected& rejected, const node::Host& host);

/// Runs `rankshim COMMAND`, `wait` and `preflight`: resolves, waits, launches, supervises, and reports how it
/// ended. Takes over the invocation, whose settings it completes. Returns the exit code.
int run_job(settings::Invocation&& invocation, const node::Host& host);

}  // namespace rankshim::run
