#include "supervise/signal_queue.h"

#include <sys/signalfd.h>
#include <unistd.h>

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

Signal SignalQueue::take() {
  fill();
  return std::exchange(next_, {}).value_or(Signal{});
}

boost::asio::awaitable<Signal> SignalQueue::next_ending(Deadline deadline) {
  while (true) {
    for (; fill(); drop()) {
      if (ends_by_default(next_->number) && !inherited_as_ignored(next_->number) &&
          !is_of_our_own_making(*next_))
        co_return *next_;
    }
    if (deadline && *deadline <= Clock::now()) co_return Signal{};
    co_await wait(deadline);
  }
}

void SignalQueue::hold_real_time(bool hold) {
  kernel::signal_descriptor(descriptor_.native_handle(),
                            hold ? all_signals & ~real_time_signals : all_signals);
}

// A signal that was read is in a member before any caller gets it. This reads first, and only then a caller
// waits: a read that is refused once is repeated when the descriptor is readable.
bool SignalQueue::fill() {
  signalfd_siginfo info{};
  if (!next_ && read(descriptor_.native_handle(), &info, sizeof info) == sizeof info)
    next_ = Signal{.number = static_cast<int>(info.ssi_signo),
                   .code = info.ssi_code,
                   .sender = info.ssi_pid,
                   .user = info.ssi_uid,
                   .value = info.ssi_ptr};
  return next_.has_value();
}

boost::asio::awaitable<void> SignalQueue::wait(Deadline deadline) {
  if (next_) co_return;
  if (deadline) {
    timer_.expires_at(*deadline);
    timer_.async_wait([this](const boost::system::error_code& error) {
      if (error != boost::asio::error::operation_aborted) wake();  // also where the wait was refused
    });
  } else {
    timer_.cancel();
  }
  woken_ = false;
  boost::system::error_code error;
  co_await descriptor_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                                  boost::asio::redirect_error(boost::asio::use_awaitable, error));
  if (error && !woken_) throw boost::system::system_error(error);  // cancelled, or refused
}

void SignalQueue::wake() {
  woken_ = true;
  boost::system::error_code ignored;
  descriptor_.cancel(ignored);
}

}  // namespace rankshim::supervise
