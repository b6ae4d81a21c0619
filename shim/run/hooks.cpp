#include "run/hooks.h"

#include <cstring>

#include "base/duration.h"
#include "base/fault.h"
#include "run/policy.h"
#include "supervise/supervise.h"

namespace rankshim {

using supervise::Ending;

namespace {

/// A function, because in a coroutine g++ 12 destroys an initialiser list's strings twice.
supervise::Command shell_command(const std::string& command, const Environment& environment) {
  return {{"/bin/sh", "-c", command}, environment.entries()};
}

}  // namespace

boost::asio::awaitable<Ending> run_hook(const Run& run, const std::string& command,
                                        const Environment& environment, std::chrono::milliseconds limit) {
  supervise::Policy policy = plan_supervision(run.settings);
  policy.hook = true;
  policy.time_limit = limit;
  const supervise::Command shell = shell_command(command, environment);
  co_return co_await supervise::supervise(run.io, run.signals, shell, policy);
}

std::optional<int> asked_to_stop(const Ending& hook) {
  return hook.stop_signal ? hook.stop_signal : hook.late_signal;
}

std::string describe(const Ending& hook, std::chrono::milliseconds limit) {
  switch (hook.kind) {
    case Ending::Kind::not_started:
      return "cannot be started: " + hook.failed_call + ": " + std::strerror(hook.number);
    case Ending::Kind::exited:
      return "ended with code " + std::to_string(hook.number);
    case Ending::Kind::withheld:
      return std::string("ended, and the system does not report how: wait4: ") + std::strerror(hook.number);
    case Ending::Kind::signalled:
      break;
  }
  return "was ended by " + supervise::signal_name(hook.number) +
         (hook.killed_by_us && !hook.stop_signal ? " because it took longer than " + format_time(limit) : "");
}

int exit_code_of_hook(const Ending& hook) {
  return hook.kind == Ending::Kind::not_started ? exit_code::system : supervise::exit_code_of(hook);
}

}  // namespace rankshim
