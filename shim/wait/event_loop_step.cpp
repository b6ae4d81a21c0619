#include "wait/event_loop_step.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>

namespace rankshim {
namespace {

boost::asio::io_context* running = nullptr;  // during run_one() and poll_one()
int refusal = 0;                             // errno; it is never reset

std::optional<wait::Clock::time_point> far_deadline;

void refuse(int error) {
  refusal = error;
  if (running != nullptr) running->stop();
}

/// Calls io_context's `step`; returns how many handlers it ran.
std::size_t do_step(boost::asio::io_context& io, std::size_t (boost::asio::io_context::*step)()) {
  running = &io;
  const std::size_t handlers = (io.*step)();
  running = nullptr;
  if (refusal != 0) io.restart();
  return handlers;
}

/// The timeout of epoll_wait(2) until the far deadline; -1 if there is none.
int until_far_deadline() {
  if (!far_deadline) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*far_deadline - wait::Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, std::numeric_limits<int>::max()));
}

}  // namespace

int run_one(boost::asio::io_context& io) {
  if (refusal == 0) do_step(io, &boost::asio::io_context::run_one);
  return refusal;
}

void set_far_deadline(std::optional<wait::Clock::time_point> deadline) { far_deadline = deadline; }

bool poll_one(boost::asio::io_context& io) { return do_step(io, &boost::asio::io_context::poll_one) != 0; }

}  // namespace rankshim

// The linker lets all calls of these functions, Asio's too, come here (its option --wrap, which makes the
// names).
//
// NOLINTBEGIN(bugprone-reserved-identifier)
extern "C" {

int __real_epoll_wait(int epoll, epoll_event* events, int most, int milliseconds);

/// epoll_wait(2), by the one of its two calls that is permitted. Asio never waits longer than 5 minutes
/// (boost/asio/detail/impl/epoll_reactor.ipp, get_timeout). This timeout is replaced by the time until the
/// far deadline, or by none. The loop stops once the call has been refused for a second. Before that, the
/// call returns as if nothing had happened.
[[gnu::used]] int __wrap_epoll_wait(int epoll, epoll_event* events, int most, int milliseconds) {
  using Clock = rankshim::wait::Clock;
  constexpr std::chrono::seconds patience{1};
  constexpr int a_moment = 5;
  constexpr int longest_of_asio = 5 * 60 * 1000;
  static std::optional<Clock::time_point> refused_since;
  if (milliseconds == longest_of_asio) milliseconds = rankshim::until_far_deadline();
  int count = __real_epoll_wait(epoll, events, most, milliseconds);
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
  if (Clock::now() - *refused_since >= patience) {
    rankshim::refuse(error);
  } else {
    poll(nullptr, 0, a_moment);
  }
  return 0;
}

/// timerfd_create(2), which is Asio's alone. Without a timer in its loop, the loop wakes up by epoll_wait's
/// timeout: three calls less at the start, and no timer whose setting could be refused, which Asio does not
/// check.
[[gnu::used]] int __wrap_timerfd_create(int /*clock*/, int /*flags*/) {
  errno = ENOSYS;
  return -1;
}
}
// NOLINTEND(bugprone-reserved-identifier)
