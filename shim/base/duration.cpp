#include "base/duration.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/text.h"

namespace rankshim {
namespace {

struct Unit {
  std::string_view suffix;
  std::int64_t milliseconds;
};
constexpr std::array<Unit, 4> time_units = {{{"ms", 1}, {"s", 1000}, {"m", 60'000}, {"h", 3'600'000}}};

std::string seconds_and_tenths(std::chrono::milliseconds time) {
  return fmt::format("{}.{} s", time.count() / 1000, time.count() / 100 % 10);
}

}  // namespace

std::optional<std::chrono::milliseconds> parse_time(std::string_view text) {
  const auto number = take_number<std::int64_t>(text);
  if (!number || *number < 0) return std::nullopt;
  const std::string_view suffix = text.empty() ? "s" : text;
  const auto* const unit = std::ranges::find(time_units, suffix, &Unit::suffix);
  constexpr std::int64_t longest = std::int64_t{100} * 365 * 24 * 3'600'000;
  if (unit == time_units.end() || *number > longest / unit->milliseconds) return std::nullopt;
  return std::chrono::milliseconds(*number * unit->milliseconds);
}

std::string format_time(std::chrono::milliseconds time) {
  const auto unit = std::find_if(time_units.rbegin(), time_units.rend(), [&](const Unit& u) {
    return time.count() != 0 && time.count() % u.milliseconds == 0;
  });
  return unit == time_units.rend() ? "0s"
                                   : fmt::format("{}{}", time.count() / unit->milliseconds, unit->suffix);
}

std::string seconds(std::chrono::milliseconds time) {
  return time.count() % 1000 == 0 ? fmt::format("{} s", time.count() / 1000)
                                  : fmt::format("{} ms", time.count());
}

std::string short_seconds(std::chrono::milliseconds time) {
  const auto tenths = time.count() / 100;
  return tenths < 100 && tenths % 10 != 0 ? seconds_and_tenths(time) : fmt::format("{} s", tenths / 10);
}

std::string hours_and_minutes(std::chrono::milliseconds time) {
  const auto whole = time.count() / 1000;
  if (whole < 60) return seconds_and_tenths(time);
  const bool is_below_hour = whole < 3600;
  const auto count = is_below_hour ? whole : whole / 60;
  std::string text = fmt::format("{} {}", count / 60, is_below_hour ? "min" : "h");
  if (count % 60 == 0) return text;
  return fmt::format("{} {} {}", text, count % 60, is_below_hour ? "s" : "min");
}

}  // namespace rankshim
