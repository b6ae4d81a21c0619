#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

/// Parses and formats durations as people write them.
namespace rankshim {

/// Parses "90s", "10m", "2h", "250ms", or a bare number of seconds, up to 100 years; nullopt for other texts.
std::optional<std::chrono::milliseconds> parse_time(std::string_view text);

/// Formats a duration in the largest unit that divides it: "10m", "90s", "250ms".
std::string format_time(std::chrono::milliseconds time);

/// A duration for a sentence: "30 s", or "1500 ms" if it is not a whole number of seconds.
std::string seconds(std::chrono::milliseconds time);

/// A measured duration in seconds, with non-zero tenths below ten seconds: "3.2 s", "3 s", "42 s".
std::string short_seconds(std::chrono::milliseconds time);

/// A measured duration of any length: "3.2 s" below a minute, then "2 min 5 s" or "5 min", and from an hour
/// on "1 h 2 min".
std::string hours_and_minutes(std::chrono::milliseconds time);

}  // namespace rankshim
