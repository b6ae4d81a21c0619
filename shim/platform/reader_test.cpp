#include "platform/reader.h"

#include <catch2/catch.hpp>

using namespace rankshim;
using namespace rankshim::platform;

namespace {

constexpr const char* good = R"toml(# ten lines are enough
title = "Invented"
[[match]]
all = ["INVENTED_JOB", "!LOCAL_RANK"]
[facts]
nnodes = "${INVENTED_SIZE}"
node_rank = ["${INVENTED_RANK}", "ordinal(hostname())"]
[[idle_role]]
name = "parameter server"
when = ["INVENTED_ROLE=ps"]
)toml";

std::vector<std::string> faults_of(std::string document) {
  const auto outcome = read_profile("invented", std::move(document), "/etc/rankshim.d/invented.toml");
  std::vector<std::string> lines;
  if (const auto* faults = std::get_if<Faults>(&outcome))
    for (const Fault& fault : *faults) {
      CHECK(fault.names == std::vector<std::string>{"/etc/rankshim.d/invented.toml"});
      CHECK(fault.what.starts_with("/etc/rankshim.d/invented.toml:"));
      lines.push_back(fault.what.substr(sizeof("/etc/rankshim.d/invented.toml:") - 1));
    }
  return lines;
}

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("a profile is read from TOML, and stays readable when it is moved") {
  auto outcome = read_profile("invented", good, "invented.toml");
  REQUIRE(std::holds_alternative<OwnedProfile>(outcome));
  const OwnedProfile owned = std::move(std::get<OwnedProfile>(outcome));
  const Profile& profile = owned.profile();
  CHECK(profile.name() == "invented");
  CHECK(profile.title() == "Invented");
  CHECK(owned.document() == good);
  CHECK(profile.granularity == Granularity::node);
  CHECK_FALSE(profile.opt_in);
  CHECK(profile.fallback == 0);
  const Tables& tables = *profile.tables;
  REQUIRE(profile.match().size() == 1);
  const auto conditions = tables.conditions_of(profile.match()[0]);
  REQUIRE(conditions.size() == 2);
  CHECK(conditions[1].sign == Sign::not_set);
  CHECK(tables.text(tables.steps[conditions[1].root].index) == "LOCAL_RANK");
  REQUIRE(profile.places().size() == 3);
  CHECK(profile.places()[0].fact == Fact::nnodes);
  CHECK(tables.text(tables.steps[profile.places()[1].root].index) == "INVENTED_RANK");
  CHECK(tables.steps[profile.places()[2].root].function == Function::ordinal);
  REQUIRE(profile.roles().size() == 1);
  CHECK(tables.text(profile.roles()[0].name) == "parameter server");
  CHECK(tables.text(tables.conditions_of(profile.roles()[0].when)[0].glob) == "ps");
}

TEST_CASE("granularity, opt_in and fallback are read") {
  const auto outcome = read_profile("x", R"(title = "X"
granularity = "process"
opt_in = true
fallback = 2
[facts]
rank = "${X}"
)",
                                    "x.toml");
  REQUIRE(std::holds_alternative<OwnedProfile>(outcome));
  const Profile& profile = std::get<OwnedProfile>(outcome).profile();
  CHECK(profile.granularity == Granularity::process);
  CHECK(profile.opt_in);
  CHECK(profile.fallback == 2);
}

TEST_CASE("every mistake in a profile is named with its line") {
  CHECK(faults_of("title = \"X\"\n[facts\n").at(0).starts_with("2: "));
  CHECK(faults_of("").size() >= 1);
  CHECK(faults_of("title = \"X\"\n[[match]]\nall = [\"A\"]\n") == Lines{"1: there are no facts"});
  CHECK(faults_of("title = \"X\"\n[facts]\nnnodes = \"1\"\n") ==
        Lines{"1: nothing says how the platform is recognised"});
  CHECK(faults_of(R"(tittle = "X"
granularity = "rack"
opt_in = 1
fallback = 10
match = "A"
[facts]
nnode = "1"
nnodes = ["${A", 2]
[[idle_role]]
when = []
)") == Lines{"1: there is no key 'tittle' here", "1: 'title' is missing or empty",
             "2: 'granularity' is 'rack'", "3: 'opt_in' is not true or false", "4: 'fallback' is 10",
             "5: 'match' is not a list of tables, [[match]]", "9: 'name' is missing or empty",
             "9: 'when' is missing or empty", "7: there is no key 'nnode' here",
             "8: nnodes: '${A', character 4: '}' or ':-' is expected here",
             "8: nnodes: a place is a string"});
  CHECK(
      faults_of(
          "title = \"X\"\n[[match]]\nall = [\"A\",\n  \"B C\", 3]\nor = []\n[facts]\nnnodes = \"1\"\n") ==
      Lines{"5: there is no key 'or' here",
            "4: 'B C': a condition is a variable's name or a function call, with ! before it or =GLOB behind",
            "4: a condition is a string"});
  CHECK(faults_of("title = \"X\"\nmatch = [1]\n[facts]\nnnodes = \"1\"\n") ==
        Lines{"2: 'match' holds what is no table"});
}

TEST_CASE("hostile documents are faults, never a crash or endless work") {
  CHECK(faults_of(std::string(longest_document + 1, '#')) == Lines{"1: the profile is longer than 64 KiB"});
  std::string dotted = "a";
  for (int i = 0; i < 30'000; ++i) dotted += ".a";
  CHECK(faults_of("title = \"X\"\n" + dotted + " = 1\n") ==
        Lines{"2: there are more dots outside strings than a profile can need"});
  CHECK_FALSE(faults_of("x = '''\n" + std::string(1000, '.') + "'''\n" + dotted + " = 1").empty());
  CHECK(faults_of("x = " + std::string(30'000, '[')).size() == 1);
  CHECK(faults_of("x = " + std::string(30'000, '{')).size() == 1);
  CHECK(faults_of(std::string(1000, '\0')).size() == 1);
  CHECK(faults_of("\xff\xfe").size() == 1);
  std::string many = "title = \"X\"\n[facts]\n";
  for (int i = 0; i < 3000; ++i) many += "k" + std::to_string(i) + " = 1\n";
  CHECK(faults_of(many).size() == 50);
}

TEST_CASE("strings and comments may hold dots") {
  std::string document = "# " + std::string(2000, '.') + "\n" + good;
  document.replace(document.find("Invented\""), 9, std::string(2000, '.') + "\"");
  CHECK(faults_of(document).empty());
}
