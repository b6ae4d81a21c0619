#include "loop/loop.h"

#include <unistd.h>

#include <array>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <catch2/catch.hpp>
#include <new>
#include <optional>
#include <stdexcept>
#include <vector>

namespace rankshim::loop {
namespace {

using namespace std::chrono_literals;
using Error = boost::system::error_code;

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

boost::asio::awaitable<void> wait_twice(Event& event, unsigned& woken) {
  for (; woken < 2; ++woken) co_await event.wait(Clock::now() + 1h);
}

TEST_CASE("a run returns what its coroutine does, and runs the loop's other work meanwhile", "[loop]") {
  boost::asio::io_context io(1);
  CHECK(block_on(io, comes_back(io)) == 3);
}

TEST_CASE("an exception of a handler ends neither the loop nor the coroutine", "[loop]") {
  boost::asio::io_context io(1);
  boost::asio::post(io, [] { throw std::runtime_error("epoll: No space left on device [system:28]"); });
  CHECK(block_on(io, comes_back(io)) == 3);
}

TEST_CASE("a run throws what its coroutine throws", "[loop]") {
  boost::asio::io_context io(1);
  CHECK_THROWS_AS(block_on(io, fails(io)), std::bad_alloc);
}

TEST_CASE("memory that is refused is taken from the reserve, once", "[loop]") {
  const std::new_handler before = std::get_new_handler();
  reserve_memory();
  const std::new_handler use_reserve = std::get_new_handler();
  std::set_new_handler(before);
  CHECK_NOTHROW(use_reserve());
  CHECK_THROWS_AS(use_reserve(), std::bad_alloc);
}

TEST_CASE("a reason is the system's words", "[loop]") {
  CHECK(reason(std::bad_alloc()) == "the system refused memory");
  CHECK(reason(std::runtime_error("epoll: No space left on device [system:28]")) ==
        "epoll: No space left on device");
}

TEST_CASE("a timer does not end for the event of a descriptor that was closed in the same moment", "[loop]") {
  boost::asio::io_context io(1);
  std::array<boost::asio::posix::stream_descriptor, 2> readers = {boost::asio::posix::stream_descriptor(io),
                                                                  boost::asio::posix::stream_descriptor(io)};
  for (auto& reader : readers) {
    std::array<int, 2> ends{};
    REQUIRE(pipe(ends.data()) == 0);
    close(ends[1]);  // the other end is at its end
    REQUIRE(assign_fd(reader, ends[0]) == 0);
  }
  std::optional<Timer> timer;
  bool over = false;
  for (auto& reader : readers)
    reader.async_wait(boost::asio::posix::stream_descriptor::wait_read, [&](const Error& error) {
      if (error || timer) return;
      for (auto& other : readers) other.close();
      timer.emplace(io.get_executor(), Clock::now() + 10s);
      timer->async_wait([&](const Error&) { over = true; });
    });
  for (int i = 0; i < 10; ++i) io.poll();
  REQUIRE(timer);
  CHECK_FALSE(over);
}

TEST_CASE("timers end their waits in the order of their moments, one that has passed at once", "[loop]") {
  boost::asio::io_context io(1);
  Timer late(io.get_executor(), Clock::now() + 20ms);
  Timer passed(io.get_executor(), Clock::time_point());
  std::vector<int> order;
  late.async_wait([&](const Error& error) { order.push_back(error ? -1 : 2); });
  passed.async_wait([&](const Error& error) { order.push_back(error ? -1 : 1); });
  const auto begin = Clock::now();
  io.run();
  CHECK(order == std::vector{1, 2});
  CHECK(Clock::now() - begin < 10s);
}

TEST_CASE("a timer that is cancelled or set anew ends its wait with an error", "[loop]") {
  boost::asio::io_context io(1);
  Timer timer(io.get_executor(), Clock::now() + 1h);
  std::optional<Error> first;
  std::optional<Error> second;
  timer.async_wait([&](const Error& error) { first = error; });
  timer.expires_after(1h);
  io.poll();
  CHECK(first == boost::asio::error::operation_aborted);
  timer.async_wait([&](const Error& error) { second = error; });
  timer.cancel();
  io.restart();
  io.poll();
  CHECK(second == boost::asio::error::operation_aborted);
}

TEST_CASE("a timer can be set again after its moment", "[loop]") {
  boost::asio::io_context io(1);
  Timer timer(io.get_executor());
  for (int time = 0; time < 3; ++time) {
    timer.expires_after(1ms);
    bool over = false;
    timer.async_wait([&](const Error& error) { over = !error; });
    io.restart();
    io.run();
    CHECK(over);
  }
}

TEST_CASE("several signals at one moment wake once, and the next one wakes the next wait", "[loop]") {
  boost::asio::io_context io(1);
  Event event(io.get_executor());
  unsigned woken = 0;
  spawn(io, wait_twice(event, woken));
  io.poll();
  event.signal();
  event.signal();
  io.poll();
  CHECK(woken == 1);
  event.signal();
  io.poll();
  CHECK(woken == 2);
}

}  // namespace
}  // namespace rankshim::loop
