#include "init/event_loop.h"

#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <catch2/catch.hpp>
#include <functional>
#include <stdexcept>

#include "init/kernel.h"

namespace rankshim::supervise {
namespace {

boost::asio::awaitable<int> comes_back(boost::asio::io_context& io) {
  boost::asio::post(io, [] { throw std::runtime_error("another's"); });
  co_await boost::asio::post(io, boost::asio::use_awaitable);
  co_return 3;
}

boost::asio::awaitable<int> throws() {
  throw std::runtime_error("its own");
  co_return 0;
}

/// Ends as a separate process, because a SignalQueue blocks all signals: 3, or 4 for an exception.
int code_of(const std::function<boost::asio::awaitable<int>(boost::asio::io_context&)>& coroutine) {
  const pid_t child = fork();
  if (child == 0) {
    try {
      boost::asio::io_context io(1);
      SignalQueue signals(io);
      kernel::exit_now(run_to_end(io, signals, coroutine(io)));
    } catch (const std::runtime_error&) {
      kernel::exit_now(4);
    }
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

TEST_CASE("a run goes on after what another's handler throws, and throws what is its own", "[supervise]") {
  CHECK(code_of([](boost::asio::io_context& io) { return comes_back(io); }) == 3);
  CHECK(code_of([](boost::asio::io_context&) { return throws(); }) == 4);
}

}  // namespace
}  // namespace rankshim::supervise
