#pragma once

#include <spdlog/fmt/fmt.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

/// Our lines on stderr. A line goes out whole, and only if stderr can take it at once: the descriptor is
/// shared with the command, so it is never made non-blocking and never waited for; what does not fit is
/// dropped and counted. Single-threaded; not for signal handlers or the child between fork and exec.
namespace rankshim::log {

enum class Level : std::uint8_t { debug, info, warn, error };

void set_level(Level level);

/// Each line becomes a JSON object with "time", "level" and "message", and what is known of "phase",
/// "node_rank" and "run_id".
void set_json(bool json);
void set_phase(std::string_view phase);
void set_node(std::optional<unsigned> node_rank, std::string_view run_id);

[[nodiscard]] bool enabled(Level level);

/// Lines that stderr could not take so far.
[[nodiscard]] std::uint64_t dropped();

/// Writes "rankshim: TEXT", warnings and errors with their level in front of the text; see set_json. What a
/// terminal would obey is escaped, whatever the text is made of: a line stays one line.
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
