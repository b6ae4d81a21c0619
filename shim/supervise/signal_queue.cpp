#include "supervise/signal_queue.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/error.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "supervise/kernel.h"
#include "supervise/last_resort.h"
#include "wait/asio_without_exceptions.h"
#include "wait/event_loop_step.h"

namespace rankshim::supervise {

using std::chrono::milliseconds;

namespace {

constexpr std::chrono::duration<int, std::milli> a_moment{5};
constexpr milliseconds longest_wait{1000};
constexpr SignalSet all_signals = ~SignalSet{0};
constexpr SignalSet real_time_signals = all_signals << (first_real_time_signal - 1);

void must(int result, std::string_view call) {
  if (result < 0) last_resort::refused(std::string(call) + ": " + std::strerror(-result));
}

int open_signal_descriptor() {
  kernel::reserve_standard_descriptors();
  // Block again: a refusal of the call before main (seccomp) could not be reported, and without the mask no
  // child's end would be noticed.
  must(kernel::set_signal_mask(all_signals, nullptr), "sigprocmask");
  const int descriptor = kernel::signal_descriptor(-1, all_signals);
  must(descriptor, "signalfd");
  stop_ignoring_children();
  return descriptor;
}

}  // namespace

SignalQueue::SignalQueue(boost::asio::io_context& io)
    : descriptor_(io, open_signal_descriptor()), timer_(io) {}

Received SignalQueue::take() {
  if (!fill()) return {};
  const Received signal = front();
  ++first_;
  return signal;
}

boost::asio::awaitable<Received> SignalQueue::next_ending(Deadline deadline) {
  co_await boost::asio::this_coro::throw_if_cancelled(false);
  do {
    for (; fill(); drop()) {
      const Received signal = front();
      if (ends_by_default(signal.number) && !inherited_as_ignored(signal.number) &&
          !is_of_our_own_making(signal))
        co_return signal;
    }
    if (refusal_ != 0) poll(nullptr, 0, a_moment.count());  // not at full speed
    if (deadline ? *deadline <= Clock::now() : without_loop_) co_return Received{};
  } while (co_await wait(deadline));
  co_return Received{};
}

void SignalQueue::drop() {
  if (first_ == end_) return;
  last_resort::settle(front().number);
  ++first_;
}

void SignalQueue::hold_real_time(bool hold) {
  taken_ = hold ? all_signals & ~real_time_signals : all_signals;
  kernel::signal_descriptor(descriptor_.native_handle(), taken_);
}

// A signal that was read is in a member before any caller gets it. This reads first and waits only then, by a
// wait that checks again itself: if a read wrongly returns nothing, no signal is lost.
bool SignalQueue::fill() {
  if (first_ != end_) return true;
  const ssize_t got = read(descriptor_.native_handle(), read_.data(), sizeof(read_));
  refusal_ = got < 0 && errno != EAGAIN && errno != EINTR ? errno : 0;
  if (got > 0) {
    readable_ = false;
    first_ = 0;
    end_ = static_cast<std::size_t>(got) / sizeof(signalfd_siginfo);
    for (std::size_t i = 0; i < end_; ++i) last_resort::owe(static_cast<int>(read_[i].ssi_signo));
    return true;
  }
  // The descriptor is refused, or is never readable although it should be: the kernel still has the signal.
  if ((readable_ || refusal_ != 0) && take_pending(milliseconds(0))) return true;
  if (refusal_ == 0 && std::exchange(readable_, false))
    poll(nullptr, 0, a_moment.count());  // not at full speed
  return false;
}

boost::asio::awaitable<bool> SignalQueue::wait(Deadline deadline) {
  if (first_ != end_) co_return true;
  if (is_cancelled(co_await boost::asio::this_coro::cancellation_state)) co_return false;
  set_timer(deadline);
  woken_ = false;
  boost::system::error_code error;  // an expected one too: every deadline cancels the wait
  co_await descriptor_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                                  boost::asio::redirect_error(boost::asio::use_awaitable, error));
  readable_ = !error;
  const bool cancelled = error == boost::asio::error::operation_aborted;
  if (error && !cancelled) poll(nullptr, 0, a_moment.count());  // refused: the caller checks again
  co_return !cancelled || woken_;
}

/// If an earlier timer is set already, it only wakes up too early.
void SignalQueue::set_timer(Deadline deadline) {
  if (deadline == timer_set_for_) return;
  timer_set_for_ = deadline;
  set_far_deadline(deadline);
  if (!deadline) {
    timer_.cancel();
    return;
  }
  timer_.expires_at(*deadline);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    timer_set_for_.reset();
    set_far_deadline({});  // a deadline in the past would never let the loop sleep
    wake();
  });
}

void SignalQueue::wake() {
  woken_ = true;
  boost::system::error_code ignored;
  descriptor_.cancel(ignored);
}

void SignalQueue::wait_without_loop() {
  without_loop_ = true;
  const Clock::time_point now = Clock::now();
  const Clock::time_point end = std::min(timer_set_for_.value_or(now + longest_wait), now + longest_wait);
  if (first_ == end_) take_pending(std::chrono::ceil<milliseconds>(std::max(end - now, Clock::duration(0))));
  wake();
}

bool SignalQueue::take_pending(milliseconds time) {
  kernel::Payload payload;
  const int signal = kernel::take_signal(taken_, time, &payload);
  if (signal <= 0) return false;
  first_ = 0;
  end_ = 1;
  read_[0] = {};
  read_[0].ssi_signo = static_cast<std::uint32_t>(signal);
  read_[0].ssi_code = payload.code;
  read_[0].ssi_pid = static_cast<std::uint32_t>(payload.sender);
  read_[0].ssi_uid = payload.user;
  read_[0].ssi_ptr = payload.value;
  last_resort::owe(signal);
  return true;
}

Received SignalQueue::front() const {
  const signalfd_siginfo& info = read_[first_];
  return {.number = static_cast<int>(info.ssi_signo),
          .code = info.ssi_code,
          .sender = info.ssi_pid,
          .user = info.ssi_uid,
          .value = info.ssi_ptr};
}

}  // namespace rankshim::supervise
