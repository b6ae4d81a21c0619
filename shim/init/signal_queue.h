#pragma once

#include <sys/signalfd.h>

#include <array>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <chrono>
#include <cstddef>

#include "init/kernel.h"
#include "init/signals.h"

namespace rankshim::supervise {

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

  /// The next signal, without the event loop, where that can wait for nothing any more; number 0 when none
  /// came in that time.
  Received take(std::chrono::milliseconds time);

  /// What next_ending() told was acted upon, and is to reach nobody else.
  void drop();

  /// Leaves real-time signals in the kernel's queue, whose limit tells their sender to stop, until told
  /// otherwise. For a receiver that takes none.
  void hold_real_time(bool hold);

 private:
  boost::asio::awaitable<bool> fill();  ///< whether there is a signal: false when cancelled
  bool take_pending(std::chrono::milliseconds time);
  [[nodiscard]] Received front() const;

  SignalSet taken_ = ~SignalSet{0};  // what is not left in the kernel's queue
  std::array<signalfd_siginfo, 8> read_{};
  std::size_t first_ = 0;
  std::size_t end_ = 0;
  boost::asio::posix::stream_descriptor descriptor_;
};

}  // namespace rankshim::supervise
