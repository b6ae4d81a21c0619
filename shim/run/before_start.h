#pragma once

#include <boost/asio/awaitable.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/fault.h"
#include "launchers/launcher.h"
#include "launchers/torchrun/torchrun_launcher.h"
#include "report/verdict.h"
#include "run/run.h"
#include "wait/wait.h"

/// The steps before the command's start. Each may end the run, also because of a signal that came meanwhile.
namespace rankshim::run {

/// How a run ends before its command starts: what such a step throws.
struct EarlyEnd {
  report::Verdict verdict;
};

EarlyEnd early_end(int code, outcome::Cause cause, ErrorCode error_code, std::string reason);

/// The end by this signal; `meanwhile` is "while waiting for the master".
EarlyEnd stopped_early(int signal, std::string_view meanwhile);

/// The next signal that ends the run before its command starts; number 0 if none came before `deadline`. When
/// all are started again, or may be (`between`), only a stop does, for the others were the last command's. It
/// stays in the queue.
boost::asio::awaitable<supervise::Signal> next_end(const Run& run,
                                                   supervise::SignalQueue::Deadline deadline = {},
                                                   bool between = false);

/// Runs the hook that comes before anything is read.
boost::asio::awaitable<void> run_pre_start(const Run& run);

/// Resolves the job, once the platform has written all that it still must write.
boost::asio::awaitable<launchers::Job> resolve_when_ready(const Run& run,
                                                          const std::vector<std::string>& command);

/// Runs the launcher's interpreter to check that it finds torch, which without importing it takes
/// milliseconds. Otherwise a node that waits for others would learn too late that it cannot take part, and a
/// node alone would end with Python's code 1. An interpreter that does not answer does not end the run, and
/// lacks nothing. Returns what its torch lacks: an option in --torchrun-args, or torchrun itself.
boost::asio::awaitable<launchers::FoundTorch> check_python(const Run& run, const launchers::Job& job);

/// Waits for the master as chosen. `reached` tells then where the master is, if it was looked up, and the
/// topology knows which node hosts it.
boost::asio::awaitable<void> wait_for_master(const Run& run, topology::Topology& topology, wait::Until until,
                                             wait::Reached& reached);

}  // namespace rankshim::run
