#include "base/pattern.h"

#include <catch2/catch.hpp>

using rankshim::Pattern;

const auto never = Pattern::Clock::time_point::max();

std::string repeated(std::string_view text, unsigned times) {
  std::string all;
  while (times-- > 0) all += text;
  return all;
}

TEST_CASE("each leftmost, longest match is replaced", "[pattern]") {
  struct Row {
    std::string pattern;
    std::string text;
    std::string result;
  };
  const std::vector<Row> rows = {
      {"abc", "xabcabcy", "x##y"},
      {"a.c", "abc a-c ac", "# # ac"},
      {"ab*c", "ac abc abbbc", "# # #"},
      {"ab+c", "ac abc abbbc", "ac # #"},
      {"ab?c", "ac abc abbc", "# # abbc"},
      {"cat|dog", "cats and dogs", "#s and #s"},
      {"a|ab|abc", "abcd", "#d"},
      {"(ab)+", "ababab ba", "# ba"},
      {"(a|b)*c", "abbac c", "# #"},
      {"^a", "aa", "#a"},
      {"a$", "aa", "a#"},
      {"^$", "", ""},
      {"x*", "axxb", "a#b"},
      {"[0-9a-f]+", "deadbeef xyz 42", "# xyz #"},
      {"[^ ]+", "a bc", "# #"},
      {"[]x]", "]x-", "##-"},
      {"[a-]", "a-b", "##b"},
      {"[\\d.]+", "v1.2.3", "v#"},
      {"\\d+", "no 123 no", "no # no"},
      {"\\w+=\\S+", "key=value, x", "# x"},
      {"\\D+", "ab12", "#12"},
      {"\\s", "a b\tc", "a#b#c"},
      {"\\t", "a\tb", "a#b"},
      {"a\\.b", "a.b axb", "# axb"},
      {"hf_[A-Za-z0-9]+|sk-\\w+", "token hf_abc123, sk-9z.", "token #, #."},
      {"a{2,3}", "a aa aaaa", "a # #a"},
      {"AKIA[0-9A-Z]{16}", "AKIA0123456789ABCDEF", "#"},
      {"a\\{2", "a{2", "#"},
      {"[[:digit:]]+", "x12", "x#"},
      {"\xc3\xa4", "\xc3\xa4 a", "# a"},
  };
  for (const Row& row : rows) {
    INFO(row.pattern);
    const auto pattern = Pattern::compile(row.pattern);
    REQUIRE(pattern);
    CHECK(pattern->replace(row.text, "#", never) == row.result);
  }
}

TEST_CASE("what is malformed is no pattern", "[pattern]") {
  for (const std::string text :
       {"", "(", "(a", "[", "[a", "[]", "[z-a]", "\\", "\\q", "[\\", "(a)\\1", "[\\D]", "(a{200}){200}",
        "((x?){100}){100}", "a*{9}", "a{256}", "a{200}b{200}c{200}", "{2}"}) {
    INFO(text);
    CHECK_FALSE(Pattern::compile(text));
  }
  CHECK_FALSE(Pattern::compile(std::string(1001, 'a')));
  // glibc would need gigabytes for these
  CHECK_FALSE(Pattern::compile("a" + std::string(60, '+')));
  CHECK_FALSE(Pattern::compile(std::string(40, '(') + "a" + repeated("+)", 40) + "+"));
  CHECK(Pattern::compile("a" + std::string(8, '+')));
  CHECK(Pattern::compile(repeated("(a+)", 100)));
}

TEST_CASE("a pattern that explodes when it is tried back and forth ends soon", "[pattern]") {
  std::string text;
  std::string pattern;
  for (int i = 0; i < 30; ++i) {
    text += 'a';
    pattern += "a?";
  }
  const auto compiled = Pattern::compile(pattern + text);
  REQUIRE(compiled);
  CHECK(compiled->replace(text, "#", never) == "#");
  const auto nested = Pattern::compile("(a*)*b");
  REQUIRE(nested);
  CHECK(nested->replace(std::string(300, 'a'), "#", never) == std::string(300, 'a'));
}
