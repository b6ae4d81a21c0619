#include "loop/timer.h"

#include <boost/asio/io_context.hpp>
#include <catch2/catch.hpp>
#include <optional>
#include <vector>

namespace rankshim::loop {
namespace {

using namespace std::chrono_literals;
using Error = boost::system::error_code;

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

}  // namespace
}  // namespace rankshim::loop
