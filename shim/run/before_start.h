#pragma once

#include <boost/asio/awaitable.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/fault.h"
#include "launchers/launcher.h"
#include "report/reason.h"
#include "report/verdict.h"
#include "run/run.h"
#include "wait/wait.h"

/// The steps before the command's start. Each may end the run, for example because of a signal that arrives
/// meanwhile.
namespace rankshim::run {

/// Thrown by such a step to end the run before its command starts.
struct EarlyEnd {
  report::Verdict verdict;
};

EarlyEnd early_end(int code, outcome::Cause cause, ErrorCode error_code, report::Reason reason);

/// The end by this signal.
EarlyEnd stopped_early(int signal, report::reason::Stopped::Stage stage);

/// Waits for the next signal that ends the run before its command starts; number 0 if none arrives before
/// `deadline`. Between attempts only a stop does, as in next_stop(). The signal stays in the queue.
boost::asio::awaitable<supervise::Signal> next_end(const Run& run,
                                                   supervise::SignalQueue::Deadline deadline = {});

/// Waits for the next stop signal, and drops the others that arrive meanwhile: they were meant for the last
/// command. Number 0 if none arrives before `deadline`. The stop stays in the queue.
boost::asio::awaitable<supervise::Signal> next_stop(const Run& run,
                                                    supervise::SignalQueue::Deadline deadline = {});

/// Runs the pre-start hook, before anything is read.
boost::asio::awaitable<void> run_pre_start(const Run& run);

/// Resolves the job, once the platform has written everything that it has yet to write.
boost::asio::awaitable<launchers::Job> resolve_when_ready(const Run& run,
                                                          const std::vector<std::string>& command);

/// Runs the launcher's interpreter to check that it finds torch, which takes milliseconds because torch is
/// not imported. Otherwise a node that waits for others would find out too late that it cannot join, and
/// a lone node would end with Python's code 1. An interpreter that does not answer is not an error. Returns
/// what its torch lacks: an option in --torchrun-args, or torchrun itself.
boost::asio::awaitable<launchers::FoundTorch> check_python(const Run& run, const launchers::Job& job);

/// Waits for the master as chosen. Afterwards `reached` says where the master is, if it was looked up, and
/// the topology says which node hosts it.
boost::asio::awaitable<void> wait_for_master(const Run& run, topology::Topology& topology, wait::Until until,
                                             wait::Reached& reached);

}  // namespace rankshim::run
