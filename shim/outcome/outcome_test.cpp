#include "outcome/outcome.h"

#include <catch2/catch.hpp>

namespace rankshim::outcome {

TEST_CASE("a cause is read back by its name") {
  for (int number = 0; number <= static_cast<int>(Cause::system); ++number) {
    const auto cause = static_cast<Cause>(number);
    CHECK(cause_named(name(cause)) == cause);
  }
  CHECK(cause_named("") == std::nullopt);
  CHECK(cause_named("oom") == std::nullopt);
}

TEST_CASE("ranks are named by their ranges") {
  struct Row {
    std::vector<unsigned> ranks;
    std::string words;
  };
  const auto row = GENERATE(values<Row>({
      {{1}, "rank 1"},
      {{2, 0}, "ranks 0 and 2"},
      {{1, 1}, "rank 1"},
      {{0, 1}, "ranks 0-1"},
      {{5, 3, 4, 0}, "ranks 0 and 3-5"},
      {{0, 2, 4, 6}, "ranks 0, 2, 4 and 6"},
      {{0, 2, 4, 6, 8, 10, 12, 14, 16}, "ranks 0, 2, 4, 6, 8, 10, 12, 14 and more"},
  }));
  CHECK(in_words(to_ranges(row.ranks)) == row.words);
}

}  // namespace rankshim::outcome
