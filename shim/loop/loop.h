#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/compose.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

/// The event loop: Asio's, with what rankshim adds to it.
namespace rankshim::loop {

using Clock = std::chrono::steady_clock;  // CLOCK_MONOTONIC in libstdc++ and libc++

/// The reason that an exception gives, for a log line: "the system refused memory", "epoll: No space left on
/// device".
std::string_view reason(const std::exception& error);

/// Logs an exception after which the caller goes on. Logs only the first one in the process.
void go_on_after(const std::exception& error);

/// Sets memory aside that operator new falls back on once, when the system refuses some. Where that happens
/// while Asio begins a wait, Asio destroys the coroutine that waits, so that no exception reaches its caller
/// (awaitable_async_op in boost/asio/impl/use_awaitable.hpp), and nothing would end the wait.
void reserve_memory();

/// Throws boost::system::system_error if `result` is −errno.
void throw_on_error(int result, const char* call);

/// Gives `descriptor` to `owner`. Returns 0; or, if the loop cannot watch it (epoll_ctl(2): no memory, too
/// many watches), closes it and returns errno.
int assign_fd(boost::asio::posix::stream_descriptor& owner, int descriptor);

/// For one of several waits that race, `a || b`: those that lose are cancelled, and to throw for that would
/// cost more than all the rest of the race.
inline constexpr auto quietly = boost::asio::as_tuple(boost::asio::use_awaitable);

/// A timer of the event loop. It has its own timerfd, created when the timer is first set. Asio's timers are
/// not used: once the first of them has expired, the loop would wake up every 5 minutes for ever
/// (boost/asio/detail/impl/epoll_reactor.ipp, get_timeout).
class Timer {
 public:
  explicit Timer(const boost::asio::any_io_executor& executor) : state_(std::make_shared<State>(executor)) {}
  Timer(const boost::asio::any_io_executor& executor, Clock::time_point when) : Timer(executor) {
    expires_at(when);
  }
  ~Timer();
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  /// Sets the expiry time; Clock::time_point::max() is never. A pending wait ends with operation_aborted.
  /// Throws boost::system::system_error if the kernel refuses.
  void expires_at(Clock::time_point when);
  void expires_after(Clock::duration time) { expires_at(Clock::now() + time); }

  /// Ends a pending wait with operation_aborted, and disarms the timer.
  void cancel();

  /// Completes at the expiry time, or at once if it has passed; the handler gets only the error code. A ready
  /// descriptor proves nothing: Asio may mistake the event of another one, closed at the same moment, for
  /// this one's (free_descriptor_state() in epoll_reactor.ipp, while the old state is enqueued).
  template <class Token>
  auto async_wait(Token&& token) {
    const auto wait = [state = state_, round = state_->round, begun = false](
                          auto& self, boost::system::error_code error = {}) mutable {
      if (state->round != round) error = boost::asio::error::operation_aborted;
      if (std::exchange(begun, true) && (error || Clock::now() >= state->when)) return self.complete(error);
      state->descriptor.async_wait(boost::asio::posix::stream_descriptor::wait_read, std::move(self));
    };
    return boost::asio::async_compose<Token, void(boost::system::error_code)>(wait, token,
                                                                              state_->descriptor);
  }

 private:
  struct State {
    explicit State(const boost::asio::any_io_executor& executor) : descriptor(executor) {}
    boost::asio::posix::stream_descriptor descriptor;
    Clock::time_point when;
    unsigned round = 0;  ///< how often it was set or cancelled
    bool is_armed = false;
  };
  int arm(Clock::time_point when);
  std::shared_ptr<State> state_;
};

/// Wakes one coroutine, which then checks whether what it waits for has happened.
class Event {
 public:
  explicit Event(const boost::asio::any_io_executor& executor) : timer_(executor) {}
  /// Waits for the next signal(), or until that time.
  boost::asio::awaitable<void> wait(Clock::time_point until);
  /// Of several at one moment only the first costs a system call.
  void signal() {
    if (std::exchange(is_awaited_, false)) timer_.cancel();
  }

 private:
  Timer timer_;
  bool is_awaited_ = false;  ///< a wait began after the last signal
};

/// Runs the coroutine alongside the other work of `io`. What it throws leaves a handler, and run_until() logs
/// it.
void spawn(boost::asio::io_context& io, boost::asio::awaitable<void> coroutine);

/// Runs `io` until one of its handlers sets `over`. An exception that leaves a handler (refused memory, a
/// refused call of Asio) is logged, and the loop goes on.
void run_until(boost::asio::io_context& io, const bool& over);

/// Runs the coroutine to completion, alongside the other work of `io`. Returns what the coroutine returns,
/// and throws what it throws. Noticing its end takes no memory; Asio's own notification does, and may never
/// come.
template <typename Result>
Result block_on(boost::asio::io_context& io, boost::asio::awaitable<Result> coroutine) {
  bool over = false;
  std::exception_ptr thrown;
  std::optional<Result> result;
  const auto keep = [&]() -> boost::asio::awaitable<void> {
    try {
      result = co_await std::move(coroutine);
    } catch (...) {
      thrown = std::current_exception();
    }
    over = true;
  };
  spawn(io, keep());
  run_until(io, over);
  if (thrown) std::rethrow_exception(thrown);
  return *std::move(result);
}

}  // namespace rankshim::loop
