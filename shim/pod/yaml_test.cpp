#include "pod/yaml.h"

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
      {"a: 1\n   b: 2\nc: 3\n", "a=1 b: 2;c=3;"},
      {"a:\n    b: 1\n  c: 2\n", "3: the indentation fits nothing above it"},
      {"a: &x 1\n",
       "1: only what kubectl get -o yaml writes can be read: no flow collections, anchors or tags"},
      {"", ""},
  };
  for (const Row& row : rows) {
    INFO(row.text);
    CHECK(flat(row.text) == row.expected);
  }
  std::string deep;
  for (int i = 0; i < 100; ++i) deep += std::string(static_cast<std::size_t>(i), ' ') + "k:\n";
  CHECK_THAT(flat(deep), Catch::EndsWith("too deep"));
}

}  // namespace
}  // namespace rankshim
