#include "node/environment.h"

#include <catch2/catch.hpp>

namespace rankshim::node {
namespace {

TEST_CASE("an empty variable is treated as not set but stays where it is") {
  const Environment environment({"A=1", "B=", "odd", "AB=2"});
  CHECK(environment.get("A") == "1");
  CHECK_FALSE(environment.get("B").has_value());
  CHECK(environment.has("B"));
  CHECK_FALSE(environment.has("odd"));
  CHECK(environment.entries().size() == 4);
}

TEST_CASE("setting replaces in place, and a name that occurred twice occurs once") {
  Environment environment({"A=1", "B=2", "A=3"});
  environment.set("A", "4");
  CHECK(environment.entries() == std::vector<std::string>{"A=4", "B=2"});
  environment.set("C", "5=6");
  CHECK(environment.entries() == std::vector<std::string>{"A=4", "B=2", "C=5=6"});
  CHECK(environment.get("C") == "5=6");
}

TEST_CASE("service links are recognised by their protocol") {
  CHECK(is_service_link("tcp://10.0.0.1:80"));
  CHECK(is_service_link("sctp://[fd00::1]:80"));
  CHECK_FALSE(is_service_link("23456"));
}

TEST_CASE("a variable that Kubernetes sets for a Service is known by its name") {
  for (const char* link :
       {"RANKSHIM_SERVICE_HOST", "RANKSHIM_WEB_SERVICE_PORT", "RANKSHIM_SERVICE_PORT_HTTP",
        "RANKSHIM_PORT_80_TCP", "RANKSHIM_WEB_PORT_80_UDP_ADDR", "RANKSHIM_PORT_80_SCTP_PROTO"})
    CHECK(is_service_link_name(link));
  for (const char* other : {"RANKSHIM_MASTER_PORT", "RANKSHIM_PORT_X_TCP", "RANKSHIM_PORT_80",
                            "RANKSHIM_PORT_80_TCPX", "RANKSHIM_PORT__TCP"})
    CHECK_FALSE(is_service_link_name(other));
}

TEST_CASE("a program is looked for in the folders of PATH, in their order") {
  using Names = std::vector<std::string>;
  CHECK(executable_candidates("x", "/a:/b") == Names{"/a/x", "/b/x"});
  CHECK(executable_candidates("x", ":/b:") == Names{"x", "/b/x", "x"});
  CHECK(executable_candidates("x", "") == Names{"x"});
  CHECK(executable_candidates("x", default_path) == Names{"/usr/local/bin/x", "/bin/x", "/usr/bin/x"});
  CHECK(executable_candidates("./x", "/a") == Names{"./x"});
  CHECK(executable_candidates("", "/a") == Names{""});
}

}  // namespace
}  // namespace rankshim::node
