#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <chrono>
#include <utility>

namespace rankshim::loop {

using Clock = std::chrono::steady_clock;  // CLOCK_MONOTONIC in libstdc++ and libc++

/// A moment as an event of the loop, by a timerfd of its own, which is made for the first moment. Asio's own
/// timers are not used: after the first of them has passed, the loop would wake up every 5 minutes for ever
/// (boost/asio/detail/impl/epoll_reactor.ipp, get_timeout).
class Timer {
 public:
  explicit Timer(const boost::asio::any_io_executor& executor) : descriptor_(executor) {}
  Timer(const boost::asio::any_io_executor& executor, Clock::time_point when) : Timer(executor) {
    expires_at(when);
  }

  /// Sets the moment. A wait that goes on ends with operation_aborted. Throws boost::system::system_error if
  /// the kernel refuses it.
  void expires_at(Clock::time_point when);
  void expires_after(Clock::duration time) { expires_at(Clock::now() + time); }

  /// Ends a wait with operation_aborted, and forgets the moment.
  void cancel();

  /// Completes at the moment, or at once if it has passed: a handler gets the error_code alone.
  template <class Token>
  auto async_wait(Token&& token) {
    return descriptor_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                                  std::forward<Token>(token));
  }

 private:
  boost::asio::posix::stream_descriptor descriptor_;
};

}  // namespace rankshim::loop
