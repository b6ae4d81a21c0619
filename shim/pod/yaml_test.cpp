#include "pod/yaml.h"

#include <spdlog/fmt/fmt.h>

#include <catch2/catch.hpp>

namespace rankshim {
namespace {

std::string flat(std::string_view text) {
  const auto document = yaml::read(text);
  if (const auto* mistake = std::get_if<flat::Mistake>(&document))
    return std::to_string(mistake->line) + ": " + mistake->what;
  std::string out;
  for (const auto& [path, value] : std::get<std::vector<flat::Entry>>(document))
    out += path + "=" + value + ";";
  return out;
}

TEST_CASE("YAML as kubectl writes it") {
  struct Row {
    std::string_view text;
    std::string_view expected;
  };
  const std::vector<Row> rows = {
      {"a: 1\nb:\n  c: x y # no\n  d: http://h:80/#f\n", "a=1;b.c=x y;b.d=http://h:80/#f;"},
      {"a:\n- 1\n- b: 2\n  c: 3\n- - x\n  - y\nd: ~\ne: {}\nf: []\ng:\n",
       "a.0=1;a.1.b=2;a.1.c=3;a.2.0=x;a.2.1=y;"},
      {"---\n\"a b\": 'it''s'\n'c': \"q\\\"\\n\\u00e9\\x41\"\n---\nz: 1\n",
       "a b=it's;c=q\"\n\xC3\xA9"
       "A;"},
      {"a: |\n  x\n   y\n\n  z\nb: >-\n  one\n  two\n\n  three\nc: |+\n  k\n\n",
       "a=x\n y\n\nz\n;b=one two\nthree;c=k\n\n;"},
      {"a: long\n  text goes\n  on\nb: \"long\n  text \\\n  on\n\n  and on\"\n",
       "a=long text goes on;b=long text on\nand on;"},
      {"- a\n-\n  b: 1\n", "0=a;1.b=1;"},
      {"", ""},
  };
  for (const Row& row : rows) {
    INFO(row.text);
    CHECK(flat(row.text) == row.expected);
  }
}

TEST_CASE("YAML as people write it") {
  struct Row {
    std::string_view text;
    std::string_view expected;
  };
  const std::vector<Row> rows = {
      {"env: [{name: A, value: '1'}, {name: B, value: }]\n", "env.0.name=A;env.0.value=1;env.1.name=B;"},
      {"{\"a\": {\"b\": [1, true, null]}}\n", "a.b.0=1;a.b.1=true;"},
      {"a: &x\n  b: 1\nc: *x\nd: [*x]\n", "a.b=1;c.b=1;d.0.b=1;"},
      {"a: &x 1\nb: *x\nc: &x {d: &y [2], e: *y}\nf: *x\n", "a=1;b=1;c.d.0=2;c.e.0=2;f.d.0=2;f.e.0=2;"},
      {"a: &x ~\nb: *x\nc: &x []\nd: *x\ne: 1\n", "e=1;"},
      {"%YAML 1.2\n---\na: !!str 012\nb: 1e3\nc: yes\n", "a=012;b=1e3;c=yes;"},
      {"a: ~\nb: null\nc: Null\nd: NULL\ne: ''\nf: 'null'\ng: nULL\n", "e=;f=null;g=nULL;"},
      {"? a\n: 1\n", "a=1;"},
      {"a: 1\r\nb: |\r\n  x\r\n  y\r\n", "a=1;b=x\ny\n;"},
      {"a: \"\\/\\x41\\0\"\n", {"a=/A\0;", 6}},
      {"just text\n", "=just text;"},
  };
  for (const Row& row : rows) {
    INFO(row.text);
    CHECK(flat(row.text) == row.expected);
  }
}

TEST_CASE("what is not YAML is named with its line") {
  struct Row {
    std::string_view text;
    std::string_view expected;
  };
  const std::vector<Row> rows = {
      {"a: 1\n   b: 2\n", "2: it is not YAML: mapping values are not allowed in this context"},
      {"a:\n    b: 1\n  c: 2\n",
       "3: it is not YAML: while parsing a block mapping from line 1, did not find expected key"},
      {"a:\n\t- 1\n",
       "2: it is not YAML: while scanning for the next token, found character that cannot start any token"},
      {"a: 'x\n",
       "2: it is not YAML: while scanning a quoted scalar from line 1, found unexpected end of stream"},
      {"a: *x\n", "1: no node with the anchor x has ended before"},
      {"a: \xFF\n", "1: it is not YAML: invalid leading UTF-8 octet"},
      {"a: 1\n? [b]\n: 2\n", "2: a key is a list or a mapping"},
  };
  for (const Row& row : rows) {
    INFO(row.text);
    CHECK(flat(row.text) == row.expected);
  }
}

TEST_CASE("YAML is read within limits") {
  std::string deep;
  for (int i = 0; i < 100; ++i) deep += std::string(static_cast<std::size_t>(i), ' ') + "k:\n";
  CHECK_THAT(flat(deep), Catch::EndsWith("too deep"));
  CHECK(flat("a: &y\n  b: *y\n") == "2: no node with the anchor y has ended before");
  std::string laughs = "a: &a0 [1]\n";
  for (int i = 0; i < 20; ++i) {
    laughs += fmt::format("b{0}: &a{1} [*a{0}, *a{0}, *a{0}]\n", i, i + 1);
  }
  CHECK_THAT(flat(laughs), Catch::EndsWith("too large"));
  // libyaml alone would take minutes for these.
  CHECK_THAT(flat("a: " + std::string(500'000, '[')), Catch::EndsWith("too deep"));
  std::string mappings = "a: ";
  for (int i = 0; i < 100'000; ++i) mappings += "{a: ";
  CHECK_THAT(flat(mappings), Catch::EndsWith("too deep"));
}

}  // namespace
}  // namespace rankshim
