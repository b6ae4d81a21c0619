#include "loop/timer.h"

#include <sys/timerfd.h>

#include <algorithm>
#include <cerrno>

#include "loop/loop.h"

namespace rankshim::loop {
namespace {

void must(int error, const char* call) {
  if (error != 0)
    throw boost::system::system_error(error, boost::system::system_category(), call);  // logged or reported
}

int set(int timer, std::chrono::nanoseconds when) {
  constexpr std::int64_t in_a_second = 1'000'000'000;
  itimerspec time{};
  time.it_value.tv_sec = static_cast<time_t>(when.count() / in_a_second);
  time.it_value.tv_nsec = static_cast<long>(when.count() % in_a_second);
  return timerfd_settime(timer, TFD_TIMER_ABSTIME, &time, nullptr) == 0 ? 0 : errno;
}

}  // namespace

void Timer::expires_at(Clock::time_point when) {
  if (descriptor_.is_open()) {
    descriptor_.cancel();
  } else {
    const int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    must(timer < 0 ? errno : adopt(descriptor_, timer), "timerfd");
  }
  // Zero would disarm it.
  must(set(descriptor_.native_handle(), std::max(when.time_since_epoch(), Clock::duration(1))),
       "timerfd_settime");
}

void Timer::cancel() {
  if (!descriptor_.is_open()) return;
  descriptor_.cancel();
  set(descriptor_.native_handle(), {});
}

}  // namespace rankshim::loop
