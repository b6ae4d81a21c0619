#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <chrono>
#include <csignal>
#include <optional>

#include "loop/loop.h"
#include "supervise/kernel.h"

/// The signals that rankshim receives. Their numbers are the kernel's, 1 to 64.
namespace rankshim::supervise {

/// The inherited mask of blocked signals, stored when all were blocked, before main and other initialisers.
SignalSet inherited_mask();

/// Whether the signal was ignored when rankshim was started, and so is for the command. One system call.
bool inherited_as_ignored(int signal);

/// Whether the signal's default action ends a process (signal(7)).
constexpr bool terminates_by_default(int signal) {
  return ((bit(SIGCHLD) | bit(SIGCONT) | bit(SIGSTOP) | bit(SIGTSTP) | bit(SIGTTIN) | bit(SIGTTOU) |
           bit(SIGURG) | bit(SIGWINCH)) &
          bit(signal)) == 0;
}

/// Whether it is TERM, INT, HUP or QUIT, with which platforms, terminals and people stop a process.
constexpr bool is_stop_signal(int signal) {
  return ((bit(SIGTERM) | bit(SIGINT) | bit(SIGHUP) | bit(SIGQUIT)) & bit(signal)) != 0;
}

/// Makes the kernel send rankshim this signal when its parent process dies, or has died during the call. The
/// signal is passed on like any other. A refusal is logged as a warning.
void end_with_parent(int signal);

/// The blocked signals, read one by one in the kernel's order through a signalfd. To be made once, before any
/// other descriptor is opened and before the first child: it reserves the closed descriptors among 0–2, and
/// sets an ignored SIGCHLD to its default, because otherwise no child's end could be waited for.
class SignalQueue {
 public:
  using Clock = std::chrono::steady_clock;
  using Deadline = std::optional<Clock::time_point>;

  /// Throws boost::system::system_error if the kernel refuses the descriptor.
  explicit SignalQueue(boost::asio::io_context& io);

  /// The next signal that has come, SIGCHLD included; number 0 if there is none. Those that a log line of
  /// rankshim caused, by a write into a broken pipe or into a file that is full, are left out.
  Signal take();

  /// Waits until a signal has come or `deadline` has passed; without a deadline, until a signal comes. May
  /// return earlier. To cancel it loses no signal.
  boost::asio::awaitable<void> wait(Deadline deadline);

  /// The next signal that would end a process without a handler and was not inherited as ignored; others are
  /// dropped. This is for the time before the command exists. The signal stays in the queue, so that one
  /// which arrives together with the end of the waiting still reaches the command. Number 0 if none came
  /// before `deadline`.
  boost::asio::awaitable<Signal> next_terminating(Deadline deadline = {});

  /// Drops the signal that next_terminating() returned: it was handled, and must not be passed on.
  void drop() { next_.reset(); }

  /// Ends a wait that goes on, or else the next one.
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
