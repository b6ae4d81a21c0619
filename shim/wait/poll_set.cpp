#include "wait/poll_set.h"

#include <algorithm>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>

#include "wait/asio_without_exceptions.h"

namespace rankshim::wait {

namespace asio = boost::asio;

PollSet::PollSet(const asio::any_io_executor& executor) : set_(executor), timer_(executor) {
  const int set = epoll_create1(EPOLL_CLOEXEC);
  error_ = set < 0 ? errno : adopt(set_, set);
}

void PollSet::watch(int fd, std::uint32_t events) noexcept {
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  const int set = set_.native_handle();
  if (events == 0) {
    epoll_ctl(set, EPOLL_CTL_DEL, fd, &event);
  } else if (epoll_ctl(set, EPOLL_CTL_MOD, fd, &event) != 0) {
    epoll_ctl(set, EPOLL_CTL_ADD, fd, &event);  // if this fails too, the deadline still ends the wait
  }
}

asio::awaitable<std::span<const epoll_event>> PollSet::wait(Clock::time_point deadline) {
  using namespace asio::experimental::awaitable_operators;
  if (is_cancelled(co_await asio::this_coro::cancellation_state)) error_ = ECANCELED;
  if (error_ != 0) co_return std::span<const epoll_event>();
  boost::system::error_code refused;
  boost::system::error_code ignored;  // of the timer: that it was cancelled
  timer_.expires_at(deadline);
  const auto first = co_await (set_.async_wait(asio::posix::stream_descriptor::wait_read,
                                               asio::redirect_error(asio::use_awaitable, refused)) ||
                               timer_.async_wait(asio::redirect_error(asio::use_awaitable, ignored)));
  if (first.index() == 0) error_ = refused.value();  // ECANCELED too
  if (error_ != 0) co_return std::span<const epoll_event>();
  const int count = epoll_wait(set_.native_handle(), events_.data(), static_cast<int>(events_.size()), 0);
  co_return std::span<const epoll_event>(events_).first(static_cast<std::size_t>(std::max(count, 0)));
}

}  // namespace rankshim::wait
