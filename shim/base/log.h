#pragma once

#include <sys/types.h>

#include <spdlog/logger.h>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

/// Log lines on stderr, by a spdlog logger with a sink of rankshim's. A line is written whole, and only if
/// stderr can take it at once: the descriptor is shared with the command, so rankshim never makes it
/// non-blocking and never waits for it. A line that does not fit is dropped and counted. Logging never
/// throws, and keeps errno. Single-threaded; not for signal handlers or for the child between fork and exec.
namespace rankshim::log {

using Level = spdlog::level::level_enum;

/// `level` is the least that is shown: "debug", "info", "warn" or "error". A line is text, `with_time` with
/// the time in front; or a JSON object with "time", "level", "message" and what is known of context().
void configure(std::string_view level, bool as_json = false, bool with_time = false);

/// What a JSON line holds beside the message. Whoever learns of it sets it.
struct Context {
  std::string phase;
  std::optional<unsigned> node_rank, nnodes;
  unsigned attempt = 0;  ///< how often the job was started again in place
  std::string run_id, platform;
  std::optional<int> exit_code;  ///< rankshim's own, of the lines at its end
  std::string cause;             ///< as --exit-map names it
};
Context& context();

/// The number of lines that stderr could not take so far, or for which there was no memory.
[[nodiscard]] std::uint64_t dropped();

/// The logger. Its sink writes "rankshim: TEXT", with the level in front of the text for warnings and errors,
/// in colour on a terminal. Control characters are escaped: a line is one line, and controls no terminal.
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

/// Writes to a descriptor what can be written at once, even if other processes write there: a line of at most
/// PIPE_BUF bytes as a whole. It does not change the descriptor's flags, because O_NONBLOCK belongs to the
/// open file description, which the command shares. Returns how many bytes were written, or −1 with errno:
/// EAGAIN if nothing can be written now. Only a write to a regular file may wait.
ssize_t write_what_fits(int descriptor, std::string_view text);

}  // namespace rankshim::log
