#include "supervise/delivery.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <new>

#include "log/log.h"

namespace rankshim::supervise {
namespace {

constexpr std::chrono::milliseconds retry_after{5};
constexpr std::size_t most_kept = 10'000;  // more stay in the kernel, which tells their sender

}  // namespace

void Delivery::leave_alone_present_children() {
  if (kernel::has_children() == 1) before_us_ = everything().value_or(std::vector<Process>{});
}

void Delivery::command_ended() {
  command_ended_ = true;
  if (kept_.size() >= most_kept) signals_.hold_real_time(false);
  kept_.clear();
  due_.reset();
}

void Delivery::pass_on(const Received& signal) {
  const bool real_time = signal.number >= first_real_time_signal;
  int done = -EAGAIN;
  if (!real_time || kept_.empty()) done = deliver(signal);
  if (done == -EAGAIN && real_time) {  // the receiver's queue is full
    kept_.push_back(signal);
    due_ = Clock::now() + retry_after;
    if (kept_.size() == most_kept) signals_.hold_real_time(true);
  } else if (done < 0 && done != -ESRCH) {
    if (!warned_)
      log::warn("{} could not be passed on: {}", signal_name(signal.number), std::strerror(-done));
    warned_ = true;
  }
}

void Delivery::try_again() {
  std::size_t sent = 0;
  while (sent < kept_.size() && deliver(kept_[sent]) != -EAGAIN) ++sent;
  const bool was_full = kept_.size() >= most_kept;
  kept_.erase(kept_.begin(), kept_.begin() + static_cast<std::ptrdiff_t>(sent));
  if (was_full && kept_.size() < most_kept) signals_.hold_real_time(false);
  due_.reset();
  if (!kept_.empty()) due_ = Clock::now() + retry_after;
}

/// Only while the command is not reaped: until then its number, and its group's, is its own.
int Delivery::deliver(const Received& signal) {
  const bool queued =
      signal.code < 0 && signal.code != SI_TKILL;  // by sigqueue(3) and its like: with a value
  // A real-time signal is always queued: kill(2) would silently merge it with others when the receiver's
  // queue is full.
  const bool real_time = signal.number >= first_real_time_signal;
  const kernel::Payload payload{.code = queued ? signal.code : SI_QUEUE,
                                .sender = static_cast<pid_t>(signal.sender),
                                .user = signal.user,
                                .value = signal.value};
  if (scope_ == SignalScope::tree) return to_all(signal.number, queued ? &payload : nullptr);
  if (scope_ == SignalScope::group) {
    int done = queued || real_time ? kernel::queue_to_group(command_, signal.number, payload) : -ENOSYS;
    if (done == -ENOSYS && queued) done = walk_group(signal.number, payload);
    if (done == -ENOSYS) done = kernel::send(-command_, signal.number);
    if (done != -ESRCH) return done;  // otherwise the command has left its group for another
  }
  return queued || real_time ? kernel::queue(command_, signal.number, payload)
                             : kernel::send(command_, signal.number);
}

/// For kernels before 6.9, which give values to processes only.
int Delivery::walk_group(int signal, const kernel::Payload& payload) {
  std::optional<std::vector<Process>> members = everything();
  if (!members) return -ENOSYS;
  std::erase_if(*members, [this](const Process& process) { return process.group != command_; });
  return members->empty() ? -ESRCH : send_each(*members, signal, &payload);
}

int Delivery::to_all(int signal, const kernel::Payload* payload) {
  if (pid_1_ && before_us_.empty() && payload == nullptr) return kernel::send(-1, signal);
  if (const std::optional<std::vector<Process>> all = everything()) return send_each(*all, signal, payload);
  if (pid_1_) return kernel::send(-1, signal);
  if (command_ended_) return -ESRCH;  // without /proc nobody can say who is left
  const int done = kernel::send(-command_, signal);
  return done == -ESRCH ? kernel::send(command_, signal) : done;
}

std::optional<std::vector<Process>> Delivery::everything() const {
  try {
    return descendants(getpid(), before_us_);
  } catch (const std::bad_alloc&) {
    return std::nullopt;
  }
}

bool Delivery::nothing_left() const {
  if (before_us_.empty()) return false;
  const std::optional<std::vector<Process>> left = everything();
  return left && std::ranges::none_of(*left, &Process::alive);
}

}  // namespace rankshim::supervise
