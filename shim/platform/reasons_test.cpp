#include "platform/evaluation.h"

#include <catch2/catch.hpp>

#include "base/text.h"
#include "node/fake_host_for_test.h"
#include "platform/profiles_for_test.h"
#include "platform/recognise.h"

using namespace rankshim;
using namespace rankshim::platform;

using node::FakeHost;

namespace {

/// Why an expression yields nothing: "unset A; absent /f; A=x does not name a host: correct A, or ".
std::string lack(const std::string& expression, const node::Host& host) {
  Profiles profiles;
  profiles.add("x", match("\"X\"", "nnodes = '" + expression + "'"));
  const Lack lack = lack_of(std::span<const Profile>(profiles)[0], Fact::nnodes, host);
  std::vector<std::string> parts;
  if (!lack.unset.empty()) parts.push_back("unset " + joined(lack.unset));
  if (!lack.absent.empty()) parts.push_back("absent " + joined(lack.absent));
  if (!lack.unusable.empty()) parts.push_back(joined(lack.unusable) + ": " + lack.remedy);
  return joined(parts, "; ");
}

/// By what a node is recognised where the condition holds.
std::string causes(const std::string& condition, const node::Host& host) {
  Profiles profiles;
  profiles.add("x", match('"' + condition + '"'));
  return joined(causes_of(*recognised(profiles, host).profile, host).shown);
}

}  // namespace

TEST_CASE("what an expression lacks is named with its value, and what to do about it") {
  FakeHost host({"LIST=,", "SLURM=n[", "HOST=c", "HOSTS=a,b", "N=3", "EMPTY=", "LINK=tcp://10.0.0.1:80",
                 "TABLE={}", "DIR=conf", "PATH_TO=/absent"});
  host.files["/empty"] = " \n";
  struct Case {
    std::string expression;
    std::string lack;
  };
  const auto cases = std::to_array<Case>({
      {"${A}", "unset A"},
      {"${EMPTY}", "EMPTY is empty: correct EMPTY, or "},
      {"${LINK}", "LINK=tcp://10.0.0.1:80 is a Kubernetes service link: correct LINK, or "},
      {"${A}:${B}", "unset A, B"},
      {"${A}:${N}", "unset A"},
      {"count(${A})", "unset A"},
      {"count(${LIST})", "LIST=, lists nothing: correct LIST, or "},
      {"first_host(${LIST})", "LIST=, does not name a host: correct LIST, or "},
      {"slurm_hosts(${SLURM})", "SLURM='n[' is not a Slurm host list: correct SLURM, or "},
      {"position(${HOST}, ${HOSTS})", "HOST=c is not in HOSTS=a,b: correct HOST, or "},
      {"entry(${HOSTS}, 2)", "HOSTS=a,b has no entry 2: correct HOSTS, or "},
      {"field(${TABLE}, a.b)", "TABLE='{}' has no a.b in it: correct TABLE, or "},
      {"divide(${N}, 2)", "N=3 is not a multiple of 2: correct N, or "},
      {"ordinal(${HOST})", "HOST=c does not end in a number: correct HOST, or "},
      {"port(${HOST})", "HOST=c has no port: correct HOST, or "},
      {"after(${HOST}, -)", "HOST=c has no '-' in it: correct HOST, or "},
      {"ordinal(hostname())", "this node's name fake-host does not end in a number: "},
      {"file(/absent)", "absent /absent"},
      {"file(/empty)", "absent /empty"},
      {"file(${PATH_TO})", "PATH_TO=/absent cannot be read here: mount /absent, or "},
      {"file(${DIR})", "DIR=conf is not an absolute path: correct DIR, or "},
      {"variable(${HOST}_SIZE)", "unset c_SIZE"},
      // A gate, or another expression's case: nothing to correct.
      {"larger(${N}, 4)", ""},
      {"only_if(${HOST}, d, ${A})", ""},
      {"only_if(${HOST}, c, ${A})", "unset A"},
      {"unless(${N}, ${A})", ""},
      {"unless(${B}, ${A})", "unset A"},
  });
  for (const Case& one : cases) {
    INFO(one.expression);
    CHECK(lack(one.expression, host) == one.lack);
  }
}

TEST_CASE("a long value is shown by its beginning") {
  const FakeHost host({"LIST=" + std::string(100, ',')});
  CHECK(lack("count(${LIST})", host) ==
        "LIST=" + std::string(80, ',') + "… lists nothing: correct LIST, or ");
}

TEST_CASE("a condition holds because of variables, files and this node's name") {
  FakeHost host({"A=1", "B_1=x", "B_2=y"});
  host.name = "job-worker-0";
  host.files["/etc/there"] = "1";
  CHECK(causes("A", host) == "A=1");
  CHECK(causes("variables(B_*)", host) == "B_1=x, B_2=y");
  CHECK(causes("file(/etc/there)", host) == "/etc/there");
  CHECK(causes("hostname()=*-worker-*", host) == "this node's name is job-worker-0");
}
