#include "platform/recognise.h"

#include <catch2/catch.hpp>

#include "base/text.h"
#include "node/fake_host_for_test.h"
#include "platform/evaluation.h"
#include "platform/profiles_for_test.h"

using namespace rankshim;
using namespace rankshim::platform;

using node::FakeHost;

TEST_CASE("conditions are fulfilled by what is there and what is not") {
  FakeHost host({"A=one", "EMPTY=", "N=4", "M=2"});
  host.name = "job-master-0";
  host.files = {{"/etc/x", "x"}};
  for (const char* fulfilled :
       {"A", "!EMPTY", "!NONE", "A=o*", "!A=x", "!NONE=x", "hostname()=*-master-0", "file(/etc/x)",
        "larger(${N}, ${M})", "!larger(${M}, ${N})", "only_if(hostname(), job-*)"}) {
    Profiles profiles;
    profiles.add("x", match("\"" + std::string(fulfilled) + "\""));
    CAPTURE(fulfilled);
    CHECK(recognised(profiles, host).id.name() == "x");
  }
  for (const char* not_fulfilled :
       {"EMPTY", "NONE", "!A", "A=x", "!A=o*", "NONE=*", "EMPTY=*", "hostname()=x", "file(/etc/y)"}) {
    Profiles profiles;
    profiles.add("x", match("\"" + std::string(not_fulfilled) + "\""));
    CAPTURE(not_fulfilled);
    CHECK(recognised(profiles, host).id.name() == "single-node");
  }
}

TEST_CASE("the most specific profile wins and the others are listed") {
  Profiles profiles;
  profiles.add("by-hand", match("\"A\", \"B\", \"C\", \"D\"") + "").add("one", match("\"A\""));
  profiles.add("two", match("\"A\", \"B\"")).add("absent", match("\"A\", \"!X\", \"!Y\", \"!Z\""));
  profiles.add("last", "kind = \"names\"\n" + match("\"A\", \"B\", \"C\""));
  profiles.add("early", "kind = \"flags\"\n" + match("\"A\""));
  profiles.add("asked", "opt_in = true\n" + match("\"A\", \"B\", \"C\""));
  const Platform platform = recognised(profiles, FakeHost({"A=1", "B=1", "C=1"}));
  CHECK(platform.id.name() == "two");
  CHECK(platform.also_matched == std::vector<std::string>{"absent", "one"});
}

TEST_CASE("any sign is enough, the more there are the surer, and what is in unless rules all ways out") {
  const auto profile = [](const std::string& signs, const std::string& more = "") {
    return "title = \"X\"\nsigns = [" + signs + "]\n" + more + "[facts]\nnnodes = \"1\"\n";
  };
  Profiles profiles;
  profiles.add("one", profile("\"A\", \"larger(${N}, 1)\""));
  profiles.add("two", profile("\"A\", \"B\"", "unless = [\"X\"]\n[[match]]\nall = [\"C\"]\n"));
  CHECK(recognised(profiles, FakeHost({"A=1", "B=1"})).id.name() == "two");
  const FakeHost both({"A=1", "B=1"});
  CHECK(joined(causes_of(*recognised(profiles, both).profile, both).shown) == "A=1, B=1");
  CHECK(recognised(profiles, FakeHost({"A=1", "N=2"})).id.name() == "one");
  CHECK(recognised(profiles, FakeHost({"N=2"})).id.name() == "one");
  CHECK(recognised(profiles, FakeHost({"N=1"})).id.name() == "single-node");
  CHECK(recognised(profiles, FakeHost({"C=1"})).id.name() == "two");
  CHECK(recognised(profiles, FakeHost({"C=1", "X=1"})).id.name() == "single-node");
  CHECK(recognised(profiles, FakeHost({"A=1", "B=1", "X=1"})).id.name() == "one");
}

TEST_CASE("two names of one number must agree, and their values are in the message") {
  Profiles profiles;
  profiles.add("a", "title = \"X\"\nsigns = [\"A\"]\n[facts]\nnode_rank = { same = [\"${A}\", \"${B}\"] }\n");
  CHECK(recognised(profiles, FakeHost({"A=1", "B=01"})).doubts.empty());
  CHECK(recognised(profiles, FakeHost({"A=1"})).facts.text(Fact::node_rank) == "1");
  const Platform platform = recognised(profiles, FakeHost({"A=1", "B=2"}));
  REQUIRE(platform.doubts.size() == 1);
  CHECK(platform.doubts[0].what == "A and B both say node_rank, and contradict each other (A=1, B=2)");
  CHECK(platform.doubts[0].names == std::vector<std::string>{"A", "B"});
}

TEST_CASE("generic names and a launcher's flags are read beside any platform but names themselves") {
  Profiles profiles;
  profiles.add("a", match("\"A\"", "nnodes = \"${A}\""));
  profiles.add("n", "kind = \"names\"\n" + match("\"N\"", "nnodes = \"${N}\""));
  profiles.add("f", "kind = \"flags\"\n" + match("\"F\"", "nnodes = \"${F}\""));
  const Platform platform = recognised(profiles, FakeHost({"A=2", "N=3", "F=2"}));
  CHECK(platform.id.name() == "a");
  CHECK(platform.names.text(Fact::nnodes) == "3");
  CHECK(platform.flags.text(Fact::nnodes) == "2");
  CHECK_FALSE(recognised(profiles, FakeHost({"N=3"})).names.has(Fact::nnodes));
  CHECK(recognised(profiles, FakeHost({"X=3"})).id.name() == "single-node");
}

TEST_CASE("what a profile supersedes is less specific, and so is granularity node beside process") {
  Profiles profiles;
  profiles.add("outer", match("\"A\", \"B\", \"C\"")).add("worker", "kind = \"launcher\"\n" + match("\"A\""));
  CHECK(recognised(profiles, FakeHost({"A=1", "B=1", "C=1"})).id.name() == "worker");
  profiles.add("above", "supersedes = [\"out*\", \"worker\"]\n" + match("\"A\""));
  CHECK(recognised(profiles, FakeHost({"A=1", "B=1", "C=1"})).id.name() == "above");
}

TEST_CASE("of several alternatives the most specific that is fulfilled counts") {
  Profiles profiles;
  profiles.add("a", match("\"A\", \"B\""));
  profiles.add("b",
               "title = \"X\"\n[[match]]\nall = [\"A\"]\n[[match]]\nall = [\"A\", \"B\", "
               "\"C\"]\n[facts]\nnnodes = \"1\"\n");
  CHECK(recognised(profiles, FakeHost({"A=1", "B=1"})).id.name() == "a");
  CHECK(recognised(profiles, FakeHost({"A=1", "B=1", "C=1"})).id.name() == "b");
}

TEST_CASE("a platform can be asked for by name, recognised or not") {
  Profiles profiles;
  profiles.add("slurm", "opt_in = true\nkind = \"launcher\"\n" + match("\"NONE\"", "rank = \"${R}\""));
  const FakeHost host({"R=3"});
  const Platform platform = recognised(profiles, host, "slurm");
  CHECK(platform.id.name() == "slurm");
  CHECK(platform.granularity == Granularity::process);
  CHECK(platform.facts.text(Fact::rank) == "3");
  CHECK(recognised(profiles, host).id.name() == "single-node");
  CHECK(recognised(profiles, host, "none").id.name() == "none");
  CHECK(recognised(profiles, host, "none").facts.text(Fact::rank).empty());
}

TEST_CASE("an unknown platform is a fault that names the nearest") {
  Profiles profiles;
  profiles.add("volcano", match("\"A\""));
  const auto outcome = recognise(profiles, "vulcano", FakeHost({}));
  REQUIRE(std::holds_alternative<Faults>(outcome));
  CHECK(to_line(std::get<Faults>(outcome).at(0)) ==
        "there is no platform vulcano, the nearest is volcano; choose one that `rankshim platforms` lists, "
        "with "
        "--platform [R6]");
  profiles.add("kubeflow-a", match("\"B\"")).add("kubeflow-b", match("\"C\""));
  const auto family = recognise(profiles, "kubeflow", FakeHost({}));
  CHECK_THAT(std::get<Faults>(family).at(0).what, Catch::EndsWith("kubeflow, only kubeflow-a, kubeflow-b"));
}

TEST_CASE("a role that does not train is named") {
  Profiles profiles;
  profiles.add("mpi",
               match("\"ROLE\"") + "[[idle_role]]\nname = \"MPI launcher\"\nwhen = [\"ROLE=launcher\"]\n");
  CHECK(recognised(profiles, FakeHost({"ROLE=launcher"})).idle->name == "MPI launcher");
  CHECK_FALSE(recognised(profiles, FakeHost({"ROLE=worker"})).idle);
}

TEST_CASE("a program that finds the master is known by its name, with or without a path") {
  Profiles profiles;
  profiles.add("a", "agents = [\"one\", \"dl*-run\"]\n" + match("\"A\""));
  const Platform platform = recognised(profiles, FakeHost({"A=1"}));
  REQUIRE(platform.profile != nullptr);
  CHECK(is_agent(*platform.profile, "dlrover-run"));
  CHECK(is_agent(*platform.profile, "/opt/bin/one"));
  CHECK_FALSE(is_agent(*platform.profile, "/opt/one/torchrun"));
  CHECK_FALSE(is_agent(*platform.profile, ""));
}

TEST_CASE("a profile is found by its name") {
  Profiles profiles;
  profiles.add("a", match("\"A\"")).add("b", match("\"B\""));
  REQUIRE(find(profiles, "b") != nullptr);
  CHECK(find(profiles, "b")->name == "b");
  CHECK(find(profiles, "c") == nullptr);
}
