#pragma once

#include <sys/epoll.h>

#include <array>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <chrono>
#include <cstdint>
#include <span>

#include "loop/timer.h"
#include "wait/timing.h"

namespace rankshim::wait {

/// Waits for several descriptors and a deadline in one co_await. The descriptors belong to others: c-ares
/// opens and closes its sockets as it likes, and Asio, which would insist on owning them, sees only the epoll
/// set that holds them.
class PollSet {
 public:
  /// Throws boost::system::system_error if the kernel refuses an epoll set.
  explicit PollSet(const boost::asio::any_io_executor& executor);

  /// Watches `fd` for `events` (EPOLLIN, EPOLLOUT, …; 0 ends it), instead of the events before. Events have
  /// it in data.fd. A descriptor that is closed is removed automatically.
  void watch(int fd, std::uint32_t events) noexcept;

  /// Returns what is ready now, or next; empty when the deadline has come, and seldom before. Valid until the
  /// next call.
  boost::asio::awaitable<std::span<const epoll_event>> wait(Clock::time_point deadline);

 private:
  boost::asio::posix::stream_descriptor set_;
  loop::Timer timer_;
  std::array<epoll_event, 16> events_{};
};

}  // namespace rankshim::wait
