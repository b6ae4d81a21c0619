#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <exception>
#include <optional>
#include <utility>

#include "init/signal_queue.h"

namespace rankshim::supervise {

/// Lets `io` work until what it does sets `over`. What a handler throws is said once, and the loop goes on.
/// Where the kernel refuses to wait for events whoever waits for `signals` goes on by wait_without_loop().
void run_until(boost::asio::io_context& io, SignalQueue& signals, const bool& over);

/// Runs the coroutine to its end, with whatever else there is to do on `io`. Returns or throws what it does.
template <typename Result>
Result run_to_end(boost::asio::io_context& io, SignalQueue& signals,
                  boost::asio::awaitable<Result> coroutine) {
  bool over = false;
  std::exception_ptr error;
  std::optional<Result> result;
  boost::asio::co_spawn(io, std::move(coroutine), [&](std::exception_ptr thrown, Result returned) {
    over = true;
    error = std::move(thrown);
    result = std::move(returned);
  });
  run_until(io, signals, over);
  if (error) std::rethrow_exception(error);
  return *std::move(result);
}

}  // namespace rankshim::supervise
