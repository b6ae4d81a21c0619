#include "init/signal_queue.h"

#include <unistd.h>

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <system_error>

#include "init/kernel.h"
#include "init/last_resort.h"

namespace rankshim::supervise {
namespace {

constexpr SignalSet all_signals = ~SignalSet{0};
constexpr SignalSet real_time_signals = all_signals << (first_real_time_signal - 1);

int open_signal_descriptor() {
  kernel::reserve_standard_descriptors();
  // Once more: that the one before main was refused (seccomp) would not have been told, and without it no
  // child's end would be.
  const int masked = kernel::set_signal_mask(all_signals, nullptr);
  if (masked < 0) throw std::system_error(-masked, std::system_category(), "sigprocmask");
  const int descriptor = kernel::signal_descriptor(-1, all_signals);
  if (descriptor < 0) throw std::system_error(-descriptor, std::system_category(), "signalfd");
  stop_ignoring_children();
  return descriptor;
}

}  // namespace

SignalQueue::SignalQueue(boost::asio::io_context& io) : descriptor_(io, open_signal_descriptor()) {}

boost::asio::awaitable<Received> SignalQueue::next() {
  if (!co_await fill()) co_return Received{};
  const Received signal = front();
  ++first_;
  co_return signal;
}

boost::asio::awaitable<Received> SignalQueue::next_ending() {
  while (co_await fill()) {
    const Received signal = front();
    if (ends_by_default(signal.number) && !inherited_as_ignored(signal.number) &&
        !is_of_our_own_making(signal))
      co_return signal;
    drop();
  }
  co_return Received{};
}

void SignalQueue::drop() {
  if (first_ == end_) return;
  last_resort::settle(front().number);
  ++first_;
}

void SignalQueue::hold_real_time(bool hold) {
  kernel::signal_descriptor(descriptor_.native_handle(),
                            hold ? all_signals & ~real_time_signals : all_signals);
}

// What was read lies in a member before anyone is told of it: a cancelled wait leaves it there. Read first
// and waited for then, by a wait that looks again itself: a read that says "nothing" wrongly loses nothing.
boost::asio::awaitable<bool> SignalQueue::fill() {
  while (first_ == end_) {
    const ssize_t got = read(descriptor_.native_handle(), read_.data(), sizeof(read_));
    if (got > 0) {
      first_ = 0;
      end_ = static_cast<std::size_t>(got) / sizeof(signalfd_siginfo);
      for (std::size_t i = 0; i < end_; ++i) last_resort::owe(static_cast<int>(read_[i].ssi_signo));
    } else if (got < 0 && errno != EAGAIN && errno != EINTR) {
      throw std::system_error(errno, std::system_category(), "signalfd");
    } else {
      boost::system::error_code error;  // not thrown: every supervision ends with a cancelled wait
      co_await descriptor_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                                      boost::asio::redirect_error(boost::asio::use_awaitable, error));
      if (error) co_return false;
    }
  }
  co_return true;
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
