#pragma once

#include <sys/signalfd.h>

#include <array>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstddef>
#include <cstdint>

#include "base/signal_text.h"

/// Signals as the kernel counts them: 1 to 64. musl hides 32 to 34 from its own functions and numbers
/// SIGRTMIN 35, so sets are our own 64 bits and the calls are raw system calls; RTMIN here is 34, as kill(1),
/// systemd and container engines mean it.
namespace rankshim::supervise {

struct Received {
  int number = 0;
  int code = 0;             ///< si_code
  std::int64_t sender = 0;  ///< pid, 0 from outside our PID namespace or from the kernel
  std::uint32_t user = 0;   ///< the sender's uid
  std::uint64_t value = 0;  ///< si_value of a queued one
};

/// The mask of blocked signals that we inherited, taken when all were blocked: before main and any other
/// initialiser.
SignalSet inherited_mask();

/// Whether the signal was ignored when we were started; the command gets it so again. One system call.
bool inherited_as_ignored(int signal);

/// Whether the signal's default action ends a process (signal(7)).
bool ends_by_default(int signal);

/// TERM, INT, HUP and QUIT: what platforms, terminals and people ask to stop with.
bool asks_to_stop(int signal);

/// Whether it came of a line of ours: into a broken pipe, or into a file that is full.
bool is_of_our_own_making(const Received& signal);

/// From now on the kernel sends us this signal when our parent ends; it is then passed on like any other. A
/// parent that ended during the call counts. A refusal is a warning.
void end_with_parent(int signal);

/// The blocked signals, read one by one in the kernel's order through a signalfd. Make it once, before
/// anything else opens a descriptor and before the first child: it keeps the closed ones of 0–2 from being
/// given to our own files, and sets an ignored SIGCHLD to its default, without which no child's end could be
/// waited for.
class SignalQueue {
 public:
  /// Throws std::system_error where the kernel refuses the descriptor.
  explicit SignalQueue(boost::asio::io_context& io);

  /// The next signal; SIGCHLD too. Cancelling yields number 0, and loses none, as long as the result, once
  /// there, is not thrown away.
  boost::asio::awaitable<Received> next();

  /// The next signal that would have ended a process that does not handle it, and that we did not inherit as
  /// ignored; others are dropped. For the time before the command exists. It stays in the queue, so that one
  /// which arrives together with the end of the waiting still reaches the command.
  boost::asio::awaitable<Received> next_ending();

  /// What next_ending() told was acted upon, and is to reach nobody else.
  void drop();

  /// Leaves real-time signals in the kernel's queue, whose limit tells their sender to stop, until told
  /// otherwise. For a receiver that takes none.
  void hold_real_time(bool hold);

 private:
  boost::asio::awaitable<bool> fill();  ///< whether there is a signal: false when cancelled
  [[nodiscard]] Received front() const;

  std::array<signalfd_siginfo, 8> read_{};
  std::size_t first_ = 0;
  std::size_t end_ = 0;
  boost::asio::posix::stream_descriptor descriptor_;
};

}  // namespace rankshim::supervise
