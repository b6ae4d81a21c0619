#include "platform/evaluation.h"

#include <catch2/catch.hpp>

#include "base/files.h"
#include "node/fake_host_for_test.h"
#include "platform/profiles_for_test.h"
#include "platform/recognise.h"

using namespace rankshim;
using namespace rankshim::platform;

using node::FakeHost;

namespace {

/// VALUE (SOURCE) of an expression on a node.
std::string found(const std::string& expression, const node::Host& host,
                  std::vector<std::string>* warnings = nullptr) {
  Profiles profiles;
  profiles.add("x", match("\"X\"", "nnodes = '" + expression + "'"));
  EvalContext context(host);
  const auto value = Evaluation(std::span<const Profile>(profiles)[0], context).facts()[Fact::nnodes];
  if (warnings != nullptr) *warnings = context.warnings;
  return value ? value->text + " (" + value->source() + ")" : "(nothing)";
}

}  // namespace

TEST_CASE("a file that is too large to be read whole is refused, for a list that is cut counts too few",
          "[attack]") {
  Profiles profiles;
  profiles.add("x", match("\"X\"", "nnodes = 'count(file(/hosts))'"));
  FakeHost host({"X=1"});
  host.files["/hosts"] = std::string(largest_file + 1, 'h');
  const auto outcome = recognise(profiles, "auto", host);
  REQUIRE(std::holds_alternative<Faults>(outcome));
  CHECK_THAT(std::get<Faults>(outcome).front().what, Catch::Contains("/hosts is larger than 1 MiB"));
}

TEST_CASE("an expression's value carries its source") {
  FakeHost host(
      {"A=one", "B=two", "EMPTY=", "LIST=h1,h2", "ROLE=WORKER", "VC_WORKER_HOSTS=w0,w1", "DIR=/data"});
  host.name = "job-worker-3";
  host.files = {{"/etc/hosts.list", "\n h7\nh8 \n"}, {"/data/rank", "5"}, {"/empty", " \n"}};
  CHECK(found("${A}", host) == "one (env A)");
  CHECK(found("${EMPTY}", host) == "(nothing)");
  CHECK(found("${EMPTY:-${B}}", host) == "two (env B)");
  CHECK(found("${NONE:-7}", host) == "7 (default)");
  CHECK(found("7", host) == "7 (default)");
  CHECK(found("${A}-${B}.${A}", host) == "one-two.one (derived from A, B)");
  CHECK(found("${A}-${NONE}", host) == "(nothing)");
  CHECK(found("${A}-${NONE:-0}", host) == "one-0 (derived from A)");
  CHECK(found("first_host(${LIST})", host) == "h1 (derived from LIST)");
  CHECK(found("first_host(${NONE})", host) == "(nothing)");
  CHECK(found("hostname()", host) == "job-worker-3 (hostname)");
  CHECK(found("only_if(hostname(), *-worker-*)", host) == "job-worker-3 (hostname)");
  CHECK(found("only_if(hostname(), *-master-*)", host) == "(nothing)");
  CHECK(found("ordinal(hostname())", host) == "3 (derived from hostname)");
  CHECK(found("file(/etc/hosts.list)", host) == "h7\nh8 (file /etc/hosts.list)");
  CHECK(found("first_host(file(/etc/hosts.list))", host) == "h7 (derived from /etc/hosts.list)");
  CHECK(found("file(${DIR}/rank)", host) == "5 (file /data/rank)");
  CHECK(found("file(/empty)", host) == "(nothing)");
  CHECK(found("file(etc/hosts.list)", host) == "(nothing)");
  CHECK(found("file(/none)", host) == "(nothing)");
  CHECK(found("variable(VC_${ROLE}_HOSTS)", host) == "w0,w1 (env VC_WORKER_HOSTS)");
  CHECK(found("only_if(${ROLE}, WORK*, ${A})", host) == "one (env A)");
  CHECK(found("only_if(${ROLE}, MASTER, ${A})", host) == "(nothing)");
  CHECK(found("only_if(${ROLE}, WORKER, 0)", host) == "0 (derived from ROLE)");
  CHECK(found("positive(${N})", FakeHost({"N=8"})) == "8 (env N)");
  CHECK(found("positive(${N})", FakeHost({"N=0"})) == "(nothing)");
  CHECK(found("positive(${N})", FakeHost({"N=all"})) == "(nothing)");
  CHECK(found("only_variable(VC_*_HOSTS)", host) == "w0,w1 (env VC_WORKER_HOSTS)");
  CHECK(found("only_variable(*)", host) == "(nothing)");
  CHECK(found("only_variable(X*)", host) == "(nothing)");
  CHECK(found("address()", host) == "10.9.9.9 (derived from this node's own address)");
  CHECK(found("join(${A}, before(hostname(), -worker-))", host) == "onejob (derived from A, hostname)");
}

TEST_CASE("the domain is what follows the host's name in /etc/hosts") {
  FakeHost host({});
  host.name = "job-1";
  CHECK(found("domain()", host) == "(nothing)");
  host.files = {{"/etc/hosts",
                 "127.0.0.1\tlocalhost\n# 10.0.0.9 job-1.no\n10.0.0.2 old-job-1.no job-10.no\n"
                 "10.0.0.1\tjob-1.svc.default.svc.cluster.local\tjob-1\n"}};
  CHECK(found("domain()", host) == "svc.default.svc.cluster.local (file /etc/hosts)");
  host.files = {{"/etc/hosts", "10.0.0.1 job-1"}};
  CHECK(found("domain()", host) == "(nothing)");
}

TEST_CASE("a Kubernetes service link is treated as not set, and is warned of once") {
  const FakeHost host({"MASTER_PORT=tcp://10.0.0.1:80"});
  std::vector<std::string> warnings;
  CHECK(found("${MASTER_PORT:-${MASTER_PORT:-1}}", host, &warnings) == "1 (default)");
  CHECK(warnings == std::vector<std::string>{
                        "MASTER_PORT=tcp://10.0.0.1:80 is a Kubernetes service link and is ignored"});
  Profiles profiles;
  profiles.add("x", match("\"MASTER_PORT\""));
  CHECK(recognised(profiles, host).id.name() == "single-node");
}

TEST_CASE("a value that a profile puts together has a bound") {
  std::string text;
  for (int i = 0; i < 20; ++i) text += "${A}";
  CHECK(found(text, FakeHost({"A=" + std::string(100'000, 'x')})) == "(nothing)");
}
