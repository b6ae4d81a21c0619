#include "settings/codes.h"

#include <catch2/catch.hpp>

#include "base/fault.h"

using namespace rankshim;
using namespace rankshim::settings;

TEST_CASE("each code of an error has its part of the page, and nothing else has one") {
  const auto codes = all_codes();
  CHECK(codes.size() == static_cast<std::size_t>(ErrorCode::nobody_missing));
  for (std::size_t at = 0; at < codes.size(); ++at) {
    CHECK(codes[at] == "R" + std::to_string(at + 1));
    CHECK_THAT(std::string(about_code(codes[at])), Catch::StartsWith("[" + std::string(codes[at]) + "] "));
    CHECK(about_code(codes[at]).find("\n#") == std::string_view::npos);
  }
  CHECK(about_code("r26") == about_code("R26"));
  CHECK_THAT(std::string(about_code("R26")), Catch::Contains("headless Service"));
  for (const char* other : {"", "R", "R0", "R99", "26", "explain", "R1] `unknown"})
    CHECK(about_code(other).empty());
}
