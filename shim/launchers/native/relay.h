#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rankshim::native {

/// Writes what the workers print to two descriptors, rankshim's stdout and stderr, in whole lines, each after
/// its worker's prefix. A line of more than `longest_line` bytes is divided. As long as stdout or stderr
/// takes nothing, nothing more is read for it: a worker that writes to a pipe then waits, as it would without
/// rankshim. Nothing here waits, unless stdout or stderr is a regular file (base/log.h), but for
/// 50 µs while lines come fast.
class Relay {
 public:
  static constexpr std::size_t longest_line = std::size_t{64} << 10U;
  static constexpr std::size_t pipe_size = std::size_t{256}
                                           << 10U;  ///< of a worker's pipe, if the kernel lets it

  Relay(int out, int error);
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  /// Relays from a new pipe to `target`, one of the two. Returns the worker's end, which is
  /// close-on-exec; −1, with errno, if that is refused.
  int add_pipe(int target, const std::string& prefix);

  /// Relays what is written to the file. Returns false, with errno, if that is refused.
  bool add_file(const std::string& path, int target, const std::string& prefix);

  /// Becomes readable when serve() has something to do.
  [[nodiscard]] int descriptor() const { return epoll_; }

  /// Reads and writes a part of what can be read and written now.
  void serve();

  /// To be called when all workers have ended: the rest of a line is a line, and nothing more is expected of
  /// a pipe that another process still has.
  void finish();

  /// Whether serve() has more to do, now or when stdout or stderr takes more.
  [[nodiscard]] bool has_more() const;

 private:
  /// What is written to.
  struct Console {
    int descriptor;
    std::string text;  // whole lines
    std::size_t written = 0;
    bool warned = false;
  };
  /// What is read.
  struct Stream {
    int descriptor;
    bool is_file;
    Console* console;
    std::string prefix;
    std::string unfinished;  // the begin of a line
    bool ready = false;      // to be read
  };

  bool arm(int descriptor, std::uint32_t events, std::uint64_t what);
  [[nodiscard]] Console& console_of(int target);
  void take_events();
  std::size_t read(std::size_t index);
  static void add_lines(Stream& stream, std::string_view text);
  static void end_line(Stream& stream);
  void write(Console& console);

  int epoll_;
  int again_;  // is always readable, so that a wait for it ends at once
  int inotify_ = -1;
  bool finishing_ = false;
  std::array<Console, 2> consoles_;
  std::vector<Stream> streams_;
};

}  // namespace rankshim::native
