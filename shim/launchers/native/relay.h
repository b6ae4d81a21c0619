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

/// Copies what the workers print to two descriptors, rankshim's stdout and stderr, in whole lines, each with
/// its worker's prefix. A line of more than `longest_line` bytes is split. While stdout or stderr accepts no
/// more, nothing more is read for it: a worker that writes to a pipe then blocks, as it would without
/// rankshim. Nothing here blocks, unless stdout or stderr is a regular file (base/log.h).
class Relay {
 public:
  static constexpr std::size_t longest_line = std::size_t{64} << 10U;
  static constexpr std::size_t pipe_size = 4 * longest_line;  ///< of a worker's pipe, if the kernel allows it

  Relay(boost::asio::io_context& io, int out, int error);

  /// Relays from a new pipe to `target`, one of the two descriptors. Returns the worker's end, which is
  /// close-on-exec; −1, with errno, if that fails.
  int add_pipe(int target, const std::string& prefix);

  /// Relays what is written to the file. Returns false, with errno, if that fails.
  bool add_file(const std::string& path, int target, const std::string& prefix);

  /// Call this when all workers have ended: an unfinished line counts as a line, and no more is expected from
  /// open pipes.
  void finish();

  /// Whether there is more to write, now or when stdout or stderr accepts more.
  [[nodiscard]] bool has_more() const;

 private:
  using AsyncFd = boost::asio::posix::stream_descriptor;
  /// One of the two targets.
  struct Console {
    int descriptor;
    AsyncFd full;      // a duplicate of it, open while it accepts no more
    std::string text;  // whole lines that are not written yet
    bool warned = false;
  };
  /// One of the sources.
  struct Stream {
    AsyncFd descriptor;
    bool is_file;
    Console* console;
    std::string prefix;
    std::string unfinished;  // the beginning of a line
    bool due = false;        // to be read
  };

  [[nodiscard]] Console& console_of(int target);
  /// Adds a source. Returns false, with errno, if the loop cannot watch it.
  bool add(int descriptor, bool is_file, int target, const std::string& prefix);
  /// Wraps a handler for the loop, so that it does nothing if the relay is gone by the time it runs.
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
  std::deque<Stream> streams_;  // a deque, because they must stay where they are
  std::shared_ptr<bool> exists_ = std::make_shared<bool>(true);
};

}  // namespace rankshim::launchers
