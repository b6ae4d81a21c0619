#include "explain/explain.h"

#include <catch2/catch.hpp>

#include "explain/shell_quote.h"
#include "json/json.h"

namespace rankshim {
namespace {

TEST_CASE("a shell reads a quoted word back as it was") {
  CHECK(shell_quote("--nnodes=3") == "--nnodes=3");
  CHECK(shell_quote("") == "''");
  CHECK(shell_quote("a b") == "'a b'");
  CHECK(shell_quote("it's $HOME") == "'it'\\''s $HOME'");
}

TEST_CASE("JSON strings are valid whatever the bytes are") {
  CHECK(json::quote("a\"b\\c\n") == "\"a\\\"b\\\\c\\u000a\"");
  CHECK(json::quote("训练") == "\"训练\"");
  CHECK(json::quote("\xff\xc3") == "\"\\u00ff\\u00c3\"");
  CHECK(json::quote("\xed\xa0\x80") == "\"\\u00ed\\u00a0\\u0080\"");  // a surrogate is no UTF-8
  CHECK(json::list({"a", "b"}) == "[\"a\", \"b\"]");
}

TEST_CASE("faults have a form for programs") {
  CHECK(explain::as_json(Faults{{"X=1 is odd", {"X"}, "unset X"}}) ==
        "{\"errors\": [{\"what\": \"X=1 is odd\", \"names\": [\"X\"], \"fix\": \"unset X\"}]}\n");
}

TEST_CASE("the environment is written for a shell, a .env file and programs") {
  const EnvironmentChange change{{{"NNODES", "2"}, {"NOTE", "it's"}}, {"PET_STANDALONE"}};
  CHECK(explain::environment(change, "sh") ==
        "unset PET_STANDALONE\nexport NNODES=2\nexport NOTE='it'\\''s'\n");
  CHECK(explain::environment(change, "dotenv") == "NNODES=2\nNOTE=\"it's\"\n");
  CHECK(explain::environment(change, "json") ==
        "{\"set\": {\"NNODES\": \"2\", \"NOTE\": \"it's\"}, \"unset\": [\"PET_STANDALONE\"]}\n");
}

}  // namespace
}  // namespace rankshim
