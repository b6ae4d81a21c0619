#include "platform/profile.h"

#include <catch2/catch.hpp>

#include "base/toml.h"

using namespace rankshim;
using namespace rankshim::platform;

namespace {

constexpr const char* good = R"toml(# ten lines are enough
title = "Invented"
signs = ["INVENTED_JOB", "INVENTED_SIZE"]
unless = ["LOCAL_RANK"]
[let]
table = "file(${TABLE:-/etc/table.json})"
first = ["field($table, hosts.0)", "first_host(${INVENTED_HOSTS})"]
[[match]]
all = ["INVENTED_NAME=a-*", "!INVENTED_ALONE"]
[facts]
nnodes = { same = ["${INVENTED_SIZE}", "count(field($table, hosts))"] }
node_rank = ["${INVENTED_RANK}", "ordinal(hostname())"]
master_addr = "$first"
[[idle_role]]
name = "parameter server"
when = ["INVENTED_ROLE=ps"]
)toml";

std::vector<std::string> faults_of(std::string document) {
  Arena arena;
  const auto outcome = read_profile("invented", std::move(document), "/etc/rankshim.d/invented.toml", arena);
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
  Arena read_into;
  const auto outcome = read_profile("invented", good, "invented.toml", read_into);
  REQUIRE(std::holds_alternative<Profile>(outcome));
  const Arena store = std::move(read_into);
  const Profile& profile = std::get<Profile>(outcome);
  CHECK(profile.name == "invented");
  CHECK(profile.title == "Invented");
  CHECK(profile.document == good);
  CHECK(profile.kind == ProfileKind::platform);
  CHECK(profile.granularity() == Granularity::node);
  CHECK_FALSE(profile.opt_in);
  REQUIRE(profile.signs.size() == 2);
  CHECK(profile.signs[1].text == "INVENTED_SIZE");
  REQUIRE(profile.unless.size() == 1);
  CHECK(profile.unless[0].text == "LOCAL_RANK");
  REQUIRE(profile.match.size() == 1);
  CHECK(profile.match[0].any.empty());
  const auto conditions = profile.match[0].all;
  REQUIRE(conditions.size() == 2);
  CHECK(conditions[1].is_negative());
  CHECK(conditions[1].children[0].text == "INVENTED_ALONE");
  REQUIRE(profile.facts.size() == 3);
  CHECK(profile.facts[0].fact == Fact::nnodes);
  CHECK(profile.facts[0].expression.children.size() == 2);
  CHECK(profile.facts[1].expression.children[0].text == "INVENTED_RANK");
  CHECK(profile.facts[1].expression.children[1].function == function_named("ordinal"));
  CHECK(profile.facts[2].expression.function == Function::either);
  REQUIRE(profile.refusals.size() == 1);
  CHECK(profile.refusals[0].name == "INVENTED_SIZE and TABLE both say nnodes, and contradict each other");
  REQUIRE(profile.idle_roles.size() == 1);
  CHECK(profile.idle_roles[0].name == "parameter server");
  CHECK(profile.idle_roles[0].when.all[0].children[1].text == "ps");
}

TEST_CASE("kind and opt_in are read") {
  Arena arena;
  const auto outcome = read_profile("x", R"(title = "X"
kind = "launcher"
opt_in = true
[facts]
rank = "${X}"
)",
                                    "x.toml", arena);
  REQUIRE(std::holds_alternative<Profile>(outcome));
  const Profile& profile = std::get<Profile>(outcome);
  CHECK(profile.kind == ProfileKind::launcher);
  CHECK(profile.granularity() == Granularity::process);
  CHECK(profile.opt_in);
}

TEST_CASE("every mistake in a profile is named with its line") {
  CHECK(faults_of("title = \"X\"\n[facts\n").at(0).starts_with("2: "));
  CHECK(faults_of("") == Lines{"1: 'title' is missing or empty"});
  CHECK(faults_of("title = \"X\"\n[[match]]\nall = [\"A\"]\n") == Lines{"1: there are no facts"});
  CHECK(faults_of("title = \"X\"\n[facts]\nnnodes = \"1\"\n") ==
        Lines{"1: there is nothing to recognise the platform by"});
  CHECK(faults_of(R"(tittle = "X"
kind = "rack"
opt_in = 1
match = "A"
[facts]
nnode = "1"
nnodes = ["${A", 2]
[[idle_role]]
when = []
)") == Lines{"1: there is no key 'tittle' here, the nearest is title", "1: 'title' is missing or empty",
             "2: there is no kind 'rack'", "3: 'opt_in' is not true or false",
             "4: 'match' is not a list of tables, [[match]]",
             "6: there is no key 'nnode' here, the nearest is nnodes",
             "7: nnodes: '${A', character 4: '}' or ':-' is expected here", "7: nnodes: this is not a string",
             "8: 'name' is missing or empty", "8: 'when' is missing or empty"});
  CHECK(
      faults_of(
          "title = \"X\"\n[[match]]\nall = [\"A\",\n  \"B C\", 3]\nor = []\n[facts]\nnnodes = \"1\"\n") ==
      Lines{"5: there is no key 'or' here",
            "4: 'B C', character 2: a condition is a variable's name without ${}, a function call or a $LET, "
            "with ! before it or =GLOB after it, and without blanks between them",
            "4: this is not a string"});
  CHECK(faults_of("title = \"X\"\nmatch = [1]\n[facts]\nnnodes = \"1\"\n") ==
        Lines{"2: 'match' has an entry that is not a table"});
}

TEST_CASE("what was surely meant otherwise is refused") {
  const auto with = [](const std::string& head, const std::string& facts = "nnodes = \"${A}\"\n") {
    return faults_of("title = \"X\"\n" + head + "[facts]\n" + facts);
  };
  CHECK(with("signs = [\"A\"]\n").empty());
  CHECK(with("signs = [\"A\", \"!B\"]\n") == Lines{"2: a sign is a condition that something is set"});
  CHECK(with("signs = [\"A=${B}\"]\n") == Lines{"2: 'A=${B}', character 3: a glob cannot contain variables; "
                                                "differ(A, B) and only_if(A, GLOB, RESULT) compare "
                                                "expressions"});
  CHECK(with("signs = [\"A\"]\n", "nnodes = \"A_SIZE\"\n") ==
        Lines{"4: nnodes: this is text, not the value of a variable"});
  CHECK(with("signs = [\"A\"]\n", "master_addr = \"A_ADDR\"\n") ==
        Lines{"4: master_addr: this is text, not the value of a variable"});
  CHECK(with("signs = [\"A\"]\n", "nproc_per_node = \"gpu\"\nmaster_addr = \"localhost\"\n").empty());
  CHECK(with("signs = [\"A\"]\n", "node_rank = \"ordinal(hostname)\"\n") ==
        Lines{"4: node_rank: 'ordinal(hostname)', character 18: 'hostname' is text, not the value of a "
              "variable: write ${NAME}, or name() for a function"});
  CHECK(with("signs = [\"A\"]\n", "master_addr = \"first_host(A_HOSTS)\"\n").size() == 1);
  for (const char* reasonable :
       {"node_rank = \"position(hostname(), node-a node-b node-c)\"", "master_addr = \"hosts(head-0, ${A})\"",
        "node_rank = \"position(hostname(), slurm_hosts(n[1-8]))\"",
        "nproc_per_node = \"entry(0 4 8, ${A})\"", "run_id = \"PROD\"",
        "run_id = \"only_if(${A}, MS_SCHED, yes)\"", "run_id = \"variable(A_${B})\""}) {
    CAPTURE(reasonable);
    CHECK(with("signs = [\"A\"]\n", std::string(reasonable) + "\n").empty());
  }
  CHECK(with("signs = [\"A\"]\n", "nnodes = \"entry(${A}, one)\"\n") ==
        Lines{"4: nnodes: 'entry(${A}, one)', character 17: 'one' is not a number"});
  CHECK(with("signs = [\"A\"]\n", "rank = \"${A}\"\n") ==
        Lines{"4: rank is a fact of a process, and a platform has none"});
  CHECK(with("signs = [\"A\"]\n", "nnodes = [\"1\", \"${A}\"]\n") ==
        Lines{"4: nnodes: the expression before this one always yields something"});
  CHECK(with("signs = [\"A\"]\n", "nnodes = { same = [\"${A}\"] }\n") ==
        Lines{"4: nnodes: 'same' has fewer than two expressions"});
  CHECK(with("signs = [\"A\"]\n[let]\na = \"$b\"\nb = \"${B}\"\n")
            .at(0)
            .starts_with("4: a: '$b', character 2: there is no 'b' in [let] above this"));
  Arena arena;
  const auto outcome =
      read_profile("x", "title = \"X\"\nsigns = [\"A\"]\n[facts]\nnode_rnk = \"1\"\n", "x", arena);
  CHECK_THAT(std::get<Faults>(outcome).at(0).what,
             Catch::EndsWith("there is no key 'node_rnk' here, the nearest is node_rank"));
  const auto unknown =
      read_profile("x", "title = \"X\"\nsigns = [\"A\"]\n[facts]\nnnodes = \"frist(${A})\"\n", "x", arena);
  CHECK(to_line(std::get<Faults>(unknown).at(0)) ==
        "x:4: nnodes: 'frist(${A})', character 1: there is no function 'frist', the nearest is first_host; "
        "correct it [R5]");
}

TEST_CASE("hostile documents are faults, never a crash or endless work") {
  CHECK(faults_of(std::string(TomlDocument::longest + 1, '#')) == Lines{"1: the file is longer than 64 KiB"});
  std::string dotted = "a";
  for (int i = 0; i < 30'000; ++i) dotted += ".a";
  CHECK(faults_of("title = \"X\"\n" + dotted + " = 1\n") ==
        Lines{"2: there are too many dots outside strings"});
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
