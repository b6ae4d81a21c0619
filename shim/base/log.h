#pragma once

#include <spdlog/fmt/fmt.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

/// Log lines on stderr. A line is written whole, and only if stderr can take it at once: the descriptor is
/// shared with the command, so rankshim never makes it non-blocking and never waits for it. A line that does
/// not fit is dropped and counted. Single-threaded; not for signal handlers or for the child between fork and
/// exec.
namespace rankshim::log {

enum class Level : std::uint8_t { debug, info, warn, error };

void set_level(Level level);

/// Makes each line a JSON object with "time", "level" and "message", and those of "phase", "node_rank" and
/// "run_id" that are known.
void set_json(bool json);
void set_phase(std::string_view phase);
void set_node(std::optional<unsigned> node_rank, std::string_view run_id);

[[nodiscard]] bool enabled(Level level);

/// The number of lines that stderr could not take so far.
[[nodiscard]] std::uint64_t dropped();

/// Writes "rankshim: TEXT", with the level in front of the text for warnings and errors; see set_json.
/// Control characters are escaped, so that a line is always one line and cannot control a terminal.
void write(Level level, std::string_view text);

template <class... Args>
void debug(fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(Level::debug)) write(Level::debug, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(Level::info)) write(Level::info, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void warn(fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(Level::warn)) write(Level::warn, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void error(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::error, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace rankshim::log
