#include "base/json.h"

#include <catch2/catch.hpp>

namespace rankshim::json {
namespace {

TEST_CASE("JSON strings are valid whatever the bytes are") {
  CHECK(quote("a\"b\\c\n\x01") == R"("a\"b\\c\n\u0001")");
  CHECK(quote("训练 \xF0\x9F\x9A\x80") == "\"训练 \xF0\x9F\x9A\x80\"");
  CHECK(quote("\xff\xc3") == "\"ÿÃ\"");
  CHECK(quote(std::string_view("\0", 1)) == R"("\u0000")");
}

TEST_CASE("an object is written member by member, with others inside") {
  std::vector<Object> list(1);
  list.front().number("n", -1);
  Object object;
  object.text("a\n", "b")
      .texts("c", {"d", "e"})
      .flag("f", true)
      .raw("g", number_of_seconds(std::chrono::seconds(1)));
  object.object("h", Object()).objects("i", list);
  CHECK(object.str() == R"({"a\n":"b","c":["d","e"],"f":true,"g":1.000,"h":{},"i":[{"n":-1}]})");
  CHECK(Object().number("a", 1).lines() == "{\n  \"a\": 1\n}\n");
}

TEST_CASE("an object of somebody else's becomes one line that a terminal can show") {
  CHECK(ascii_object("{\"a\" :\n[1.50, \"\x7f\xC2\x9B\\u001b\"]}") == R"({"a":[1.50,"\u007f\u009B\u001B"]})");
  for (const char* none : {"", "[]", "{}{}", "\x1b]0;title\x07{}", "{\"a\":\"\x1b\"}", "{\"a\":\"\xff\"}"})
    CHECK(ascii_object(none).empty());
}

}  // namespace
}  // namespace rankshim::json
