#include "init/signal_queue.h"

#include <poll.h>
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
  taken_ = hold ? all_signals & ~real_time_signals : all_signals;
  kernel::signal_descriptor(descriptor_.native_handle(), taken_);
}

// What was read lies in a member before anyone is told of it: a cancelled wait leaves it there. Read first
// and waited for then, by a wait that looks again itself: a read that says "nothing" wrongly loses nothing.
boost::asio::awaitable<bool> SignalQueue::fill() {
  constexpr int a_moment = 5;  // milliseconds
  bool told = false;           // that there is something
  while (first_ == end_) {
    const ssize_t got = read(descriptor_.native_handle(), read_.data(), sizeof(read_));
    if (got > 0) {
      first_ = 0;
      end_ = static_cast<std::size_t>(got) / sizeof(signalfd_siginfo);
      for (std::size_t i = 0; i < end_; ++i) last_resort::owe(static_cast<int>(read_[i].ssi_signo));
      continue;
    }
    const int refusal = got < 0 && errno != EAGAIN && errno != EINTR ? errno : 0;
    // A descriptor that is refused, or never has what it is said to have: the kernel has it all the same.
    if ((told || refusal != 0) && take_pending(std::chrono::milliseconds(0))) continue;
    if (refusal != 0) throw std::system_error(refusal, std::system_category(), "signalfd");
    if (told) poll(nullptr, 0, a_moment);  // not at full speed
    boost::system::error_code error;       // not thrown: every supervision ends with a cancelled wait
    co_await descriptor_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                                    boost::asio::redirect_error(boost::asio::use_awaitable, error));
    if (error) co_return false;
    told = true;
  }
  co_return true;
}

bool SignalQueue::take_pending(std::chrono::milliseconds time) {
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

Received SignalQueue::take(std::chrono::milliseconds time) {
  if (first_ == end_ && !take_pending(time)) return {};
  const Received signal = front();
  ++first_;
  return signal;
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
