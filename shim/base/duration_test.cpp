#include "base/duration.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <vector>

namespace rankshim {
namespace {

TEST_CASE("times are read with their unit and printed back") {
  using std::chrono::milliseconds;
  CHECK(parse_time("90s") == milliseconds(90'000));
  CHECK(parse_time("10m") == milliseconds(600'000));
  CHECK(parse_time("2h") == milliseconds(7'200'000));
  CHECK(parse_time("250ms") == milliseconds(250));
  CHECK(parse_time("7") == milliseconds(7'000));
  for (const char* wrong : {"", "s", "-1", "1.5s", "1 s", "1d", "99999999999h", "0x1"})
    CHECK_FALSE(parse_time(wrong));
  CHECK(format_time(milliseconds(600'000)) == "10m");
  CHECK(format_time(milliseconds(90'000)) == "90s");
  CHECK(format_time(milliseconds(0)) == "0s");
}

TEST_CASE("a duration in a sentence is as exact as the sentence needs") {
  struct Row {
    std::int64_t milliseconds;
    std::string seconds, in_short, with_hours;
  };
  const std::vector<Row> rows = {
      {0, "0 s", "0 s", "0.0 s"},
      {99, "99 ms", "0 s", "0.0 s"},
      {1'500, "1500 ms", "1.5 s", "1.5 s"},
      {2'000, "2 s", "2 s", "2.0 s"},
      {3'299, "3299 ms", "3.2 s", "3.2 s"},
      {9'999, "9999 ms", "9.9 s", "9.9 s"},
      {10'900, "10900 ms", "10 s", "10.9 s"},
      {59'999, "59999 ms", "59 s", "59.9 s"},
      {60'000, "60 s", "60 s", "1 min"},
      {125'900, "125900 ms", "125 s", "2 min 5 s"},
      {3'599'999, "3599999 ms", "3599 s", "59 min 59 s"},
      {3'600'000, "3600 s", "3600 s", "1 h"},
      {90'180'000, "90180 s", "90180 s", "25 h 3 min"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.milliseconds);
    const std::chrono::milliseconds time(row.milliseconds);
    CHECK(seconds(time) == row.seconds);
    CHECK(short_seconds(time) == row.in_short);
    CHECK(hours_and_minutes(time) == row.with_hours);
  }
}

}  // namespace
}  // namespace rankshim
