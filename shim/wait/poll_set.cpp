#include "wait/poll_set.h"

#include <sys/timerfd.h>

#include <algorithm>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>

#include "wait/asio_without_exceptions.h"

namespace rankshim::wait {

namespace asio = boost::asio;

namespace {

constexpr std::uint64_t timer_tag = ~std::uint64_t{0};

/// Gives the descriptor to its owner; errno if there is none, or if the event loop refuses it.
int take(asio::posix::stream_descriptor& owner, int descriptor) {
  return descriptor < 0 ? errno : adopt(owner, descriptor);
}

}  // namespace

PollSet::PollSet(const asio::any_io_executor& executor) : set_(executor), timer_(executor) {
  note(take(set_, epoll_create1(EPOLL_CLOEXEC)));
  note(take(timer_, timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)));
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = timer_tag;
  if (epoll_ctl(set_.native_handle(), EPOLL_CTL_ADD, timer_.native_handle(), &event) != 0) note(errno);
}

/// The first error counts.
void PollSet::note(int error) {
  if (error_ == 0) error_ = error;
}

void PollSet::watch(int fd, std::uint32_t events, std::uint64_t tag) noexcept {
  epoll_event event{};
  event.events = events;
  event.data.u64 = tag;
  const int set = set_.native_handle();
  if (events == 0) {
    epoll_ctl(set, EPOLL_CTL_DEL, fd, &event);
  } else if (epoll_ctl(set, EPOLL_CTL_MOD, fd, &event) != 0) {
    epoll_ctl(set, EPOLL_CTL_ADD, fd, &event);  // if this fails too, the deadline still ends the wait
  }
}

asio::awaitable<std::span<const epoll_event>> PollSet::wait(Clock::time_point deadline) {
  if (is_cancelled(co_await asio::this_coro::cancellation_state)) note(ECANCELED);
  const auto left = std::max(deadline - Clock::now(), Clock::duration(1));  // 0 would disarm it
  const auto seconds = std::chrono::floor<std::chrono::seconds>(left);
  itimerspec alarm{};
  alarm.it_value.tv_sec = static_cast<time_t>(seconds.count());
  alarm.it_value.tv_nsec = static_cast<long>((left - seconds).count());
  // This also removes an earlier expiry that was not read. If the timer could not be set, the wait would
  // never end.
  if (timerfd_settime(timer_.native_handle(), 0, &alarm, nullptr) != 0) note(errno);
  if (error_ != 0) co_return std::span<const epoll_event>();

  boost::system::error_code refused;
  co_await set_.async_wait(asio::posix::stream_descriptor::wait_read,
                           asio::redirect_error(asio::use_awaitable, refused));
  note(refused.value());
  if (error_ != 0) co_return std::span<const epoll_event>();
  const int count = epoll_wait(set_.native_handle(), events_.data(), static_cast<int>(events_.size()), 0);
  const auto end = std::remove_if(events_.begin(), events_.begin() + std::max(count, 0),
                                  [](const epoll_event& event) { return event.data.u64 == timer_tag; });
  co_return std::span<const epoll_event>(events_.begin(), end);
}

}  // namespace rankshim::wait
