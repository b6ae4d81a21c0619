#include "launchers/native/placeholders.h"

#include <catch2/catch.hpp>

using rankshim::native::filled_in;
using rankshim::native::Placeholders;

namespace {

const Placeholders values = {{"rank", "9"}, {"local_rank", "1"}, {"world_size", "16"}};

}  // namespace

TEST_CASE("a name in braces becomes its value, anywhere in the word", "[native]") {
  CHECK(filled_in("{rank}", values) == "9");
  CHECK(filled_in("--shard={rank}/{world_size}", values) == "--shard=9/16");
  CHECK(filled_in("out-{local_rank}{local_rank}.log", values) == "out-11.log");
  CHECK(filled_in("plain", values) == "plain");
  CHECK(filled_in("", values).empty());
}

TEST_CASE("a name in double braces is the text itself", "[native]") {
  CHECK(filled_in("{{rank}}", values) == "{rank}");
  CHECK(filled_in("{{rank}}={rank}", values) == "{rank}=9");
}

TEST_CASE("everything else in braces stays as it is", "[native]") {
  for (const char* const text : {"{", "}", "{{", "}}", "{}", "{{}}", "{Rank}", "{ rank }", "{other}",
                                 "{{other}}", "{rank", "rank}", R"({"a":{"b":[1,{"rank":2}]}})",
                                 R"({{"a": 1}})", "{{ template }}", "{rank:03}", "a{2,3}", "{{ rank }}"}) {
    CHECK(filled_in(text, values) == text);
  }
  CHECK(filled_in(R"({"device":"{local_rank}","x":{"y":1}})", values) == R"({"device":"1","x":{"y":1}})");
  CHECK(filled_in("{{{rank}}}", values) == "{{rank}}");
}

TEST_CASE("what follows a dollar is the shell's, but for torchrun's own macro", "[native]") {
  CHECK(filled_in("echo ${rank} $RANK", values) == "echo ${rank} $RANK");
  CHECK(filled_in("--local-rank=${local_rank}", values) == "--local-rank=1");
}
