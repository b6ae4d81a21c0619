#include "launchers/torchrun/error_file.h"

#include <catch2/catch.hpp>

#include "base/files.h"
#include "base/json.h"
#include "node/fake_node_for_test.h"

using namespace rankshim;

TEST_CASE("the beginning of a document is a document, wherever it is cut", "[attack]") {
  const std::string whole =
      R"({"a": "x\\\u00e4\ud83d\ude00y ä 😀", "b": {"c": [1, {"d": "e"}, "f"], "g": null}, "h": "i"})";
  REQUIRE(json::error(whole).empty());
  for (std::size_t size = 1; size <= whole.size(); ++size) {
    const std::string closed = closed_json(std::string_view(whole).substr(0, size));
    INFO(closed);
    CHECK(json::error(closed).empty());
  }
  CHECK(closed_json(R"({"a": "b")") == R"({"a": "b"})");
  CHECK(closed_json(R"({"a": {"b": "c\)") == R"({"a": {"b": "c"}})");
  CHECK(closed_json(R"({"a": [1,)") == R"({"a": [1]})");
}

TEST_CASE("the beginning of an error file that is too large is reported", "[attack]") {
  FakeNode node({});
  node.files["/error.json"] = R"({"message": {"message": "ValueError: )" +
                              std::string(2 * largest_file, 'x') +
                              R"(", "extraInfo": {"py_callstack": "Traceback"}}})";
  node.files["/error.json"].resize(largest_file + 1);  // as read_file() does
  CHECK(read_error_file(node, "/error.json").message.starts_with("ValueError: xxx"));
  node.files["/early.json"] =
      R"({"message": {"extraInfo": {"py_callstack": "Traceback"}, "message": "ValueE)";
  const PythonError early = read_error_file(node, "/early.json");
  CHECK(early.message == "ValueE");
  CHECK(early.traceback == "Traceback");
}
