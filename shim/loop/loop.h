#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <exception>
#include <optional>
#include <string_view>
#include <utility>

/// The event loop: Asio's, with what rankshim expects of it.
namespace rankshim::loop {

/// What an exception says about the system, for a log line: "the system refused memory", "epoll: No space
/// left on device".
std::string_view reason(const std::exception& error);

/// Gives `descriptor` to `owner`. Returns errno if the loop cannot watch it (epoll_ctl(2): no memory, too
/// many watches), and closes it then; else 0.
int adopt(boost::asio::posix::stream_descriptor& owner, int descriptor);

/// Runs `io` until one of its handlers sets `over`. An exception that leaves a handler (refused memory, a
/// refused call of Asio) is logged, the first time, and the loop goes on.
void run_until(boost::asio::io_context& io, const bool& over);

/// Runs the coroutine to its end, together with the other work of `io`. Returns what the coroutine does, and
/// throws what it throws.
template <typename Result>
Result run_to_end(boost::asio::io_context& io, boost::asio::awaitable<Result> coroutine) {
  bool over = false;
  std::exception_ptr thrown;
  std::optional<Result> result;
  boost::asio::co_spawn(io, std::move(coroutine), [&](const std::exception_ptr& exception, Result returned) {
    over = true;
    thrown = exception;
    result = std::move(returned);
  });
  run_until(io, over);
  if (thrown) std::rethrow_exception(thrown);
  return *std::move(result);
}

}  // namespace rankshim::loop
