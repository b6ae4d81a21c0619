#include "base/duration.h"

#include <catch2/catch.hpp>

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
  CHECK(seconds(milliseconds(30'000)) == "30 s");
  CHECK(seconds(milliseconds(1'500)) == "1500 ms");
}

}  // namespace
}  // namespace rankshim
