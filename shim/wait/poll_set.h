#pragma once

#include <sys/epoll.h>

#include <array>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <chrono>
#include <cstdint>
#include <span>

namespace rankshim::wait {

using Clock = std::chrono::steady_clock;  // CLOCK_MONOTONIC in libstdc++ and libc++

/// Waits for several descriptors and a deadline in one co_await. The descriptors belong to others: c-ares
/// opens and closes its sockets as it likes, and Asio, which would insist on owning them, sees only the epoll
/// set that holds them. The deadline is a timerfd in the set: combining two of Asio's operations by `||`
/// would cost 12 kB for the same.
class PollSet {
 public:
  /// If the kernel refuses an epoll set or timer, there is an error().
  explicit PollSet(const boost::asio::any_io_executor& executor);

  /// Why nothing can be waited for any more: errno, ECANCELED once the coroutine is cancelled; 0 if there is
  /// no reason.
  [[nodiscard]] int error() const { return error_; }

  /// Watches `fd` for `events` (EPOLLIN, EPOLLOUT, …; 0 ends it), instead of the events before. Events have
  /// `tag` in data.u64; all ones is reserved. A descriptor that is closed is removed automatically.
  void watch(int fd, std::uint32_t events, std::uint64_t tag) noexcept;

  /// Returns what is ready now, or next; empty when the deadline has come, and seldom before, and at once if
  /// there is an error(). Valid until the next call.
  boost::asio::awaitable<std::span<const epoll_event>> wait(Clock::time_point deadline);

 private:
  void note(int error);

  boost::asio::posix::stream_descriptor set_;
  boost::asio::posix::stream_descriptor timer_;  // owned only; the set watches it
  std::array<epoll_event, 16> events_{};
  int error_ = 0;
};

}  // namespace rankshim::wait
