#include "init/last_resort.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <new>
#include <string_view>

#include "base/exit_code.h"
#include "init/kernel.h"
#include "init/signals.h"

namespace rankshim::supervise::last_resort {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using namespace std::chrono_literals;

constexpr Clock::time_point never = Clock::time_point::max();

struct State {
  pid_t command = 0;  // 0: none runs
  pid_t target = 0;
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
  if (kernel::send(state.target, signal) == -ESRCH) kernel::send(state.command, signal);
}

/// Reaps children, and ends this process when the command has ended.
void reap() {
  int status = 0;
  bool let_go = false;
  for (pid_t pid = 1; pid > 0;) {
    pid = kernel::reap(status, false, let_go);
    if (pid == -ECHILD) kernel::exit_now(exit_code::system);
    if (pid == state.command)
      kernel::exit_now(WIFSIGNALED(status) ? exit_code::signal_base + WTERMSIG(status) : WEXITSTATUS(status));
  }
}

[[noreturn]] void take_over() {
  if (state.command == 0) {
    say(state.code == exit_code::system
            ? "rankshim: error: the system refused memory: raise the limit (ulimit -v, or the container's "
              "limit)\n"
            : "rankshim: error: the system refused memory; only the exit code is reported\n");
    kernel::exit_now(state.code);
  }
  say("rankshim: error: the system refused memory; from now on rankshim only passes on signals and the exit "
      "code\n");
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

}  // namespace

void arm() { std::set_new_handler(take_over); }

void command_runs(pid_t command, pid_t target, std::optional<milliseconds> grace) {
  state.command = command;
  state.target = target;
  state.grace = grace;
  state.kill_due = never;
}

void kill_at(Clock::time_point when) { state.kill_due = when; }

void command_ended(int code) {
  state.command = 0;
  state.code = code;
}

void owe(int signal) { state.owed |= bit(signal); }
void settle(int signal) { state.owed &= ~bit(signal); }

}  // namespace rankshim::supervise::last_resort
