#include "wait/event_loop_step.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
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

}  // namespace

int run_one(boost::asio::io_context& io) {
  if (refusal == 0) do_step(io, &boost::asio::io_context::run_one);
  return refusal;
}

void set_far_deadline(std::optional<wait::Clock::time_point> deadline) { far_deadline = deadline; }

bool poll_one(boost::asio::io_context& io) { return do_step(io, &boost::asio::io_context::poll_one) != 0; }

}  // namespace rankshim

// The linker lets all calls of these functions, Asio's too, come here (its option --wrap, which makes the
// names). NOLINTBEGIN(bugprone-reserved-identifier)
extern "C" {

int __real_epoll_ctl(int epoll, int operation, int descriptor, epoll_event* event);
int __real_epoll_wait(int epoll, epoll_event* events, int most, int milliseconds);
int __real_timerfd_settime(int timer, int flags, const itimerspec* time, itimerspec* before);

/// epoll_wait(2), by the one of its two calls that is permitted. The loop stops once it has been refused for
/// a second; before that, nothing has happened.
int __wrap_epoll_wait(int epoll, epoll_event* events, int most, int milliseconds) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::seconds patience{1};
  constexpr int a_moment = 5;
  static std::optional<Clock::time_point> refused_since;
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

/// epoll_ctl(2). When its loop is made, Asio does not check whether its timer can be watched.
int __wrap_epoll_ctl(int epoll, int operation, int descriptor, epoll_event* event) {
  const int result = __real_epoll_ctl(epoll, operation, descriptor, event);
  if (result != 0 && operation == EPOLL_CTL_ADD && rankshim::running == nullptr) rankshim::refuse(errno);
  return result;
}

/// timerfd_settime(2). Asio would not notice that it is refused, and wait for a timer that never expires. Its
/// 5 minutes (boost/asio/detail/impl/epoll_reactor.ipp, get_timeout) become what they stand for: the deadline
/// that is later, or none, which disarms the timer.
int __wrap_timerfd_settime(int timer, int flags, const itimerspec* time, itimerspec* before) {
  constexpr time_t longest_of_asio = 300;
  itimerspec wanted = *time;
  if (flags == 0 && wanted.it_value.tv_sec == longest_of_asio && wanted.it_value.tv_nsec == 0) {
    wanted.it_value = {};
    if (rankshim::far_deadline) {
      const auto left = std::max<std::chrono::nanoseconds>(
          *rankshim::far_deadline - rankshim::wait::Clock::now(), std::chrono::nanoseconds(1));
      const auto seconds = std::chrono::floor<std::chrono::seconds>(left);
      wanted.it_value.tv_sec = static_cast<time_t>(seconds.count());
      wanted.it_value.tv_nsec = static_cast<long>((left - seconds).count());
    }
  }
  const int result = __real_timerfd_settime(timer, flags, &wanted, before);
  if (result != 0) rankshim::refuse(errno);
  return result;
}
}
// NOLINTEND(bugprone-reserved-identifier)
