#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

/// Durations as people write and read them.
namespace rankshim {

/// "90s", "10m", "2h", "250ms", a bare number of seconds; nothing where it is none or above 100 years.
std::optional<std::chrono::milliseconds> parse_time(std::string_view text);

/// "1h30m" style is not read; this prints "10m", "90s", "250ms": the largest unit that divides.
std::string format_time(std::chrono::milliseconds time);

/// "30 s" in a sentence, and "1500 ms" where it is no whole number of them.
std::string seconds(std::chrono::milliseconds time);

}  // namespace rankshim
