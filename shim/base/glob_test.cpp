#include "base/glob.h"

#include <catch2/catch.hpp>

namespace rankshim {

TEST_CASE("a glob fits the whole text") {
  CHECK(fits("job-master-0", "*-master-0"));
  CHECK(fits("job-master-0", "job-*-?"));
  CHECK(fits("", "*"));
  CHECK(fits("abcabc", "*abc"));
  CHECK(fits("a*b", "a*b"));
  CHECK_FALSE(fits("job-master-0.job", "*-master-0"));
  CHECK_FALSE(fits("", "?"));
  CHECK_FALSE(fits("abc", "ab"));
  CHECK_FALSE(fits("Abc", "abc"));
  CHECK_FALSE(fits(std::string(100'000, 'a'), "*a*a*a*a*b"));
}

}  // namespace rankshim
