#pragma once

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstddef>
#include <deque>
#include <memory>
#include <string>

#include "loop/loop.h"

namespace rankshim::launchers {

/// Writes what the workers print to two descriptors, rankshim's stdout and stderr, in whole lines, each after
/// its worker's prefix. A line of more than `longest_line` bytes is split. While stdout or stderr
/// accepts no more, nothing more is read for it: a worker that writes to a pipe then waits, as it would
/// without rankshim. Nothing here blocks, unless stdout or stderr is a regular file (base/log.h).
class Relay {
 public:
  static constexpr std::size_t longest_line = std::size_t{64} << 10U;
  static constexpr std::size_t pipe_size = 4 * longest_line;  ///< of a worker's pipe, if the kernel allows it

  Relay(boost::asio::io_context& io, int out, int error);

  /// Relays from a new pipe to `target`, one of the two. Returns the worker's end, which is
  /// close-on-exec; −1, with errno, if that is refused.
  int add_pipe(int target, const std::string& prefix);

  /// Relays what is written to the file. Returns false, with errno, if that is refused.
  bool add_file(const std::string& path, int target, const std::string& prefix);

  /// All workers have ended: the rest of a line is a line, and nothing is expected of a pipe that is open.
  void finish();

  /// Whether there is more to write, now or when stdout or stderr accepts more.
  [[nodiscard]] bool has_more() const;

 private:
  using AsyncFd = boost::asio::posix::stream_descriptor;
  /// What is written to.
  struct Console {
    int descriptor;
    AsyncFd full;      // a duplicate of it, open while it accepts no more
    std::string text;  // whole lines, without what is written already
    bool warned = false;
  };
  /// What is read.
  struct Stream {
    AsyncFd descriptor;
    bool is_file;
    Console* console;
    std::string prefix;
    std::string unfinished;  // the beginning of a line
    bool due = false;        // to be read
  };

  [[nodiscard]] Console& console_of(int target);
  /// Adds what is read from `descriptor`. Returns false, with errno, if the loop cannot watch it.
  bool add(int descriptor, bool is_file, int target, const std::string& prefix);
  /// A handler for the loop, which does nothing once the relay is gone: it may have been queued before.
  template <class Act>
  [[nodiscard]] auto handler(Act act) const {
    return [exists = std::weak_ptr<bool>(exists_), act](const boost::system::error_code& error) {
      if (!error && !exists.expired()) act();
    };
  }
  void wait_for(Stream& pipe);
  void wait_for_files();
  bool wait_for(Console& console);
  void serve();
  void read(Stream& stream);
  static void take_lines(Stream& stream, bool flush);
  void write(Console& console);

  AsyncFd inotify_;
  loop::Timer soon_;
  bool finishing_ = false;
  std::unique_ptr<char[]> chunk_ =
      std::make_unique_for_overwrite<char[]>(longest_line);  // empty after a read
  std::array<Console, 2> consoles_;
  std::deque<Stream> streams_;  // which stay where they are
  std::shared_ptr<bool> exists_ = std::make_shared<bool>(true);
};

}  // namespace rankshim::launchers
