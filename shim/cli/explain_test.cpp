#include "cli/subcommands.h"

#include <catch2/catch.hpp>

#include "base/json.h"
#include "base/text.h"
#include "platform/profile.h"

namespace rankshim::cli {
namespace {

TEST_CASE("a shell reads a quoted word back as it was") {
  CHECK(shell_quote("--nnodes=3") == "--nnodes=3");
  CHECK(shell_quote("") == "''");
  CHECK(shell_quote("a b") == "'a b'");
  CHECK(shell_quote("it's $HOME") == "'it'\\''s $HOME'");
}

TEST_CASE("faults have a form for programs") {
  const std::string json = explain::as_json(Faults{{ErrorCode::value, "X=1 is odd", {"X"}, "unset X"}});
  CHECK(json::field(json, "errors").value_or("") ==
        R"([{"code":"R2","what":"X=1 is odd","names":["X"],"fix":"unset X"}])");
}

TEST_CASE("a user's own profile cannot control the terminal that lists or shows it", "[attack]") {
  const std::string document =
      "title = \"A\\u001b]0;t\\u0007\\nB\" # \xC2\x9B\r\nsigns = [\"A\"]\n[facts]\nnnodes = \"${A}\"";
  platform::Arena arena;
  const auto read = platform::read_profile("own\x1b[2J", document, "own.toml", arena);
  REQUIRE(std::holds_alternative<platform::Profile>(read));
  const platform::Profile profile = std::get<platform::Profile>(read);
  CHECK(explain::profile_list({&profile, 1}) == "own\\x1b[2J  A\\x1b]0;t\\x07\\nB\n");
  CHECK(explain::safe_lines(document) ==
        "title = \"A\\u001b]0;t\\u0007\\nB\" # \\xc2\\x9b\nsigns = [\"A\"]\n[facts]\nnnodes = \"${A}\"\n");
  topology::Topology topology;
  topology.platform = platform::PlatformId("own\x1b[2J");
  topology.also_matched = {"other\x9b"};
  CHECK_THAT(explain::as_text({topology, {}}, {}, {}),
             Catch::StartsWith("platform     own\\x1b[2J\ngranularity  node\nalso matched other\\x9b\n"));
}

TEST_CASE("explain shows no secret in values, arguments and texts", "[attack]") {
  report::Redactor redactor(node::Environment({"ETCD_PASSWORD=swordfish"}));
  launchers::Job job;
  auto& [topology, choice] = job;
  topology.facts[Fact::rdzv_endpoint] = Value{"http://me:hunter22@etcd:2379", Origin::option, "--x"};
  topology.facts[Fact::run_id] = Value{"job-swordfish", Origin::option, "--x"};
  launchers::LaunchPlan plan;
  plan.argv = {"python3", "--rdzv_conf=password=swordfish", "train.py", "--hf-token=hf_1234567"};
  plan.environment.set = {{"RDZV_ID", "job-swordfish"}};
  choice.missing = "the script swordfish.py cannot be read";
  explain::redact(job, plan, redactor);
  CHECK(topology.facts.text(Fact::rdzv_endpoint) == "http://me:[redacted]@etcd:2379");
  CHECK(topology.facts.text(Fact::run_id) == "job-[redacted]");
  CHECK(plan.argv == std::vector<std::string>{"python3", "--rdzv_conf=password=[redacted]", "train.py",
                                              "--hf-token=[redacted]"});
  CHECK(plan.environment.set[0].second == "job-[redacted]");
  CHECK(choice.missing == "the script [redacted].py cannot be read");
}

TEST_CASE("explain's text has one line for each value, whatever the value holds", "[attack]") {
  topology::Topology topology;
  topology.facts[Fact::run_id] = Value{"a\nnnodes 1\x1b[2J", Origin::option, "--x"};
  launchers::LaunchPlan plan;
  plan.argv = {"python3", "x\ry"};
  plan.environment.set = {{"A", "1\n2"}};
  plan.environment.unset = {"B\nC"};
  const std::string text = explain::as_text({topology, {}}, plan, settings::Settings{});
  CHECK(text.find_first_of("\r\x1b") == std::string::npos);
  for (const char* line : {"  a\\nnnodes 1\\x1b[2J  option --x\n", "  set    A  '1\\n2'\n",
                           "  unset  B\\nC\n", "  python3 'x\\ry'\n"})
    CHECK(text.find(line) != std::string::npos);
}

TEST_CASE("the environment is written for a shell, a .env file and programs", "[attack]") {
  const plan::EnvironmentChange change{{{"NNODES", "2"}, {"NOTE", "a $(b)"}}, {"PET_STANDALONE"}};
  CHECK(explain::environment_for_shell(change) ==
        "unset PET_STANDALONE\nexport NNODES=2\nexport NOTE='a $(b)'\n");
  CHECK(std::get<std::string>(explain::environment_file(change)) == "NNODES=2\nNOTE='a $(b)'\n");
  const plan::EnvironmentChange hostile{{{"A B", "x"}, {"1A", "x"}, {"", "x'"}, {"_a1", "x"}},
                                        {"PET_X $(touch pwned)", "PET_Y"}};
  CHECK(explain::environment_for_shell(hostile) == "unset PET_Y\nexport _a1=x\n");
  CHECK(std::get<std::string>(explain::environment_file(hostile)) == "_a1=x\n");
  const std::string json = explain::environment_as_json(change);
  CHECK(json::field(json, "set").value_or("") == R"_({"NNODES":"2","NOTE":"a $(b)"})_");
  CHECK(json::field(json, "unset") == "PET_STANDALONE");
}

TEST_CASE("a .env file has each value in a form that every reader reads back, or it is refused", "[attack]") {
  for (const std::string value : {"a $(touch x)", "`x`", "\"", "$HOME", "a#b", "a\\b", "a;b", "!a"}) {
    INFO(value);
    const auto file = explain::environment_file({{{"A", value}}, {}});
    REQUIRE(std::holds_alternative<std::string>(file));
    CHECK(std::get<std::string>(file) == "A='" + value + "'\n");
  }
  struct Row {
    std::string value;
    std::string what;
  };
  for (const auto& [value, what] : {Row{"it's", "a single quote"}, Row{"a\nLD_PRELOAD=x", "a line end"},
                                    Row{"a\r", "a carriage return"}, Row{"a\\", "a backslash at its end"},
                                    Row{"a\\\\b", "two backslashes"}, Row{"${B}", "has ${, which"}}) {
    INFO(value);
    const auto file = explain::environment_file({{{"B", "1"}, {"A", value}}, {}});
    REQUIRE(std::holds_alternative<Faults>(file));
    CHECK(std::get<Faults>(file).size() == 1);
    CHECK(std::get<Faults>(file)[0].names == std::vector<std::string>{"A"});
    CHECK_THAT(std::get<Faults>(file)[0].what, Catch::Contains(what));
    CHECK(std::get<Faults>(file)[0].fix == "change the value, or use --format sh or json");
  }
}

}  // namespace
}  // namespace rankshim::cli
