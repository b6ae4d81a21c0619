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

using std::chrono::milliseconds;

constexpr milliseconds first_delay{5};
constexpr milliseconds longest_delay{5000};  // workers may come after hours of waiting for peers
constexpr std::size_t most_kept = 10'000;    // then the kernel's queue fills, which its sender notices

}  // namespace

void SignalForwarder::leave_alone_present_children() {
  siginfo_t info;
  if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0) before_us_ = everything();
}

void SignalForwarder::drop_kept() {
  if (kept_.size() >= most_kept) signals_.hold_real_time(false);
  SignalSet named = 0;
  for (const Kept& kept : kept_) {
    const int number = kept.signal.number;
    if (is_for_workers(number) && (named & bit(number)) == 0)
      log::warn("{} is given up: the launcher ended before its workers could take it", signal_name(number));
    named |= bit(number);
  }
  kept_.clear();
  due_.reset();
}

void SignalForwarder::pass_on(Signal signal, bool stop) {
  // kill(2) would silently merge a real-time signal with others if the receiver's queue is full.
  if (signal.number >= first_real_time_signal && !signal.is_queued()) signal.code = SI_QUEUE;
  const bool waits =
      std::ranges::any_of(kept_, [&signal](const Kept& kept) { return kept.signal.number == signal.number; });
  if (waits && signal.number < first_real_time_signal) return;  // merged, as the kernel would do
  if (stop && !waits)
    std::erase_if(stopped_, [&signal](const Stopped& earlier) { return earlier.signal == signal.number; });
  const int done = waits ? -EAGAIN : deliver(signal, stop);
  if (done >= 0 || done == -ESRCH) return;
  if (done != -EAGAIN) {
    log::warn("{} cannot be passed on yet: {}", signal_name(signal.number), std::strerror(-done));
  } else if (!waits && is_for_workers(signal.number)) {
    log::info("{} is kept until the launcher's workers can take it", signal_name(signal.number));
  }
  kept_.push_back({signal, stop});
  if (kept_.size() == most_kept) signals_.hold_real_time(true);
  if (!due_) set_due(true);
}

/// The next try comes sooner after a delivery.
void SignalForwarder::set_due(bool progress) {
  delay_ = progress ? first_delay : std::min(delay_ + delay_ / 4 + milliseconds{1}, longest_delay);
  due_.reset();
  if (!kept_.empty()) due_ = Clock::now() + delay_;
}

void SignalForwarder::try_again() {
  const std::size_t before = kept_.size();
  SignalSet waiting = 0;  // signals whose later ones of the same number must wait too
  std::erase_if(kept_, [&](const Kept& kept) {
    const SignalSet number = bit(kept.signal.number);
    if ((waiting & number) != 0) return false;
    const int done = deliver(kept.signal, kept.stop);
    if (done < 0 && done != -ESRCH) waiting |= number;
    return (waiting & number) == 0;
  });
  if (before >= most_kept && kept_.size() < most_kept) signals_.hold_real_time(false);
  set_due(kept_.size() < before);
}

/// 0, or −errno; −ESRCH if nobody is left who could get it.
int SignalForwarder::deliver(const Signal& signal, bool stop) try {
  if (is_for_workers(signal.number)) return to_workers(signal);
  if (const std::optional<int> done = stop ? walk(signal) : std::nullopt) return *done;
  if (policy_.scope == SignalScope::tree) return to_all(signal);
  return to_command(signal, policy_.scope == SignalScope::group ||
                                (policy_.scope == SignalScope::handlers && !launcher_.stops_workers()));
} catch (const std::bad_alloc&) {
  return -EAGAIN;
}

/// To the command's processes, or to the groups that they lead.
int SignalForwarder::to_command(const Signal& signal, bool groups) {
  int all = -ESRCH;
  for (const pid_t process : processes_) {
    const int sent = groups ? to_group(process, signal) : -ESRCH;
    // It may have moved to another group.
    all = either(all, sent == -ESRCH ? kernel::send(process, signal) : sent);
  }
  return all;
}

int SignalForwarder::to_group(pid_t leader, const Signal& signal) {
  if (signal.is_queued()) {
    if (const int sent = kernel::queue_to_group(leader, signal); sent != -ENOSYS) return sent;
    // For kernels before 6.9, which can send values only to single processes.
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

/// Everything, if a stop goes down the tree and /proc shows what processes do with signals.
std::vector<Process> SignalForwarder::walkable() const {
  const bool wanted = policy_.scope == SignalScope::handlers;
  return wanted && signal_masks(getpid()) ? everything() : std::vector<Process>{};
}

/// Passes a stop down the tree; nothing if that is not wanted, or /proc does not show the command.
std::optional<int> SignalForwarder::walk(const Signal& signal) {
  const std::vector<Process> all = walkable();
  if (all.empty()) return std::nullopt;
  std::vector<Process> roots = launcher_.receivers_of_stop(signal.number);
  if (roots.empty()) roots = own_among(all);
  if (roots.size() < processes_.size()) return std::nullopt;
  return walk_from(std::move(roots), all, signal);
}

/// Whoever got this signal when it was tried before is left out.
int SignalForwarder::walk_from(std::vector<Process> next, const std::vector<Process>& all,
                               const Signal& signal) {
  const std::size_t roots = next.size();
  int sent_to_roots = -ESRCH;
  for (std::size_t at = 0; at < next.size(); ++at) {  // it grows
    const Process process = next[at];
    const bool again = std::ranges::any_of(stopped_, [&](const Stopped& earlier) {
      return earlier.signal == signal.number && earlier.process.is(process);
    });
    const int sent = again ? 0 : send_to(process, signal);
    if (at < roots) sent_to_roots = either(sent_to_roots, sent);
    if (sent < 0 && sent != -ESRCH) continue;
    if (!again) stopped_.push_back({process, signal.number});
    std::ranges::copy(next_after(process, all, signal.number), std::back_inserter(next));
  }
  return sent_to_roots;
}

/// −EAGAIN while no worker can take it.
int SignalForwarder::to_workers(const Signal& signal) {
  const std::vector<Process> workers =
      launcher_.stops_workers() ? launcher_.receivers() : own_among(everything());
  const bool ready =
      std::ranges::all_of(workers, [&](const Process& worker) { return can_take(worker, signal.number); });
  if (workers.empty() || !ready) return -EAGAIN;
  const int sent = send_each(workers, signal);
  if (sent == 0)
    log::info("{} passed on to {}", signal_name(signal.number),
              workers.size() == 1 ? "the launcher's worker" : fmt::format("{} workers", workers.size()));
  return sent;
}

int SignalForwarder::to_all(const Signal& signal) {
  if (pid_1_ && before_us_.empty() && !signal.is_queued()) return kernel::send(-1, signal.number);
  if (const std::vector<Process> all = everything(); !all.empty()) return send_each(all, signal);
  // Without /proc it is not known what is left when the command has ended.
  return pid_1_ ? kernel::send(-1, signal.number) : to_command(signal, true);
}

void SignalForwarder::stop_what_is_left(bool first) {
  const std::vector<Process> all = walkable();
  if (all.empty() && first) to_all({SIGTERM});
  std::vector<Process> roots = all;
  std::erase_if(roots, [this](const Process& process) {
    return process.parent != getpid() ||
           std::ranges::any_of(stopped_, [&](const Stopped& earlier) { return earlier.process.is(process); });
  });
  walk_from(std::move(roots), all, {SIGTERM});
}

void SignalForwarder::continue_stopped() {
  std::vector<Process> all = everything();
  if (all.empty()) to_all({SIGCONT});
  std::erase_if(all, [](const Process& process) { return process.state != 'T' && process.state != 't'; });
  send_each(all, {SIGCONT});
}

std::vector<Process> SignalForwarder::everything() const try {
  return descendants(getpid(), before_us_).value_or(std::vector<Process>{});
} catch (const std::bad_alloc& error) {
  loop::go_on_after(error);
  return {};
}

bool SignalForwarder::nothing_left() const {
  if (before_us_.empty()) return false;
  const std::optional<std::vector<Process>> left = descendants(getpid(), before_us_);
  return left && std::ranges::none_of(*left, &Process::alive);
}

}  // namespace rankshim::supervise
