#include "base/json_field.h"

#include <catch2/catch.hpp>

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
