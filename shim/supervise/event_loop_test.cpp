#include "supervise/event_loop.h"

#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <catch2/catch.hpp>
#include <functional>

#include "supervise/kernel.h"

namespace rankshim::supervise {
namespace {

boost::asio::awaitable<int> comes_back(boost::asio::io_context& io) {
  int result = 0;
  boost::asio::post(io, [&result] { result = 3; });
  co_await boost::asio::post(io, boost::asio::use_awaitable);
  co_return result;
}

/// The coroutine's result as the end of a separate process, because a SignalQueue blocks all signals.
int code_of(const std::function<boost::asio::awaitable<int>(boost::asio::io_context&)>& coroutine) {
  const pid_t child = fork();
  if (child == 0) {
    boost::asio::io_context io(1);
    SignalQueue signals(io);
    kernel::exit_now(run_to_end(io, signals, coroutine(io)));
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

TEST_CASE("a run returns what its coroutine does, and runs the loop's other work meanwhile", "[supervise]") {
  CHECK(code_of([](boost::asio::io_context& io) { return comes_back(io); }) == 3);
}

}  // namespace
}  // namespace rankshim::supervise
