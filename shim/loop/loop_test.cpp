#include "loop/loop.h"

#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <catch2/catch.hpp>
#include <new>
#include <stdexcept>

namespace rankshim::loop {
namespace {

boost::asio::awaitable<int> comes_back(boost::asio::io_context& io) {
  int result = 0;
  boost::asio::post(io, [&result] { result = 3; });
  co_await boost::asio::post(io, boost::asio::use_awaitable);
  co_return result;
}

boost::asio::awaitable<int> fails(boost::asio::io_context& io) {
  co_await boost::asio::post(io, boost::asio::use_awaitable);
  throw std::bad_alloc();
}

TEST_CASE("a run returns what its coroutine does, and runs the loop's other work meanwhile", "[loop]") {
  boost::asio::io_context io(1);
  CHECK(run_to_end(io, comes_back(io)) == 3);
}

TEST_CASE("an exception of a handler ends neither the loop nor the coroutine", "[loop]") {
  boost::asio::io_context io(1);
  boost::asio::post(io, [] { throw std::runtime_error("epoll: No space left on device [system:28]"); });
  CHECK(run_to_end(io, comes_back(io)) == 3);
}

TEST_CASE("a run throws what its coroutine throws", "[loop]") {
  boost::asio::io_context io(1);
  CHECK_THROWS_AS(run_to_end(io, fails(io)), std::bad_alloc);
}

TEST_CASE("a reason is the system's words", "[loop]") {
  CHECK(reason(std::bad_alloc()) == "the system refused memory");
  CHECK(reason(std::runtime_error("epoll: No space left on device [system:28]")) ==
        "epoll: No space left on device");
}

}  // namespace
}  // namespace rankshim::loop
