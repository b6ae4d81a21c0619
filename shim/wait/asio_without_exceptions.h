#pragma once

#include <unistd.h>

#include <boost/asio/cancellation_state.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

/// What Asio does by exceptions otherwise.
namespace rankshim {

/// Gives `descriptor` to `owner`. Returns errno if the event loop cannot watch it (epoll_ctl(2): no memory,
/// too many watches), and closes it then; else 0.
inline int adopt(boost::asio::posix::stream_descriptor& owner, int descriptor) {
  boost::system::error_code error;
  owner.assign(descriptor, error);
  if (error) ::close(descriptor);
  return error.value();
}

/// Whether a coroutine with this state was cancelled. A coroutine that can be cancelled switches off that
/// Asio throws for it (this_coro::throw_if_cancelled(false)), and asks this before each wait: cancelling ends
/// a wait that goes on, but not the next one if a wait has just ended.
inline bool is_cancelled(boost::asio::cancellation_state state) {
  return state.cancelled() != boost::asio::cancellation_type::none;
}

}  // namespace rankshim
