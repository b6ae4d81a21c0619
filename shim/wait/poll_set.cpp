#include "wait/poll_set.h"

#include <algorithm>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>

#include "loop/loop.h"

namespace rankshim::wait {

namespace asio = boost::asio;

PollSet::PollSet(const asio::any_io_executor& executor) : set_(executor), timer_(executor) {
  const int set = epoll_create1(EPOLL_CLOEXEC);
  if (const int error = set < 0 ? errno : loop::adopt(set_, set))
    throw boost::system::system_error(error, boost::system::system_category(), "epoll");
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
  timer_.expires_at(deadline);
  co_await (set_.async_wait(asio::posix::stream_descriptor::wait_read, asio::use_awaitable) ||
            timer_.async_wait(asio::use_awaitable));
  const int count = epoll_wait(set_.native_handle(), events_.data(), static_cast<int>(events_.size()), 0);
  co_return std::span<const epoll_event>(events_).first(static_cast<std::size_t>(std::max(count, 0)));
}

}  // namespace rankshim::wait
