#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <exception>
#include <optional>
#include <utility>

#include "supervise/signal_queue.h"

namespace rankshim::supervise {

/// Runs `io` until one of its handlers sets `over`. If the kernel refuses to wait for events, the waiter for
/// `signals` goes on by wait_without_loop().
void run_until(boost::asio::io_context& io, SignalQueue& signals, const bool& over);

/// Runs the coroutine to its end, together with the other work of `io`. Returns what the coroutine does.
template <typename Result>
Result run_to_end(boost::asio::io_context& io, SignalQueue& signals,
                  boost::asio::awaitable<Result> coroutine) {
  bool over = false;
  std::optional<Result> result;
  boost::asio::co_spawn(io, std::move(coroutine), [&](const std::exception_ptr& thrown, Result returned) {
    if (thrown) std::terminate();  // last_resort.h
    over = true;
    result = std::move(returned);
  });
  run_until(io, signals, over);
  return *std::move(result);
}

}  // namespace rankshim::supervise
