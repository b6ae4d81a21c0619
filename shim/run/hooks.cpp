#include "run/hooks.h"

#include "base/fault.h"
#include "supervise/supervise.h"

namespace rankshim::run {

using supervise::ExitRecord;

boost::asio::awaitable<ExitRecord> run_helper(const Run& run, supervise::Command command,
                                              std::chrono::milliseconds limit) {
  supervise::Policy policy = plan_supervision(run.settings);
  policy.hook = true;
  policy.time_limit = limit;
  co_return co_await supervise::supervise(run.io, run.signals, command, policy);
}

boost::asio::awaitable<ExitRecord> run_hook(const Run& run, const std::string& command,
                                            const node::Environment& environment,
                                            std::chrono::milliseconds limit) {
  return run_helper(run, {{"/bin/sh", "-c", command}, environment.entries()}, limit);
}

std::optional<int> stop_signal_of(const ExitRecord& hook) {
  return hook.stop ? std::optional(hook.stop->signal) : hook.signal_for_rankshim;
}

int exit_code_of_hook(const ExitRecord& hook) {
  return hook.kind == ExitRecord::Kind::not_started ? exit_code::system : supervise::exit_code_of(hook);
}

}  // namespace rankshim::run
