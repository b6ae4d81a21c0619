#include "supervise/last_resort.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <boost/throw_exception.hpp>
#include <cerrno>
#include <csignal>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#ifdef _LIBCPP_VERSION
#include <__verbose_abort>
#endif

#include "base/exit_code.h"
#include "base/log.h"
#include "supervise/kernel.h"
#include "supervise/signals.h"

namespace rankshim::supervise::last_resort {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using namespace std::chrono_literals;

constexpr Clock::time_point never = Clock::time_point::max();
constexpr milliseconds time_of_others{30'000};  // workers, when one of them has failed

struct State {
  std::vector<pid_t> processes;  // of the command that have not ended; none: no command runs
  bool groups = false;
  int first_failure = 0;  // of the processes that have ended
  std::optional<milliseconds> grace;
  int code = exit_code::system;  // the exit code while no command runs
  SignalSet owed = 0;
  Clock::time_point kill_due = never;
};
constinit State state;

void say(std::string_view text) {
  [[maybe_unused]] const auto written = write(STDERR_FILENO, text.data(), text.size());
}

void deliver(int signal) {
  for (const pid_t process : state.processes) {
    if (!state.groups || kernel::send(-process, signal) == -ESRCH) kernel::send(process, signal);
  }
}

void end_others() {
  deliver(SIGTERM);
  state.kill_due = std::min(state.kill_due, Clock::now() + state.grace.value_or(time_of_others));
}

/// Reaps children, and ends this process when the command has ended.
void reap() {
  int status = 0;
  bool let_go = false;
  for (pid_t pid = 1; pid > 0;) {
    pid = kernel::reap(status, false, let_go);
    if (pid == -ECHILD) kernel::exit_now(exit_code::system);
    if (pid <= 0 || std::ranges::find(state.processes, pid) == state.processes.end()) continue;
    const bool failed_before = state.first_failure != 0;
    process_ended(pid, WIFSIGNALED(status) ? exit_code::signal_base + WTERMSIG(status) : WEXITSTATUS(status));
    if (state.processes.empty()) kernel::exit_now(state.first_failure);
    if (!failed_before && state.first_failure != 0) end_others();
  }
}

[[noreturn]] void follow_command() {
  if (state.first_failure != 0) end_others();  // the supervisor may not have got to it
  constexpr SignalSet all = ~SignalSet{0};
  while (true) {
    // Signals that were taken earlier come first; one that arrives again now is merged with them, as usual.
    int signal = 1;
    while (signal <= 64 && (state.owed & bit(signal)) == 0) ++signal;
    if (signal > 64) {
      const auto left =
          std::chrono::ceil<milliseconds>(std::min<Clock::duration>(state.kill_due - Clock::now(), 1s));
      signal = kernel::take_signal(all, std::max(left, 1ms), nullptr);
    }
    if (signal > 0) {
      settle(signal);
      if (signal != SIGCHLD) deliver(signal);
      if (state.grace && state.kill_due == never && asks_to_stop(signal))
        state.kill_due = Clock::now() + *state.grace;
    }
    if (Clock::now() >= state.kill_due) {
      deliver(SIGKILL);
      if (getpid() == 1) kernel::send(-1, SIGKILL);
      state.kill_due = never;
      state.grace.reset();
    }
    reap();
  }
}

[[noreturn]] void without_memory() {
  if (state.processes.empty()) {
    say(state.code == exit_code::system
            ? "rankshim: error: the system refused memory: raise the limit (ulimit -v, or the container's "
              "limit)\n"
            : "rankshim: error: the system refused memory; only the exit code is reported\n");
    kernel::exit_now(state.code);
  }
  say("rankshim: error: the system refused memory; from now on rankshim only passes on signals and the exit "
      "code\n");
  follow_command();
}

[[noreturn]] void give_up(const std::string& why) {
  if (state.processes.empty()) {
    log::error("{}", why);
    kernel::exit_now(state.code);
  }
  log::error("{}; from now on rankshim only passes on signals and the exit code", why);
  follow_command();
}

}  // namespace

void arm() {
  std::set_new_handler(without_memory);
  std::set_terminate([] { give_up("an internal error of rankshim"); });
}

void refused(std::string_view what) {
  give_up("the system refused a resource that supervising a process needs: " + std::string(what));
}

void command_runs(std::vector<pid_t> processes, bool groups, std::optional<milliseconds> grace) {
  state.processes = std::move(processes);
  state.groups = groups;
  state.first_failure = 0;
  state.grace = grace;
  state.kill_due = never;
}

void kill_at(Clock::time_point when) { state.kill_due = when; }

void process_ended(pid_t process, int code) {
  std::erase(state.processes, process);
  if (state.first_failure == 0) state.first_failure = code;
}

void command_ended(int code) {
  state.processes.clear();
  state.code = code;
}

void owe(int signal) { state.owed |= bit(signal); }
void settle(int signal) { state.owed &= ~bit(signal); }

}  // namespace rankshim::supervise::last_resort

#ifdef _LIBCPP_VERSION
/// What libc++ calls in place of throwing (its documentation, "Overriding the default termination handler").
void std::__libcpp_verbose_abort(const char* /*format*/, ...) noexcept { std::terminate(); }
#endif

namespace boost {

/// What Boost calls in place of throwing (BOOST_NO_EXCEPTIONS). Its texts end with " [system:24 at …]".
void throw_exception(const std::exception& error) {
  const std::string_view what = error.what();
  rankshim::supervise::last_resort::refused(what.substr(0, what.find(" [")));
}

void throw_exception(const std::exception& error, const source_location& /*where*/) {
  throw_exception(error);
}

}  // namespace boost
