#include "supervise/signal_forwarder.h"

#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <iterator>
#include <new>
#include <utility>

#include "base/log.h"
#include "base/text.h"
#include "loop/loop.h"

namespace rankshim::supervise {
namespace {

using node::Process;
using std::chrono::milliseconds;

constexpr milliseconds first_delay{5};
constexpr milliseconds longest_delay{5000};        // workers may start after hours of waiting for peers
constexpr std::chrono::seconds time_to_start{60};  // for processes to handle a notice, from its arrival on
constexpr std::size_t most_kept = 10'000;  // then the kernel's queue fills up, which the sender notices

}  // namespace

void SignalForwarder::leave_alone_present_children(const std::vector<Process>& prepared) {
  siginfo_t info;
  if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0) return;
  before_us_ = node::descendants(getpid(), prepared).value_or(std::vector<Process>{});
}

/// The children that are not the command's, without their descendants.
std::vector<Process> SignalForwarder::apart() const {
  std::vector<Process> all = before_us_;
  if (policy_.apart) std::ranges::copy(policy_.apart(), std::back_inserter(all));
  return all;
}

bool SignalForwarder::is_apart(pid_t process) const {
  const std::vector<Process> all = apart();
  return std::ranges::find(all, process, &Process::pid) != all.end();
}

void SignalForwarder::drop_kept() {
  if (kept_.size() >= most_kept) signals_.hold_real_time(false);
  SignalSet named = 0;
  for (const Kept& kept : kept_) {
    const int number = kept.signal.number;
    if (is_for_workers(number) && (named & bit(number)) == 0)
      log::warn("{} is dropped: the {}", signal_name(number),
                launcher_.receivers() ? "launcher ended before its workers could take it"
                                      : "command ended before a process of it handled it");
    named |= bit(number);
  }
  kept_.clear();
  due_.reset();
}

void SignalForwarder::pass_on(const Signal& signal, bool stop) {
  if (!waits(signal.number)) forget_receivers(signal.number);
  pass_on_further(signal, stop);
}

/// Passes the signal on to the processes that are not known to have got it.
void SignalForwarder::pass_on_further(Signal signal, bool stop) {
  // kill(2) would silently merge a real-time signal with others if the receiver's queue is full.
  if (signal.number >= first_real_time_signal && !signal.is_queued()) signal.code = SI_QUEUE;
  const bool later = waits(signal.number);
  if (later && signal.number < first_real_time_signal) return;  // merged, as the kernel would do
  const Clock::time_point now = Clock::now();
  const int done = later ? -EAGAIN : deliver({signal, stop, now});
  if (stop && done >= 0) continue_stopped();
  if (done >= 0 || done == -ESRCH) return;
  if (done != -EAGAIN) {
    log::warn("{} cannot be passed on yet: {}", signal_name(signal.number), std::strerror(-done));
  } else if (!later && is_for_workers(signal.number)) {
    log::info(
        "{} is kept until {}", signal_name(signal.number),
        launcher_.receivers() ? "the launcher's workers can take it" : "a process of the command handles it");
  }
  kept_.push_back({signal, stop, now});
  if (kept_.size() == most_kept) signals_.hold_real_time(true);
  if (!due_) set_due(true);
}

void SignalForwarder::pass_on_to_the_rest(const Signal& signal, bool stop) {
  const bool for_workers = is_for_workers(signal.number);
  forget_receivers(signal.number);
  for (const Process& process : everything()) {
    const std::optional<SignalMasks> masks = for_workers ? signal_masks(process.pid) : std::nullopt;
    if (!masks || masks->handle(signal.number)) got_.push_back({process, signal.number});
  }
  if (for_workers) return pass_on_further(signal, stop);
  if (stop) continue_stopped();
}

bool SignalForwarder::waits(int signal) const {
  return std::ranges::any_of(kept_, [signal](const Kept& kept) { return kept.signal.number == signal; });
}

bool SignalForwarder::has_got(const Process& process, int signal) const {
  return std::ranges::any_of(
      got_, [&](const Receiver& earlier) { return earlier.signal == signal && earlier.process.is(process); });
}

void SignalForwarder::forget_receivers(int signal) {
  std::erase_if(got_, [signal](const Receiver& earlier) { return earlier.signal == signal; });
}

/// Schedules the next try, which comes sooner after a delivery.
void SignalForwarder::set_due(bool progress) {
  delay_ = progress ? first_delay : std::min(delay_ + delay_ / 4 + milliseconds{1}, longest_delay);
  due_.reset();
  if (!kept_.empty()) due_ = Clock::now() + delay_;
}

void SignalForwarder::try_again() {
  const std::size_t before = kept_.size();
  SignalSet waiting = 0;  // if one of these could not be delivered, later ones of its number wait too
  std::erase_if(kept_, [&](const Kept& kept) {
    const SignalSet number = bit(kept.signal.number);
    if ((waiting & number) != 0) return false;
    const int done = deliver(kept);
    if (kept.stop && done >= 0) continue_stopped();
    if (done < 0 && done != -ESRCH) waiting |= number;
    return (waiting & number) == 0;
  });
  if (before >= most_kept && kept_.size() < most_kept) signals_.hold_real_time(false);
  set_due(kept_.size() < before);
}

/// Delivers a signal. Returns 0 or −errno; −ESRCH if nobody is left to get it.
int SignalForwarder::deliver(const Kept& kept) try {
  const auto& [signal, stop, since] = kept;
  if (is_for_workers(signal.number)) {
    if (auto workers = launcher_.receivers()) return to_workers(*std::move(workers), signal);
    if (policy_.scope == SignalScope::handlers) return to_handlers_in_time(signal, since);
  }
  // The signal was inherited as ignored. A process that handles it nevertheless may pass it on to its group
  // (uv run).
  if (!stop && is_stop_signal(signal.number) && policy_.scope == SignalScope::handlers &&
      !launcher_.receivers()) {
    if (const std::optional<int> done = to_handlers(signal)) return *done;
  }
  if (const std::optional<int> done = stop ? walk(signal) : std::nullopt) return *done;
  if (policy_.scope == SignalScope::tree) return to_all(signal);
  return to_command(signal, policy_.scope == SignalScope::group ||
                                (policy_.scope == SignalScope::handlers && !launcher_.stops_workers()));
} catch (const std::bad_alloc&) {
  return -EAGAIN;
}

/// Sends to the command's processes, or to the groups that they lead.
int SignalForwarder::to_command(const Signal& signal, bool groups) {
  int all = -ESRCH;
  for (const pid_t process : processes_) {
    const int sent = groups ? to_group(process, signal) : -ESRCH;
    // The process may have moved to another group.
    all = either(all, sent == -ESRCH ? kernel::send(process, signal) : sent);
  }
  return all;
}

int SignalForwarder::to_group(pid_t leader, const Signal& signal) {
  if (signal.is_queued()) {
    if (const int sent = kernel::queue_to_group(leader, signal); sent != -ENOSYS) return sent;
    // Kernels before 6.9 can send values only to single processes.
    std::vector<Process> members = everything();
    std::erase_if(members, [leader](const Process& process) { return process.group != leader; });
    if (!members.empty()) return send_each(members, signal);
  }
  return kernel::send(-leader, signal.number);
}

std::vector<Process> SignalForwarder::own_among(const std::vector<Process>& all) const {
  std::vector<Process> own;
  std::ranges::copy_if(all, std::back_inserter(own),
                       [this](const Process& process) { return contains(processes_, process.pid); });
  return own;
}

/// All processes, if a stop goes down the tree and /proc shows how they handle signals; else none.
std::vector<Process> SignalForwarder::walkable() const {
  const bool wanted = policy_.scope == SignalScope::handlers;
  return wanted && signal_masks(getpid()) ? everything() : std::vector<Process>{};
}

/// Passes a stop down the tree; nullopt if that is not wanted, or /proc does not show the command.
std::optional<int> SignalForwarder::walk(const Signal& signal) {
  const std::vector<Process> all = walkable();
  if (all.empty()) return std::nullopt;
  std::vector<Process> roots = launcher_.receivers_of_stop(signal.number);
  if (roots.empty()) roots = own_among(all);
  if (roots.size() < processes_.size()) return std::nullopt;
  return walk_from(std::move(roots), all, signal);
}

/// Sends to `next`, and on down the tree. Skips processes that already got this signal in an earlier try.
int SignalForwarder::walk_from(std::vector<Process> next, const std::vector<Process>& all,
                               const Signal& signal) {
  const std::size_t roots = next.size();
  int sent_to_roots = -ESRCH;
  for (std::size_t at = 0; at < next.size(); ++at) {  // grows meanwhile
    const Process process = next[at];
    const bool again = has_got(process, signal.number);
    const int sent = again ? 0 : send_to(process, signal);
    if (at < roots) sent_to_roots = either(sent_to_roots, sent);
    if (sent < 0 && sent != -ESRCH) continue;
    if (!again) got_.push_back({process, signal.number});
    std::ranges::copy(next_after(process, all, signal.number), std::back_inserter(next));
  }
  return sent_to_roots;
}

/// Whether a worker handles, ignores or blocks the signal of its own accord. True for one that is no longer
/// young, because it is not worth waiting for.
bool SignalForwarder::can_take(const Process& worker, int signal) const {
  if (!is_young(worker)) return true;
  const std::optional<SignalMasks> masks = signal_masks(worker.pid);
  const bool ignored_for_us = (policy_.ignored_at_start & bit(signal)) != 0 && !inherited_as_ignored(signal);
  return masks && (ignored_for_us ? masks->handle(signal) : masks->take(signal));
}

/// Sends to the workers that have not got it; −EAGAIN while there are none, or one of them cannot take it
/// yet.
int SignalForwarder::to_workers(std::vector<Process> workers, const Signal& signal) {
  if (workers.empty()) return -EAGAIN;
  std::erase_if(workers, [&](const Process& worker) { return has_got(worker, signal.number); });
  if (!std::ranges::all_of(workers, [&](const Process& worker) { return can_take(worker, signal.number); }))
    return -EAGAIN;
  if (workers.empty()) {
    log::info("{} has reached the workers from its sender", signal_name(signal.number));
    return 0;
  }
  const int sent = send_each(workers, signal);
  if (sent == 0)
    log::info("{} passed on to {}", signal_name(signal.number),
              workers.size() == 1 ? "the launcher's worker" : fmt::format("{} workers", workers.size()));
  return sent;
}

/// For a program: sends to the processes in its tree that handle the signal, because it would kill those that
/// only start them (sh -c, timeout, conda run). While none handles it, returns −EAGAIN as long as one of
/// several processes is young, but not for longer than a process counts as young, because a loop always has a
/// young child. After that, or at once if the program has no children, it is sent like any other signal.
int SignalForwarder::to_handlers_in_time(const Signal& signal, Clock::time_point since) {
  if (const std::optional<int> done = to_handlers(signal)) return *done;
  const std::vector<Process> all = walkable();
  const bool in_time = Clock::now() < since + time_to_start;
  if (in_time && all.size() > 1 && std::ranges::any_of(all, is_young)) return -EAGAIN;
  return to_command(signal, true);
}

/// Sends to the processes in a program's tree that handle the signal; nullopt if none does.
std::optional<int> SignalForwarder::to_handlers(const Signal& signal) {
  const std::vector<Process> all = walkable();
  std::vector<Process> handlers = handlers_below(own_among(all), all, signal.number);
  if (handlers.empty()) return std::nullopt;
  std::erase_if(handlers, [&](const Process& process) { return has_got(process, signal.number); });
  if (!handlers.empty()) return send_each(handlers, signal);
  log::info("{} has reached the processes that handle it from its sender", signal_name(signal.number));
  return 0;
}

int SignalForwarder::to_all(const Signal& signal) {
  if (pid_1_ && apart().empty() && !signal.is_queued()) return kernel::send(-1, signal.number);
  if (const std::vector<Process> all = everything(); !all.empty()) return send_each(all, signal);
  // Without /proc it is unknown what is left when the command has ended.
  return pid_1_ ? kernel::send(-1, signal.number) : to_command(signal, true);
}

void SignalForwarder::stop_what_is_left(bool first) {
  const std::vector<Process> all = walkable();
  if (all.empty() && first) to_all({SIGTERM});
  std::vector<Process> roots = all;
  std::erase_if(roots, [this](const Process& process) {
    return process.parent != getpid() || std::ranges::any_of(got_, [&](const Receiver& earlier) {
             return is_stop_signal(earlier.signal) && earlier.process.is(process);
           });
  });
  walk_from(std::move(roots), all, {SIGTERM});
}

void SignalForwarder::continue_stopped() try {
  std::vector<Process> all = everything();
  if (all.empty()) to_all({SIGCONT});
  std::erase_if(all, [](const Process& process) { return process.state != 'T' && process.state != 't'; });
  send_each(all, {SIGCONT});
} catch (const std::bad_alloc& error) {
  loop::go_on_after(error);
}

std::vector<Process> SignalForwarder::everything() const try {
  return node::descendants(getpid(), apart()).value_or(std::vector<Process>{});
} catch (const std::bad_alloc& error) {
  loop::go_on_after(error);
  return {};
}

bool SignalForwarder::nothing_left() const {
  const std::vector<Process> others = apart();
  if (others.empty()) return false;
  const std::optional<std::vector<Process>> left = node::descendants(getpid(), others);
  return left && std::ranges::none_of(*left, &Process::alive);
}

}  // namespace rankshim::supervise
