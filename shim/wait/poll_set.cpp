#include "wait/poll_set.h"

#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/system_error.hpp>
#include <cerrno>

namespace rankshim::wait {

namespace asio = boost::asio;

PollSet::PollSet(const asio::any_io_executor& executor) : set_(executor), timer_(executor) {
  const int descriptor = epoll_create1(EPOLL_CLOEXEC);
  if (descriptor < 0) {
    throw boost::system::system_error(errno, boost::system::system_category(), "epoll_create1");
  }
  set_.assign(descriptor);
}

void PollSet::watch(int fd, std::uint32_t events, std::uint64_t tag) noexcept {
  epoll_event event{};
  event.events = events;
  event.data.u64 = tag;
  const int set = set_.native_handle();
  if (events == 0) {
    epoll_ctl(set, EPOLL_CTL_DEL, fd, &event);
  } else if (epoll_ctl(set, EPOLL_CTL_MOD, fd, &event) != 0) {
    epoll_ctl(set, EPOLL_CTL_ADD, fd, &event);  // if this fails too the deadline still ends the wait
  }
}

std::span<const epoll_event> PollSet::ready() noexcept {
  const int count = epoll_wait(set_.native_handle(), events_.data(), static_cast<int>(events_.size()), 0);
  return {events_.data(), count > 0 ? static_cast<std::size_t>(count) : 0};
}

asio::awaitable<std::span<const epoll_event>> PollSet::wait(Clock::time_point deadline) {
  using namespace asio::experimental::awaitable_operators;
  timer_.expires_at(deadline);
  co_await (set_.async_wait(asio::posix::stream_descriptor::wait_read, asio::use_awaitable) ||
            timer_.async_wait(asio::use_awaitable));
  co_return ready();
}

}  // namespace rankshim::wait
