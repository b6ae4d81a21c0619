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

#include "init/kernel.h"
#include "init/signals.h"

namespace rankshim::supervise {

/// The blocked signals, read one by one in the kernel's order through a signalfd. Make it once, before
/// anything else opens a descriptor and before the first child: it keeps the closed ones of 0–2 from being
/// given to our own files, and sets an ignored SIGCHLD to its default, without which no child's end could be
/// waited for.
class SignalQueue {
 public:
  using Clock = std::chrono::steady_clock;
  using Deadline = std::optional<Clock::time_point>;

  /// Throws std::system_error where the kernel refuses the descriptor.
  explicit SignalQueue(boost::asio::io_context& io);

  /// The next signal that has come, SIGCHLD too; number 0 where none has.
  Received take();

  /// Waits until a signal has come or `deadline` has passed; nothing: however long that takes. May return
  /// sooner. False when it was cancelled, which loses no signal.
  boost::asio::awaitable<bool> wait(Deadline deadline);

  /// The next signal that would have ended a process that does not handle it, and that we did not inherit as
  /// ignored; others are dropped. For the time before the command exists. It stays in the queue, so that one
  /// which arrives together with the end of the waiting still reaches the command. Number 0 when none came
  /// until `deadline`, when it was cancelled, and, where there is no deadline, once without_loop(): what is
  /// awaited beside it would never come.
  boost::asio::awaitable<Received> next_ending(Deadline deadline = {});

  /// What next_ending() told was acted upon, and is to reach nobody else.
  void drop();

  /// Ends a wait() of the coroutine after its deadline, after a signal, or after a while, for an event loop
  /// that cannot wait any more.
  void wait_without_loop();
  /// Whether that was ever called.
  [[nodiscard]] bool without_loop() const { return without_loop_; }

  /// Leaves real-time signals in the kernel's queue, whose limit tells their sender to stop, until told
  /// otherwise. For a receiver that takes none.
  void hold_real_time(bool hold);

 private:
  bool fill();  ///< whether there is a signal
  bool take_pending(std::chrono::milliseconds time);
  void set_timer(Deadline deadline);
  void wake();
  [[nodiscard]] Received front() const;

  SignalSet taken_ = ~SignalSet{0};  // what is not left in the kernel's queue
  std::array<signalfd_siginfo, 8> read_{};
  std::size_t first_ = 0;
  std::size_t end_ = 0;
  boost::asio::posix::stream_descriptor descriptor_;
  bool readable_ = false;  // the loop said so, and nothing was read since
  boost::asio::steady_timer timer_;
  Deadline timer_set_for_;
  bool woken_ = false;
  bool without_loop_ = false;
};

}  // namespace rankshim::supervise
