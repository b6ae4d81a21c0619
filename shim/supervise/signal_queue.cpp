#include "supervise/signal_queue.h"

#include <unistd.h>

#include <algorithm>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <utility>

#include "loop/loop.h"
#include "supervise/kernel.h"

namespace rankshim::supervise {

namespace {

constexpr SignalSet all_signals = ~SignalSet{0};
constexpr SignalSet real_time_signals = all_signals << (first_real_time_signal - 1);

void must(int result, const char* call) {
  if (result < 0) throw boost::system::system_error(-result, boost::system::system_category(), call);
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
    : descriptor_(io, open_signal_descriptor()), timer_(io.get_executor()) {}

Received SignalQueue::take() {
  if (!fill()) return {};
  const Received signal = front();
  ++first_;
  return signal;
}

boost::asio::awaitable<Received> SignalQueue::next_ending(Deadline deadline) {
  while (true) {
    for (; fill(); drop()) {
      const Received signal = front();
      if (ends_by_default(signal.number) && !inherited_as_ignored(signal.number) &&
          !is_of_our_own_making(signal))
        co_return signal;
    }
    if (deadline && *deadline <= Clock::now()) co_return Received{};
    co_await wait(deadline);
  }
}

void SignalQueue::drop() {
  if (first_ != end_) ++first_;
}

void SignalQueue::hold_real_time(bool hold) {
  kernel::signal_descriptor(descriptor_.native_handle(),
                            hold ? all_signals & ~real_time_signals : all_signals);
}

// A signal that was read is in a member before any caller gets it. This reads first, and only then a caller
// waits: a read that is refused once is repeated when the descriptor is readable.
bool SignalQueue::fill() {
  if (first_ != end_) return true;
  const ssize_t got = read(descriptor_.native_handle(), read_.data(), sizeof(read_));
  if (got <= 0) return false;
  first_ = 0;
  end_ = static_cast<std::size_t>(got) / sizeof(signalfd_siginfo);
  return true;
}

boost::asio::awaitable<void> SignalQueue::wait(Deadline deadline) {
  if (first_ != end_) co_return;
  set_timer(deadline);
  woken_ = false;
  boost::system::error_code error;
  co_await descriptor_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                                  boost::asio::redirect_error(boost::asio::use_awaitable, error));
  if (error && !woken_) throw boost::system::system_error(error);  // cancelled, or refused
}

/// If an earlier timer is set already, it only wakes up too early.
void SignalQueue::set_timer(Deadline deadline) {
  if (deadline == timer_set_for_) return;
  timer_set_for_.reset();
  if (!deadline) return timer_.cancel();
  timer_.expires_at(*deadline);
  timer_set_for_ = deadline;
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (error == boost::asio::error::operation_aborted) return;
    timer_set_for_.reset();  // also where the wait was refused: it is set again
    wake();
  });
}

void SignalQueue::wake() {
  woken_ = true;
  boost::system::error_code ignored;
  descriptor_.cancel(ignored);
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
