#include "supervise/signal_forwarder.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <new>

#include "base/log.h"
#include "supervise/kernel.h"

namespace rankshim::supervise {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds first_delay{5};
constexpr milliseconds longest_delay{1000};  // a full queue may be emptied at any time
constexpr std::size_t most_kept =
    10'000;                            // more stay in the kernel's queue, whose limit their sender notices
constexpr unsigned most_refusals = 8;  // over more than a second

/// A real-time signal is always queued: kill(2) would silently merge it with others if the receiver's queue
/// is full.
Signal unmerged(Signal signal) {
  if (signal.number >= first_real_time_signal && !signal.is_queued()) signal.code = SI_QUEUE;
  return signal;
}

}  // namespace

void SignalForwarder::leave_alone_present_children() {
  if (kernel::has_children() == 1) before_us_ = everything().value_or(std::vector<Process>{});
}

void SignalForwarder::command_ended() {
  if (kept_.size() >= most_kept) signals_.hold_real_time(false);
  SignalSet named = 0;
  for (const Kept& kept : kept_) {
    const int number = kept.signal.number;
    if (launcher_.is_for_workers(number) && (named & bit(number)) == 0)
      log::warn("{} is given up: the launcher ended before its workers could take it", signal_name(number));
    named |= bit(number);
  }
  kept_.clear();
  due_.reset();
}

void SignalForwarder::pass_on(const Signal& signal, bool stop) {
  const bool waits =
      std::ranges::any_of(kept_, [&signal](const Kept& kept) { return kept.signal.number == signal.number; });
  if (waits && signal.number < first_real_time_signal) return;  // merged, as the kernel would do
  if (!waits) {
    if (stop) stop_walk_.forget(signal.number);
    const int done = deliver(signal, stop);
    if (done >= 0 || done == -ESRCH) return;
    if (launcher_.is_for_workers(signal.number)) {
      log::info("{} is kept until the launcher's workers can take it", signal_name(signal.number));
    } else {
      log::debug("{} is kept: {}", signal_name(signal.number), std::strerror(-done));
    }
  }
  kept_.push_back({signal, stop});
  if (kept_.size() == most_kept) signals_.hold_real_time(true);
  if (!due_) set_due(true);
}

/// The next try comes sooner after a delivery. A signal for workers waits for a further quarter of the time
/// it has waited, which makes few wake-ups in hours of waiting for peers.
void SignalForwarder::set_due(bool progress) {
  due_.reset();
  if (kept_.empty()) return;
  delay_ = progress ? first_delay : delay_ + delay_ / 4 + milliseconds{1};
  const bool only_for_workers = std::ranges::all_of(
      kept_, [this](const Kept& kept) { return launcher_.is_for_workers(kept.signal.number); });
  if (!only_for_workers) delay_ = std::min(delay_, longest_delay);
  due_ = Clock::now() + delay_;
}

void SignalForwarder::try_again() {
  const std::size_t before = kept_.size();
  SignalSet waiting = 0;  // signals whose later ones of the same number must wait too
  std::erase_if(kept_, [&](Kept& kept) {
    const int number = kept.signal.number;
    if ((waiting & bit(number)) != 0) return false;
    const int done = deliver(kept.signal, kept.stop);
    const bool refused = done != -EAGAIN && ++kept.refused >= most_refusals;
    if (refused) log::warn("{} could not be passed on: {}", signal_name(number), std::strerror(-done));
    if (done >= 0 || done == -ESRCH || refused) return true;
    waiting |= bit(number);
    return false;
  });
  if (before >= most_kept && kept_.size() < most_kept) signals_.hold_real_time(false);
  set_due(kept_.size() < before);
}

/// Delivers only while the command is not reaped: until then its process number, and its group's, cannot be
/// reused.
int SignalForwarder::deliver(const Signal& signal, bool stop) try {
  if (launcher_.is_for_workers(signal.number)) return deliver_to_workers(signal);
  if (stop && scope_ == SignalScope::handlers) {
    if (const std::optional<int> done = walk(unmerged(signal))) return *done;
  }
  if (scope_ == SignalScope::tree) return to_all(signal);
  int refused = -ESRCH;
  bool reached = false;
  for (const pid_t process : processes_) {
    const int done = deliver_to(process, unmerged(signal));
    reached = reached || done >= 0;
    if (done < 0 && done != -ESRCH) refused = done;
  }
  if (reached && refused != -ESRCH)  // if it were sent again, some workers would get it twice
    log::warn("{} did not reach every worker: {}", signal_name(signal.number), std::strerror(-refused));
  return reached ? 0 : refused;
} catch (const std::bad_alloc&) {
  return -EAGAIN;
}

int SignalForwarder::deliver_to(pid_t process, const Signal& signal) {
  const bool to_group =
      scope_ == SignalScope::group || (scope_ == SignalScope::handlers && !launcher_.stops_workers());
  if (to_group) {
    int done = signal.is_queued() ? kernel::queue_to_group(process, signal) : -ENOSYS;
    if (done == -ENOSYS && signal.is_queued()) done = walk_group(process, signal);
    if (done == -ENOSYS) done = kernel::send(-process, signal.number);
    if (done != -ESRCH) return done;  // otherwise the process has moved to another group
  }
  return kernel::send(process, signal);
}

/// Passes a stop down the tree; nothing if /proc does not show the command, or what processes do with
/// signals.
std::optional<int> SignalForwarder::walk(const Signal& signal) {
  const std::optional<std::vector<Process>> all = everything();
  if (!all || !StopWalk::is_possible()) return std::nullopt;
  std::vector<Process> roots = launcher_.receivers_of_stop(signal.number);
  if (roots.empty()) {
    std::ranges::copy_if(*all, std::back_inserter(roots), [this](const Process& process) {
      return std::ranges::find(processes_, process.pid) != processes_.end();
    });
    if (roots.size() != processes_.size()) return std::nullopt;
  }
  return stop_walk_.pass(*all, roots, signal);
}

/// −EAGAIN while no worker can take it.
int SignalForwarder::deliver_to_workers(const Signal& signal) {
  const std::vector<Process> workers = launcher_.receivers();
  const bool ready =
      std::ranges::all_of(workers, [&](const Process& worker) { return can_take(worker, signal.number); });
  if (workers.empty() || !ready) return -EAGAIN;
  const int sent = send_each(workers, signal);
  if (sent < 0) {
    log::warn("{} did not reach every worker: {}", signal_name(signal.number), std::strerror(-sent));
  } else {
    log::info("{} passed on to {}", signal_name(signal.number),
              workers.size() == 1 ? "the launcher's worker" : fmt::format("{} workers", workers.size()));
  }
  return 0;  // if it were sent again, some workers would get it twice
}

/// For kernels before 6.9, which can send values only to single processes.
int SignalForwarder::walk_group(pid_t group, const Signal& signal) {
  std::optional<std::vector<Process>> members = everything();
  if (!members) return -ENOSYS;
  std::erase_if(*members, [group](const Process& process) { return process.group != group; });
  return members->empty() ? -ESRCH : send_each(*members, signal);
}

int SignalForwarder::to_all(const Signal& signal) {
  if (pid_1_ && before_us_.empty() && !signal.is_queued()) return kernel::send(-1, signal.number);
  if (const std::optional<std::vector<Process>> all = everything()) return send_each(*all, signal);
  if (pid_1_) return kernel::send(-1, signal.number);
  int done = -ESRCH;  // without /proc it is not known what is left when the command has ended
  for (const pid_t process : processes_) {
    const int sent = kernel::send(-process, signal.number);
    done = std::max(done, sent == -ESRCH ? kernel::send(process, signal.number) : sent);
  }
  return done;
}

void SignalForwarder::stop_what_is_left() {
  const bool first = !std::exchange(asked_what_is_left_, true);
  const std::optional<std::vector<Process>> all =
      scope_ == SignalScope::handlers && StopWalk::is_possible() ? everything() : std::nullopt;
  if (!all) {
    if (first) to_all({SIGTERM});
    return;
  }
  std::vector<Process> roots;
  std::ranges::copy_if(*all, std::back_inserter(roots), [this](const Process& process) {
    return process.parent == getpid() && !stop_walk_.has_reached(process);
  });
  stop_walk_.pass(*all, roots, {SIGTERM});
}

void SignalForwarder::continue_stopped() {
  std::optional<std::vector<Process>> all = everything();
  if (!all) return void(to_all({SIGCONT}));
  std::erase_if(*all, [](const Process& process) { return process.state != 'T' && process.state != 't'; });
  send_each(*all, {SIGCONT});
}

/// Without memory for a list of them it is as without /proc.
std::optional<std::vector<Process>> SignalForwarder::everything() const {
  try {
    return descendants(getpid(), before_us_);
  } catch (const std::bad_alloc&) {
    static bool said = false;
    if (!std::exchange(said, true))
      log::warn("the system refused memory for a list of the processes: signals go to the command's group");
    return std::nullopt;
  }
}

bool SignalForwarder::nothing_left() const {
  if (before_us_.empty()) return false;
  const std::optional<std::vector<Process>> left = everything();
  return left && std::ranges::none_of(*left, &Process::alive);
}

}  // namespace rankshim::supervise
