#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <chrono>
#include <optional>

#include "loop/timer.h"
#include "supervise/signals.h"

namespace rankshim::supervise {

/// The blocked signals, read one by one in the kernel's order through a signalfd. To be made once, before any
/// other descriptor is opened and before the first child: it reserves the closed descriptors among 0–2, and
/// sets an ignored SIGCHLD to its default, because otherwise no child's end could be waited for.
class SignalQueue {
 public:
  using Clock = std::chrono::steady_clock;
  using Deadline = std::optional<Clock::time_point>;

  /// Throws boost::system::system_error if the kernel refuses the descriptor.
  explicit SignalQueue(boost::asio::io_context& io);

  /// The next signal that has come, SIGCHLD included; number 0 if there is none.
  Signal take();

  /// Waits until a signal has come or `deadline` has passed; without a deadline, until a signal comes. May
  /// return earlier. To cancel it loses no signal.
  boost::asio::awaitable<void> wait(Deadline deadline);

  /// The next signal that would end a process without a handler and was not inherited as ignored; others are
  /// dropped. This is for the time before the command exists. The signal stays in the queue, so that one
  /// which arrives together with the end of the waiting still reaches the command. Number 0 if none came
  /// before `deadline`.
  boost::asio::awaitable<Signal> next_ending(Deadline deadline = {});

  /// Drops the signal that next_ending() returned: it was handled, and must not be passed on.
  void drop() { next_.reset(); }

  /// Ends a wait that goes on.
  void wake();

  /// Leaves real-time signals in the kernel's queue, whose limit tells their sender to stop, until called
  /// with false. For a receiver that takes no more.
  void hold_real_time(bool hold);

 private:
  bool fill();  ///< whether there is a signal

  std::optional<Signal> next_;  // that was read and not taken yet
  boost::asio::posix::stream_descriptor descriptor_;
  loop::Timer timer_;
  bool woken_ = false;
};

}  // namespace rankshim::supervise
