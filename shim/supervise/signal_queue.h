#pragma once

#include <sys/signalfd.h>

#include <array>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <optional>

#include "supervise/kernel.h"
#include "supervise/signals.h"

namespace rankshim::supervise {

/// The blocked signals, read one by one in the kernel's order through a signalfd. To be made once, before any
/// other descriptor is opened and before the first child: it reserves the closed descriptors among 0–2, and
/// sets an ignored SIGCHLD to its default, because otherwise no child's end could be waited for.
class SignalQueue {
 public:
  using Clock = std::chrono::steady_clock;
  using Deadline = std::optional<Clock::time_point>;

  /// If the kernel refuses the descriptor, last_resort::refused().
  explicit SignalQueue(boost::asio::io_context& io);

  /// The next signal that has come, SIGCHLD included; number 0 if there is none.
  Received take();
  /// errno if the kernel refused the last read, and so the wait for the next signal would not wait; else 0.
  [[nodiscard]] int refusal() const { return refusal_; }

  /// Waits until a signal has come or `deadline` has passed; without a deadline, until a signal comes. May
  /// return earlier. Returns false if it was cancelled, which loses no signal.
  boost::asio::awaitable<bool> wait(Deadline deadline);

  /// The next signal that would end a process without a handler and was not inherited as ignored; others are
  /// dropped. This is for the time before the command exists. The signal stays in the queue, so that one
  /// which arrives together with the end of the waiting still reaches the command. Number 0 if none came
  /// before `deadline`, if the wait was cancelled, and, without a deadline, after without_loop(): what is
  /// awaited beside it would never come.
  boost::asio::awaitable<Received> next_ending(Deadline deadline = {});

  /// Drops the signal that next_ending() returned: it was handled, and must not be passed on.
  void drop();

  /// Ends a coroutine's wait() after its deadline, after a signal, or after a while, for an event loop that
  /// cannot wait any more.
  void wait_without_loop();
  /// Whether that was ever called.
  [[nodiscard]] bool without_loop() const { return without_loop_; }

  /// Leaves real-time signals in the kernel's queue, whose limit tells their sender to stop, until called
  /// with false. For a receiver that takes no more.
  void hold_real_time(bool hold);

 private:
  bool fill();  ///< whether there is a signal
  bool take_pending(std::chrono::milliseconds time);
  void set_timer(Deadline deadline);
  void wake();
  [[nodiscard]] Received front() const;

  SignalSet taken_ = ~SignalSet{0};  // those not in it are left in the kernel's queue
  std::array<signalfd_siginfo, 8> read_{};
  std::size_t first_ = 0;
  std::size_t end_ = 0;
  boost::asio::posix::stream_descriptor descriptor_;
  int refusal_ = 0;
  bool readable_ = false;  // the event loop reported it, and nothing was read since
  boost::asio::steady_timer timer_;
  Deadline timer_set_for_;
  bool woken_ = false;
  bool without_loop_ = false;
};

}  // namespace rankshim::supervise
