/// The part of Boost.Asio that is no template, compiled once, with three changes to its loop
/// (boost/asio/detail/impl/epoll_reactor.ipp). If a timer is due, the loop waits with that timeout, so that
/// no timerfd is needed, whose setting the kernel could refuse unnoticed. If none is due, it does not wake up
/// every 5 minutes. And if the kernel refuses to wait, it stops instead of retrying for ever. Unchanged,
/// with a timerfd, Asio makes the released binary 80 bytes smaller and takes three more system calls at the
/// start.

#define BOOST_ASIO_SOURCE

#include <poll.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <boost/asio.hpp>
#include <boost/asio/detail/epoll_reactor.hpp>
#include <boost/asio/detail/timer_queue_set.hpp>
#include <cerrno>
#include <chrono>
#include <limits>
#include <optional>

#include "wait/event_loop_step.h"

namespace rankshim {
namespace {

boost::asio::io_context* running = nullptr;  // during run_one() and poll_one()
int refusal = 0;                             // errno

/// epoll_wait(2), by the one of its two calls that is permitted. Stops the loop once it has been refused for
/// a second.
int wait_for_events(int epoll, epoll_event* events, int most, int milliseconds) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::seconds patience{1};
  constexpr int a_moment = 5;
  static std::optional<Clock::time_point> refused_since;
  int count = epoll_wait(epoll, events, most, milliseconds);
  const auto is_forbidden = [&] { return count < 0 && (errno == EPERM || errno == ENOSYS); };
  if (is_forbidden()) {
    constexpr std::size_t size_of_set = 8;
    count =
        static_cast<int>(syscall(SYS_epoll_pwait, epoll, events, most, milliseconds, nullptr, size_of_set));
  }
#ifdef SYS_epoll_wait
  if (is_forbidden()) count = static_cast<int>(syscall(SYS_epoll_wait, epoll, events, most, milliseconds));
#endif
  if (count >= 0 || errno == EINTR) {
    refused_since.reset();
    return count;
  }
  const int error = errno;
  if (!refused_since) refused_since = Clock::now();
  if (running != nullptr && Clock::now() - *refused_since >= patience) {
    refusal = error;
    running->stop();
    return 0;
  }
  poll(nullptr, 0, a_moment);
  return 0;
}

/// Calls io_context's `step`; returns how many handlers it ran.
std::size_t do_step(boost::asio::io_context& io, std::size_t (boost::asio::io_context::*step)()) {
  running = &io;
  refusal = 0;
  const std::size_t handlers = (io.*step)();
  running = nullptr;
  if (refusal != 0) io.restart();
  return handlers;
}

}  // namespace

int run_one(boost::asio::io_context& io) {
  do_step(io, &boost::asio::io_context::run_one);
  return refusal;
}

bool poll_one(boost::asio::io_context& io) { return do_step(io, &boost::asio::io_context::poll_one) != 0; }

}  // namespace rankshim

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"  // in Asio's code, which the macro brings here
#define timerfd_create(clock, flags) (-1)
#define wait_duration_msec(most) wait_duration_msec(msec < 0 ? std::numeric_limits<int>::max() : msec)
#define epoll_wait(...) ::rankshim::wait_for_events(__VA_ARGS__)
#include <boost/asio/detail/impl/epoll_reactor.ipp>
#undef epoll_wait
#undef wait_duration_msec
#undef timerfd_create
#pragma GCC diagnostic pop

#include <boost/asio/impl/src.hpp>
