#include "run/pause.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <exception>
#include <variant>

namespace rankshim {

void run_until(boost::asio::io_context& io, const bool& over) {
  while (!over) {
    if (io.stopped()) io.restart();
    io.run_one();
  }
}

std::optional<supervise::Received> pause(boost::asio::io_context& io, supervise::SignalQueue& signals,
                                         std::chrono::milliseconds time) {
  using namespace boost::asio::experimental::awaitable_operators;
  boost::asio::steady_timer timer(io, time);
  bool over = false;
  std::optional<supervise::Received> signal;
  boost::asio::co_spawn(
      io, timer.async_wait(boost::asio::use_awaitable) || signals.next_ending(),
      [&](const std::exception_ptr& /*error*/, std::variant<std::monostate, supervise::Received> first) {
        over = true;
        if (const auto* received = std::get_if<supervise::Received>(&first)) {
          signal = *received;
          signals.drop();
        }
      });
  run_until(io, over);
  return signal;
}

}  // namespace rankshim
