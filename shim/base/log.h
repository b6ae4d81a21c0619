#pragma once

#include <sys/types.h>

#include <spdlog/logger.h>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

/// Log lines on stderr, written by a spdlog logger with rankshim's own sink. A line is written whole, and
/// only if stderr can take it at once: the command shares the descriptor, so rankshim never makes it
/// non-blocking and never waits for it. A line that does not fit is dropped and counted. Logging never
/// throws, and preserves errno. Single-threaded; not for signal handlers or for the child between fork and
/// exec.
namespace rankshim::log {

using Level = spdlog::level::level_enum;

/// Configures the logger. `level` is the lowest level that is shown: "debug", "info", "warn" or "error". A
/// line is either text, starting with the time if `with_time`, or a JSON object with "time", "level",
/// "message" and whatever context() knows.
void configure(std::string_view level, bool as_json = false, bool with_time = false);

/// What a JSON line contains besides the message. Whoever learns of a field's value sets it.
struct Context {
  std::string phase;
  std::optional<unsigned> node_rank, nnodes;
  unsigned attempt = 0;  ///< how often the job was restarted in place
  std::string run_id, platform;
  std::optional<int> exit_code;  ///< rankshim's own, in the lines at its end
  std::string cause;             ///< as --exit-map names it
};
Context& context();

/// The number of lines dropped so far because stderr could not take them or there was no memory for them.
[[nodiscard]] std::uint64_t dropped();

/// The logger. Its sink writes "rankshim: TEXT", with the level before the text for warnings and errors, in
/// colour on a terminal. Control characters are escaped, so that a message stays on one line and cannot
/// control the terminal.
spdlog::logger& logger();

template <class... Args>
void debug(fmt::format_string<Args...> format, Args&&... args) {
  logger().debug(format, std::forward<Args>(args)...);
}
template <class... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
  logger().info(format, std::forward<Args>(args)...);
}
template <class... Args>
void warn(fmt::format_string<Args...> format, Args&&... args) {
  logger().warn(format, std::forward<Args>(args)...);
}
template <class... Args>
void error(fmt::format_string<Args...> format, Args&&... args) {
  logger().error(format, std::forward<Args>(args)...);
}

/// Writes as much as the descriptor accepts at once, even while other processes write there; a line of at
/// most PIPE_BUF bytes is written whole or not at all. Leaves the descriptor's flags alone, because
/// O_NONBLOCK belongs to the open file description, which the command shares. Returns how many bytes were
/// written, or −1 with errno: EAGAIN if nothing can be written now. Only a write to a regular file may block.
ssize_t write_what_fits(int descriptor, std::string_view text);

}  // namespace rankshim::log
