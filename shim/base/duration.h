#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

/// Durations as people write and read them.
namespace rankshim {

/// Reads "90s", "10m", "2h", "250ms", or a bare number of seconds. Returns nothing if the text is no such
/// duration or is longer than 100 years.
std::optional<std::chrono::milliseconds> parse_time(std::string_view text);

/// Writes a duration in the largest unit that divides it: "10m", "90s", "250ms". It never mixes units
/// ("1h30m").
std::string format_time(std::chrono::milliseconds time);

/// A duration for a sentence: "30 s", or "1500 ms" if it is not a whole number of seconds.
std::string seconds(std::chrono::milliseconds time);

}  // namespace rankshim
