#include "platform/contradiction.h"

#include <catch2/catch.hpp>

#include "platform/expression.h"

namespace rankshim::platform {
namespace {

/// Two conditions in one set of tables.
struct Two {
  OwnedTables owned;
  Condition a, b;

  Two(std::string_view one, std::string_view other) : a(read(one)), b(read(other)) {}
  Condition read(std::string_view text) {
    std::string error;
    const auto condition = parse_condition(text, {}, owned, error);
    INFO(error);
    REQUIRE(condition);
    return *condition;
  }
};

}  // namespace

TEST_CASE("conditions that never hold together are found") {
  struct Case {
    const char *a, *b;
    bool never;
  };
  const auto row = GENERATE(values<Case>({
      {"A", "!A", true},
      {"A", "B", false},
      {"A", "A", false},
      {"!A", "!A=1", false},
      {"A=1", "A=2", true},
      {"A=1", "A=*", false},
      {"A=1", "A=2*", true},
      {"A=x*", "A=*y", false},
      {"A=1", "!A", true},
      {"A=1", "!A=1", true},
      {"A=1", "!A=?", true},
      {"A=1", "!A=2", false},
      {"A=x*", "!A=x*", true},
      {"A=x*", "!A=xy", false},
      {"A", "!A=*", true},
      {"A", "!A=1", false},
      {"file(/a)", "!file(/a)", true},
      {"file(/a)", "!file(/b)", false},
      {"first_host(${A})", "!host(${A})", false},
      {"join(${A}, x)=1", "join(${A}, x)=2", true},
  }));
  Two two(row.a, row.b);
  CAPTURE(row.a, row.b);
  CHECK(contradict(two.a, two.b, two.owned.view()) == row.never);
  CHECK(contradict(two.b, two.a, two.owned.view()) == row.never);
}

TEST_CASE("a condition implies another one") {
  struct Case {
    const char *first, *second;
    bool implied;
  };
  const auto row = GENERATE(values<Case>({
      {"A", "A", true},
      {"A=1", "A", true},
      {"A", "A=1", false},
      {"A=1", "A=*", true},
      {"A=1", "!A=2", true},
      {"!A", "!A=1", true},
      {"!A=1", "!A", false},
      {"A", "B", false},
  }));
  Two two(row.first, row.second);
  CAPTURE(row.first, row.second);
  CHECK(implies(two.a, two.b, two.owned.view()) == row.implied);
}

}  // namespace rankshim::platform
