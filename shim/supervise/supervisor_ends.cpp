#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "base/duration.h"
#include "base/fault.h"
#include "base/log.h"
#include "supervise/kernel.h"
#include "supervise/stacks.h"
#include "supervise/supervisor.h"
#include "supervise/tree.h"

namespace rankshim::supervise {

using std::chrono::milliseconds;

namespace {

constexpr milliseconds kill_again{100};      // a fork during a walk of the tree may have been missed
constexpr milliseconds kill_patience{5000};  // a process that is left after that hangs in the kernel
constexpr unsigned reaped_at_once = 1000;    // then signals get their turn

}  // namespace

int exit_code_of(const Ending& ending) {
  using Kind = Ending::Kind;
  if (ending.kind == Kind::exited) return ending.number;
  if (ending.kind == Kind::signalled)
    return exit_code::signal_base + (ending.killed_by_us ? SIGKILL : ending.number);
  if (ending.kind == Kind::withheld || ending.failure.call != "execve") return exit_code::system;
  const int error = ending.number;
  if (error == ENOENT || error == ENOTDIR) return exit_code::not_found;
  return error == ENOMEM || error == EMFILE || error == ENFILE ? exit_code::system
                                                               : exit_code::not_executable;
}

int exit_code_of_status(int status) {
  return WIFSIGNALED(status) ? exit_code::signal_base + WTERMSIG(status) : WEXITSTATUS(status);
}

void Supervisor::reap() {
  for (unsigned reaped = 0; reaped < reaped_at_once; ++reaped) {
    int status = 0;
    bool let_go = false;
    const pid_t pid = kernel::reap(status, terminal_.is_there(), let_go);
    if (let_go && !std::exchange(warned_traced_, true))
      log::warn(
          "a process asked rankshim to trace it (PTRACE_TRACEME): rankshim traces nothing and detaches from "
          "it");
    if (pid > 0) {
      Started* const process = find_process(pid);
      if (WIFSTOPPED(status)) {
        if (process != nullptr && !starts_workers_) on_command_stopped(WSTOPSIG(status));
      } else if (process != nullptr) {
        on_process_end(*process, status);
      } else {
        secondary([&] { launcher_.reaped(pid, status); });
        on_orphan_end(pid, status);
      }
      continue;
    }
    reap_due_ = false;
    if (pid == -ECHILD) {
      // Without a child there will be no report of the command's end: that must not look like success.
      if (!command_ended_ && !failed_at_) {
        ending_.kind = Ending::Kind::withheld;
        ending_.number = ECHILD;
      }
      ending_.leftovers = std::max(ending_.leftovers, ending_.leftovers_killed);
      progress_ = Progress::finished;
    } else if (pid < 0) {
      reap_again_ = Clock::now() + try_again;
      if (!std::exchange(warned_reap_, true))
        log::warn("cannot ask for ended processes: {}", std::strerror(-pid));
    } else if (command_ended_ && forwarder_.nothing_left()) {
      progress_ = Progress::finished;
    } else if (command_ended_ && progress_ == Progress::running) {
      begin_leftovers();
    } else if (progress_ == Progress::leftovers && reaped != 0) {
      forwarder_.stop_what_is_left();
    }
    return;
  }
}

/// Whether rankshim caused this end: by KILL, or by the ABRT for stacks.
bool Supervisor::was_killed(int status) const {
  if (!WIFSIGNALED(status)) return false;
  return (WTERMSIG(status) == SIGKILL && progress_ == Progress::killing) ||
         (WTERMSIG(status) == SIGABRT && asked_for_stacks_);
}

void Supervisor::on_orphan_end(pid_t pid, int status) {
  if (looked_at_leftovers_ && was_killed(status)) ++ending_.leftovers_killed;
  if (policy_.warn_on_reap) log::warn("reaped an orphan: {}", pid);
}

/// The command was stopped by Ctrl-Z, or by reading or writing in the background: rankshim takes the terminal
/// back and stops too, so that its parent sees it. If nothing could ever continue rankshim, the kernel does
/// not let it stop, and the command must not stop either.
void Supervisor::on_command_stopped(int signal) {
  if (signal != SIGTSTP && signal != SIGTTIN && signal != SIGTTOU) return;
  command_stopped_ = true;
  // A launcher that reads from the terminal, or lets its workers read (torch 1.13).
  if (signal != SIGTSTP && terminal_.share(command_pid())) return continue_command();
  terminal_.take_back();
  if (kernel::stop_self() == 0) continue_command();
}

void Supervisor::continue_command() {
  command_stopped_ = false;
  terminal_.lend(command_pid());
  kernel::send(-command_pid(), SIGCONT);
}

void Supervisor::on_process_end(Started& process, int status) {
  const pid_t pid = process.spawn->pid();
  process.ended = true;
  forwarder_.process_ended(pid);
  const bool last = std::ranges::all_of(processes_, &Started::ended);
  const bool first = status != 0 && !failed_at_;
  if (!failed_at_ && (first || last)) record_end(process, status);
  if (first) failed_at_ = Clock::now();
  if (starts_workers_) secondary([&] { launcher_.reaped(pid, status); });
  if (last) return on_command_end(status);
  if (first) end_other_workers();
}

/// The other workers would wait for one that is gone. A stop that was passed on has reached them already.
void Supervisor::end_other_workers() {
  if (ending_.stop_signal) return;
  const milliseconds patience = policy_.grace.value_or(grace_after_stop);
  kill_by(Clock::now(), patience);
  forwarder_.pass_on({.number = SIGTERM}, true);
  forwarder_.continue_stopped();
  log::info("a worker has failed; the others are asked to stop, and are killed in {}", seconds(patience));
}

void Supervisor::on_command_end(int status) {
  command_ended_ = true;
  forwarder_.command_ended();
  ending_.ran = std::chrono::duration_cast<milliseconds>(Clock::now() - ending_.started_at);
  // The terminal signalled the command, and not rankshim.
  if (WIFSIGNALED(status) && (WTERMSIG(status) == SIGINT || WTERMSIG(status) == SIGQUIT) &&
      (terminal_.descriptor() >= 0 || policy_.ctty) && !starts_workers_ && !ending_.stop_signal) {
    ending_.stop_signal = WTERMSIG(status);
    ending_.stopped_at = Clock::now();
    if (policy_.grace) kill_by(*ending_.stopped_at, *policy_.grace);
  }
  secondary([this] { launcher_.command_ended(); });
  // The launcher has handled the workers that ended earlier, so their times are before this one.
  ending_.ended_at = Clock::now();
  terminal_.take_back();  // otherwise what is left would get a Ctrl-C that is meant for rankshim now
  secondary([this] { observer_.command_ended(); });
}

void Supervisor::record_end(Started& process, int status) {
  ending_.pid = process.spawn->pid();
  if (std::optional<SpawnFailure> failed = process.spawn->failure()) {
    record_failed_start(*std::move(failed));
  } else if (WIFSIGNALED(status)) {
    ending_.kind = Ending::Kind::signalled;
    ending_.killed_by_us = was_killed(status);
    ending_.number = WTERMSIG(status);
  } else {
    ending_.number = WEXITSTATUS(status);
  }
}

void Supervisor::record_failed_start(SpawnFailure failed) {
  ending_.kind = Ending::Kind::not_started;
  ending_.number = failed.error;
  ending_.failure = std::move(failed);
}

void Supervisor::begin_leftovers() {
  progress_ = Progress::leftovers;
  looked_at_leftovers_ = true;
  const Clock::time_point now = Clock::now();
  if (!ending_.stop_signal) {
    kill_by(now, policy_.leftover_grace);
  } else if (!policy_.grace) {
    kill_by(now, grace_after_stop);
  }  // otherwise it is set already: there is one grace for all
  if (const std::optional<std::vector<Process>> left = forwarder_.everything()) {
    ending_.leftovers = static_cast<unsigned>(std::ranges::count_if(*left, &Process::alive));
  }
  forwarder_.stop_what_is_left();
  forwarder_.continue_stopped();
  if (ending_.stop_signal && !policy_.grace)
    log::info("what the command left behind is asked to stop, and is killed in {}",
              seconds(grace_after_stop));
}

/// An earlier deadline is kept.
void Supervisor::kill_by(Clock::time_point start, milliseconds grace) {
  if (kill_ && *kill_ < start + grace) return;
  kill_ = start + grace;
  time_for_stacks_ = time_for_stacks(grace);
}

/// Asks those that can show their stacks, when the KILL is due and not before: the request ends them. A
/// launcher that still has workers is not asked: it waits for them, and sees their ends.
bool Supervisor::asks_for_stacks() {
  if (!policy_.stacks || std::exchange(asked_for_stacks_, true)) return false;
  std::optional<std::vector<Process>> left = forwarder_.everything();
  if (!left) return false;
  if (launcher_.stops_workers() && left->size() > 1)
    std::erase_if(*left, [this](const Process& process) { return process.pid == command_pid(); });
  std::vector<Process> able = *left;
  std::erase_if(able, [](const Process& process) { return !shows_stacks(process); });
  if (able.empty()) return false;
  name_hanging(*left, ": asked for stacks by SIGABRT, then killed");
  ask_for_stacks(able);
  kill_ = Clock::now() + time_for_stacks_;
  return true;
}

void Supervisor::name_hanging(const std::vector<Process>& left, std::string_view what_now) {
  const std::string hanging = describe_hanging(left, launcher_.record().states);
  if (hanging.empty()) return;
  const Clock::time_point since = command_ended_
                                      ? ending_.ended_at.value_or(ending_.started_at)
                                      : ending_.stopped_at.value_or(failed_at_.value_or(ending_.started_at));
  const auto time = std::chrono::duration_cast<milliseconds>(Clock::now() - since);
  const std::string what = fmt::format("{} did not stop in {}", hanging, hours_and_minutes(time));
  if (!command_ended_) ending_.did_not_stop = what;
  log::warn("{}{}", what, what_now);
}

void Supervisor::kill_all(std::string_view why) {
  progress_ = Progress::killing;
  const Clock::time_point now = Clock::now();
  kill_ = now + kill_again;
  leave_behind_ = now + kill_patience;
  forwarder_.to_all({SIGKILL});
  log::warn("{}: rankshim kills everything", why);
}

/// Not even KILL ends a process that waits in the kernel for a dead file server or a driver. It is named in a
/// warning, and left.
void Supervisor::give_up() {
  progress_ = Progress::finished;
  if (!command_ended_) {
    ending_.kind = Ending::Kind::signalled;
    ending_.number = SIGKILL;
    ending_.killed_by_us = true;
    ending_.ran = std::chrono::duration_cast<milliseconds>(Clock::now() - ending_.started_at);
  }
  const std::optional<std::vector<Process>> left = forwarder_.everything();
  if (!left && getpid() != 1)
    return log::warn("without /proc, the processes that are left cannot be found, and are left behind");
  if (left) ending_.left_behind = where_they_wait(*left);
  log::warn("not even SIGKILL ended the processes that are left within {}; they are left behind{}{}",
            seconds(kill_patience), ending_.left_behind.empty() ? "" : ": ", ending_.left_behind);
}

void Supervisor::on_kill_due() {
  if (progress_ == Progress::killing) {
    kill_ = Clock::now() + kill_again;
    forwarder_.to_all({SIGKILL});
    return;
  }
  bool asks = false;
  secondary([&] { asks = asks_for_stacks(); });
  if (asks) return;
  secondary([this] {
    if (const std::optional<std::vector<Process>> left = forwarder_.everything();
        left && (ending_.stop_signal || failed_at_) && !command_ended_ && ending_.did_not_stop.empty())
      name_hanging(*left, "");
  });
  kill_all(command_ended_        ? "what the command left behind did not end in time"
           : ending_.stop_signal ? "the grace is over"
           : failed_at_          ? "the other workers did not stop in time"
                                 : "its time is over");
}

}  // namespace rankshim::supervise
