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
  object.text("a\n", "b").texts("c", {"d", "e"}).flag("f", true).seconds("g", std::chrono::seconds(1));
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
TEST_CASE("an object as text has a line for each member and for each element of a list") {
  CHECK(as_lines(
            R"({"phase":"run","pid":7,"failed":false,"workers":[{"rank":4,"pid":9},{"rank":5,"pid":10}]})") ==
        "phase          run\n"
        "pid            7\n"
        "failed         false\n"
        "worker         rank 4, pid 9\n"
        "worker         rank 5, pid 10\n");
  CHECK(as_lines(R"({"phase":"\u001b[2J"})").find('\x1b') == std::string::npos);
  CHECK(as_lines("{}").empty());
  CHECK(as_lines("no JSON").empty());
}

}  // namespace rankshim::json

namespace json = rankshim::json;

TEST_CASE("a path leads to a field of a JSON document") {
  struct Row {
    std::string document, path, text;  // an empty text: nothing
  };
  const std::vector<Row> rows = {
      {R"({"current_host": "algo-2", "hosts": ["algo-1", "algo-2"]})", "hosts", "algo-1,algo-2"},
      {R"({"current_host": "algo-2", "hosts": ["algo-1", "algo-2"]})", "hosts.1", "algo-2"},
      {R"({"hosts": []})", "hosts", ""},
      {R"( { "a" : { "b" : [ 1 , {"c":true} ] } } )", "a.b.1.c", "true"},
      {R"({"a":{"b":[1,{"c":true}]}})", "a.b", R"([1,{"c":true}])"},
      {R"({"s":[{"d":[{"r":"0"},{"r":"1"}]},{"d":[{"r":"2"}]}]})", "s.*.d.*.r", "0,1,2"},
      {R"({"s":[{"h":"a"},{},{"h":null},{"h":"b"}]})", "s.*.h", "a,b"},
      {R"({"a":"x\"\\\/\t\u00e9\u4e2d"})", "a", "x\"\\/\t\xC3\xA9\xE4\xB8\xAD"},
      {R"({"a\u0062":-1.5e3})", "ab", "-1.5e3"},
      {R"({"a":null})", "a", ""},
      {R"({"a":""})", "a", ""},
      {R"({"a":1})", "b", ""},
      {R"({"a":1})", "a.b", ""},
      {R"(["x"])", "0", "x"},
      {R"("x")", "0", ""},
      {R"({"a":"\ud83d\ude80 \\ud83d \ud83dx\ude80"})", "a", "\xF0\x9F\x9A\x80 \\ud83d \uFFFDx\uFFFD"},
      {R"({"a":"\ud83d\ud83d\ude80\ud83d"})", "a", "\uFFFD\xF0\x9F\x9A\x80\uFFFD"},
      {"{\"a\":\"\xff\"}", "a", "\xff"},
      {R"({"a":12345678901234567890.10})", "a", "12345678901234567890.10"},
      {R"({"a":"\u12)", "a", ""},
      {R"({"a" 1})", "a", ""},
      {R"({"a":1,})", "a", ""},
      {R"({"a":[1 2]})", "a", ""},
      {"", "a", ""},
      {"{", "a", ""},
      {"not JSON", "a", ""},
  };
  for (const Row& row : rows) {
    INFO(row.document << " " << row.path);
    CHECK(json::field(row.document, row.path).value_or("") == row.text);
  }
}

TEST_CASE("a document is one as a whole or not at all") {
  CHECK(json::error(R"({"a":[1,"\ud83d"]})").empty());
  CHECK(json::error(R"({"a":1)") == "unexpected end of data at byte 6");
  for (const char* broken :
       {"", " ", "{", R"({"a":1)", R"({"a":1}})", R"({'a':1})", R"({"a":01})", R"({"a":"\u12"})"})
    CHECK_FALSE(json::error(broken).empty());
  CHECK_FALSE(json::field(R"({"a":1,"b":)", "a"));
}

TEST_CASE("deep documents cost no stack, and a path that is too long leads nowhere") {
  std::string deep(100'000, '[');
  deep.append("1").append(100'000, ']');
  CHECK(json::field("{\"a\":" + deep + "}", "a") == deep);
  std::string path = "0";
  for (int i = 0; i < 100; ++i) path += ".0";
  CHECK_FALSE(json::field("[[1]]", path));
}
