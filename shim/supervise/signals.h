#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <chrono>
#include <csignal>
#include <optional>

#include "loop/loop.h"
#include "supervise/kernel.h"

/// The signals that rankshim receives. Numbers are the kernel's, 1 to 64.
namespace rankshim::supervise {

/// The inherited mask of blocked signals, stored when all signals were blocked, before main() and other
/// initialisers.
SignalSet inherited_mask();

/// Whether the signal was ignored when rankshim started, and so will be for the command. One system call.
bool inherited_as_ignored(int signal);

/// Whether the signal's default action ends a process (signal(7)).
constexpr bool terminates_by_default(int signal) {
  return ((bit(SIGCHLD) | bit(SIGCONT) | bit(SIGSTOP) | bit(SIGTSTP) | bit(SIGTTIN) | bit(SIGTTOU) |
           bit(SIGURG) | bit(SIGWINCH)) &
          bit(signal)) == 0;
}

/// Whether the signal is TERM, INT, HUP or QUIT, with which platforms, terminals and people stop a process.
constexpr bool is_stop_signal(int signal) {
  return ((bit(SIGTERM) | bit(SIGINT) | bit(SIGHUP) | bit(SIGQUIT)) & bit(signal)) != 0;
}

/// Makes the kernel send rankshim this signal when its parent process dies, even if it dies during this call.
/// The signal is passed on like any other. Logs a warning if the kernel refuses.
void end_with_parent(int signal);

/// Reads the blocked signals one by one, in the kernel's order, through a signalfd. Create it once, before
/// any other descriptor is opened and before the first child: it occupies the closed descriptors among 0–2,
/// and sets an ignored SIGCHLD to its default, because otherwise no child could be waited for.
class SignalQueue {
 public:
  using Clock = std::chrono::steady_clock;
  using Deadline = std::optional<Clock::time_point>;

  /// Throws boost::system::system_error if the kernel refuses the descriptor.
  explicit SignalQueue(boost::asio::io_context& io);

  /// The next signal that has arrived, including SIGCHLD; number 0 if there is none. Skips signals that
  /// rankshim's own log lines caused by writing to a broken pipe or a full file.
  Signal take();

  /// Waits until a signal arrives or `deadline` passes; without a deadline, until a signal arrives. May
  /// return early. Cancelling the wait loses no signal.
  boost::asio::awaitable<void> wait(Deadline deadline);

  /// Waits for the next signal that would kill a process without a handler and was not inherited as ignored;
  /// drops others. This is for the time before the command exists. The signal stays in the queue, so that one
  /// that arrives just as a wait ends still reaches the command. Number 0 if none arrived before `deadline`.
  boost::asio::awaitable<Signal> next_terminating(Deadline deadline = {});

  /// Drops the signal that next_terminating() returned, because it was handled and must not be passed on.
  void drop() { next_.reset(); }

  /// Ends the pending wait, or if there is none, the next one.
  void wake();

  /// Leaves real-time signals in the kernel's queue until called with false, for a receiver that takes no
  /// more. The queue's limit makes the sender stop.
  void hold_real_time(bool hold);

 private:
  bool fill();  ///< returns whether there is a signal

  std::optional<Signal> next_;  // read, but not yet taken
  boost::asio::posix::stream_descriptor descriptor_;
  loop::Timer timer_;
  bool woken_ = false;
};

}  // namespace rankshim::supervise
