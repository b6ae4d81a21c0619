#include "platform/evaluation.h"

#include <catch2/catch.hpp>

#include "node/fake_host_for_test.h"

using namespace rankshim;
using platform::EvalContext;

TEST_CASE("the index finds what the environment finds") {
  std::vector<std::string> entries = {"A=1",   "EMPTY=", "A=2",    "no equals sign",
                                      "=C:=x", "E=a=b",  "LATER=", "LATER=set"};
  for (int i = 0; i < 1000; ++i)
    entries.push_back("SERVICE_" + std::to_string(i) + "_PORT=" + std::to_string(i));
  const node::FakeHost host(entries);
  const EvalContext variables(host);
  for (const char* name :
       {"A", "EMPTY", "E", "LATER", "NONE", "SERVICE_0_PORT", "SERVICE_999_PORT", "SERVICE_1000_PORT"}) {
    CAPTURE(name);
    CHECK(variables.get(name) == host.environment().get(name));
  }
  CHECK(variables.get("E") == "a=b");
  CHECK_FALSE(variables.get(""));
}

TEST_CASE("an index over nothing finds nothing") {
  const node::FakeHost host({});
  CHECK_FALSE(EvalContext(host).get("A"));
}
