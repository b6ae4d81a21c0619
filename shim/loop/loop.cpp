#include "loop/loop.h"

#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <cstddef>
#include <memory>
#include <new>

#include "base/log.h"

namespace rankshim::loop {
namespace {

/// Sets the timer to an absolute time; zero disarms it. Returns 0 or −errno.
int set(int timer, Clock::duration when) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(when);
  itimerspec time{};
  time.it_value.tv_sec = static_cast<time_t>(seconds.count());
  time.it_value.tv_nsec = static_cast<long>(std::chrono::nanoseconds(when - seconds).count());
  return timerfd_settime(timer, TFD_TIMER_ABSTIME, &time, nullptr) == 0 ? 0 : -errno;
}

constexpr std::size_t reserve_size = 256UL * 1024;  // so large that malloc returns it to the kernel at once
std::unique_ptr<std::byte[]> reserve;

void use_reserve() {
  if (!reserve) throw std::bad_alloc();
  reserve.reset();
}

}  // namespace

std::string_view reason(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return "the system refused memory";
  const std::string_view what = error.what();
  return what.substr(0, what.find(" ["));  // Boost's texts end with " [system:24]"
}

void go_on_after(const std::exception& error) {
  static bool logged = false;
  if (!std::exchange(logged, true)) log::error("{}; rankshim goes on", reason(error));
}

void reserve_memory() {
  reserve = std::make_unique_for_overwrite<std::byte[]>(reserve_size);
  std::set_new_handler(use_reserve);
}

void throw_on_error(int result, const char* call) {
  if (result < 0) throw boost::system::system_error(-result, boost::system::system_category(), call);
}

int assign_fd(boost::asio::posix::stream_descriptor& owner, int descriptor) {
  boost::system::error_code error;
  owner.assign(descriptor, error);
  if (error) ::close(descriptor);
  return error.value();
}

Timer::~Timer() {
  boost::system::error_code ignored;
  ++state_->round;
  state_->descriptor.close(ignored);
}

void Timer::expires_at(Clock::time_point when) {
  auto& descriptor = state_->descriptor;
  ++state_->round;
  if (descriptor.is_open()) {
    descriptor.cancel();
  } else {
    const int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    throw_on_error(timer < 0 ? -errno : -assign_fd(descriptor, timer), "timerfd");
  }
  state_->when = when;
  throw_on_error(arm(when), "timerfd_settime");
}

void Timer::cancel() {
  ++state_->round;
  if (!state_->descriptor.is_open()) return;
  state_->descriptor.cancel();
  arm(Clock::time_point::max());
}

/// Arms the kernel's timer, or disarms it if that is never. Returns 0 or −errno.
int Timer::arm(Clock::time_point when) {
  const bool is_never = when == Clock::time_point::max();
  if (is_never && !state_->is_armed) return 0;
  state_->is_armed = !is_never;
  const Clock::duration time = std::max(when.time_since_epoch(), Clock::duration(1));
  return set(state_->descriptor.native_handle(), is_never ? Clock::duration(0) : time);
}

boost::asio::awaitable<void> Event::wait(Clock::time_point until) {
  timer_.expires_at(until);
  is_awaited_ = true;
  boost::system::error_code ignored;
  co_await timer_.async_wait(boost::asio::redirect_error(boost::asio::use_awaitable, ignored));
}

void spawn(boost::asio::io_context& io, boost::asio::awaitable<void> coroutine) {
  boost::asio::co_spawn(io, std::move(coroutine), [](const std::exception_ptr& thrown) {
    if (thrown) std::rethrow_exception(thrown);
  });
}

void run_until(boost::asio::io_context& io, const bool& over) {
  while (!over) {
    try {
      io.run_one();
    } catch (const std::exception& error) {
      go_on_after(error);
    }
  }
}

}  // namespace rankshim::loop
