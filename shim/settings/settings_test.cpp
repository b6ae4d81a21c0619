#include "settings/settings.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>

#include "base/fault.h"
#include "base/files.h"
#include "base/toml.h"
#include "node/fake_host_for_test.h"

namespace rankshim::settings {
namespace {

using node::FakeHost;

std::variant<Invocation, Rejected> read(const std::vector<std::string>& arguments,
                                        std::vector<std::string> variables = {},
                                        const std::string& config = "") {
  FakeHost host(std::move(variables));
  if (!config.empty()) host.files["/etc/rankshim.toml"] = config;
  return read_settings(arguments, host);
}

Invocation accepted(const std::variant<Invocation, Rejected>& result) {
  if (const auto* rejected = std::get_if<Rejected>(&result)) FAIL(to_line(rejected->faults.front()));
  return std::get<Invocation>(result);
}

Rejected refused(const std::variant<Invocation, Rejected>& result) {
  REQUIRE(std::holds_alternative<Rejected>(result));
  return std::get<Rejected>(result);
}

TEST_CASE("the command line wins over the variable, the variable over the file, the file over the default") {
  const std::string file = "wait-timeout = 30\nwait = \"dns\"\nlog-level = \"debug\"";
  const auto result =
      accepted(read({"--wait-timeout=10s", "x"}, {"RANKSHIM_WAIT_TIMEOUT=20s", "RANKSHIM_WAIT=port"}, file));
  CHECK(result.settings.text(Option::wait_timeout) == "10s");
  CHECK(result.settings[Option::wait_timeout]->source() == "option --wait-timeout");
  CHECK(result.settings.text(Option::wait) == "port");
  CHECK(result.settings[Option::wait]->source() == "env RANKSHIM_WAIT");
  CHECK(result.settings.text(Option::log_level) == "debug");
  CHECK(result.settings[Option::log_level]->source() == "config /etc/rankshim.toml:log-level");
  CHECK(result.settings[Option::launcher]->source() == "default");
  CHECK_FALSE(result.settings[Option::grace].has_value());
}

TEST_CASE("an option of rankshim after -- is a mistake, because it would be the command") {
  for (const char* word : {"--nnodes", "--nnodes=2"}) {
    CHECK(std::get<Rejected>(read_settings({"--", word, "2", "train.py"}, FakeHost({}))).exit_code ==
          exit_code::usage);
    CHECK(std::get<Rejected>(read_settings({"explain", "--", word}, FakeHost({}))).exit_code ==
          exit_code::usage);
  }
}

TEST_CASE("options end at the first word that is none, and everything after -- is the command") {
  struct Row {
    std::vector<std::string> line;
    std::vector<std::string> command;
  };
  const std::vector<Row> rows = {{{"train.py", "--wait=none"}, {"train.py", "--wait=none"}},
                                 {{"--wait", "none", "train.py"}, {"train.py"}},
                                 {{"-m", "pkg.train", "--x"}, {"-m", "pkg.train", "--x"}},
                                 {{"--export-pet", "bash", "run.sh"}, {"bash", "run.sh"}},
                                 {{"--", "explain", "--help"}, {"explain", "--help"}},
                                 {{"--", "--odd"}, {"--odd"}},
                                 {{"-", "x"}, {"-", "x"}}};
  for (const Row& row : rows) {
    const auto result = accepted(read(row.line));
    CHECK(result.subcommand == Subcommand::run);
    CHECK(result.arguments == row.command);
  }
}

TEST_CASE("a boolean is turned off by --no-NAME, and only a boolean is") {
  CHECK_FALSE(accepted(read({"--no-record", "x"})).settings.flag(Option::record));
  CHECK_FALSE(accepted(read({"--record=0", "x"})).settings.flag(Option::record));
  CHECK_FALSE(accepted(read({"--no-stacks", "x"}, {"RANKSHIM_STACKS=true"})).settings.flag(Option::stacks));
  CHECK(refused(read({"--no-grace", "x"})).exit_code == exit_code::usage);
  CHECK(refused(read({"--no-record=1", "x"})).exit_code == exit_code::usage);
}

TEST_CASE("signals are checked wherever they come from") {
  CHECK(accepted(read({"--parent-death-signal=SIGINT", "x"})).settings.text(Option::parent_death_signal) ==
        "SIGINT");
  CHECK(accepted(read({"x"}, {}, "worker-signals = [\"USR1\", 40]")).settings.text(Option::worker_signals) ==
        "USR1,40");
  for (const char* wrong :
       {"--parent-death-signal=TERMINATE", "--worker-signals=USR3", "--rewrite-signal=TERM",
        "--rewrite-signal=KILL=TERM", "--parent-death-signal=0"}) {
    CHECK(refused(read({wrong, "x"})).exit_code == exit_code::usage);
  }
}

TEST_CASE("an option that takes a list may be given again, any other only with the same value") {
  const Settings all =
      accepted(read({"--rewrite-signal=TERM=INT", "--worker-signals=USR1", "--rewrite-signal", "HUP=none",
                     "--exit-map=3=0", "--exit-map=4=0", "--worker-signals=15", "x"},
                    {"RANKSHIM_EXIT_MAP=5=0"}))
          .settings;
  CHECK(all.text(Option::rewrite_signal) == "TERM=INT,HUP=none");
  CHECK(all.text(Option::worker_signals) == "USR1,15");
  CHECK(all.text(Option::exit_map) == "3=0,4=0");

  CHECK(accepted(read({"--no-stacks", "--stacks=0", "--wait=dns", "--wait=dns", "x"}))
            .settings.text(Option::wait) == "dns");
  const auto twice = refused(read({"--wait=dns", "--wait=port", "x"}));
  CHECK(twice.exit_code == exit_code::usage);
  CHECK(to_line(twice.faults.front()) == "--wait=port comes after --wait=dns; give it once [R1]");
  for (std::vector<std::string> line : {std::vector<std::string>{"--stacks", "--no-stacks", "x"},
                                        {"--worker-signals=none", "--worker-signals=USR1", "x"}})
    CHECK(refused(read(line)).exit_code == exit_code::usage);
}

TEST_CASE("a subcommand is recognised only as the first argument") {
  CHECK(accepted(read({"explain", "--format", "json", "train.py"})).subcommand == Subcommand::explain);
  CHECK(accepted(read({"env"})).subcommand == Subcommand::env);
  CHECK(accepted(read({"--wait=none", "env"})).subcommand == Subcommand::run);
  CHECK(accepted(read({"install", "/x"})).arguments == std::vector<std::string>{"/x"});
  CHECK(accepted(read({"--", "explian"})).subcommand == Subcommand::run);
}

TEST_CASE("help and version are words and options, and a subcommand has its own help") {
  for (const char* word : {"help", "--help", "-h"})
    CHECK(accepted(read({word})).subcommand == Subcommand::help);
  for (const char* word : {"version", "--version", "-V"})
    CHECK(accepted(read({word})).subcommand == Subcommand::version);
  for (std::vector<std::string> line : {std::vector<std::string>{"explain", "--help"},
                                        {"help", "explain"},
                                        {"explain", "--nnodes=2", "-h"}}) {
    const Invocation invocation = accepted(read(line));
    CHECK(invocation.subcommand == Subcommand::help);
    CHECK(invocation.arguments == std::vector<std::string>{"explain"});
  }
  const std::string explain = help_text("explain"), status = help_text("status");
  CHECK_THAT(explain, Catch::StartsWith("usage: rankshim explain [OPTIONS] [--] [COMMAND...]\n"));
  CHECK_THAT(explain, Catch::Contains("\n  --nnodes ") && Catch::Contains("\n  --format ") &&
                          !Catch::Contains("--grace"));
  CHECK_THAT(status, Catch::Contains("\n  --run-dir ") && !Catch::Contains("--nnodes"));
}

TEST_CASE("what cannot be used is refused with the right code, the name and the nearest known one") {
  struct Row {
    std::vector<std::string> line;
    std::vector<std::string> variables;
    std::string config;
    int code;
    std::string says;
  };
  const std::vector<Row> rows = {
      {{"--wiat=none", "x"},
       {},
       "",
       exit_code::usage,
       "unknown option --wiat, the nearest is --wait; see rankshim --help"},
      {{"--nproc=2", "x"},
       {},
       "",
       exit_code::usage,
       "unknown option --nproc, the nearest is --nproc-per-node;"},
      {{"--master_port=2", "x"}, {}, "", exit_code::usage, ", the nearest is --master-port;"},
      {{"x"},
       {"RANKSHIM_NPROC=2"},
       "",
       exit_code::configuration,
       "unknown variable RANKSHIM_NPROC, the nearest is RANKSHIM_NPROC_PER_NODE;"},
      {{"-x", "x"}, {}, "", exit_code::usage, "unknown option -x"},
      {{"--wait=soon", "x"}, {}, "", exit_code::usage, "--wait=soon is not one of auto, port, dns, none"},
      {{"--launcher=torchun", "x"},
       {},
       "",
       exit_code::usage,
       "--launcher=torchun is not one of auto, torchrun, launch, native, none, the nearest is torchrun; "
       "correct "
       "--launcher"},
      {{"--wait-timeout=5x", "x"},
       {},
       "",
       exit_code::usage,
       "--wait-timeout=5x is not a time such as 90s, 10m, 2h or a number of seconds; correct --wait-timeout"},
      {{"--nnodes=x", "x"},
       {},
       "",
       exit_code::usage,
       "--nnodes=x is not a number of nodes, N or MIN:MAX; correct"},
      {{"--nnodes=3:2", "x"}, {}, "", exit_code::usage, "--nnodes=3:2 is not a number of nodes"},
      {{"--node-rank=-1", "x"}, {}, "", exit_code::usage, "--node-rank=-1 is not a number, 0 or more"},
      {{"--nproc-per-node=gpus", "x"},
       {},
       "",
       exit_code::usage,
       "is not a number of workers, auto, gpu or cpu"},
      {{"--master-port=65536", "x"},
       {},
       "",
       exit_code::usage,
       "--master-port=65536 is not a port, 1 to 65535"},
      {{"x"},
       {"RANKSHIM_NNODES=x"},
       "",
       exit_code::configuration,
       "RANKSHIM_NNODES=x is not a number of nodes, N or MIN:MAX; correct or unset RANKSHIM_NNODES"},
      {{"explian"},
       {},
       "",
       exit_code::usage,
       "explian is neither a subcommand nor a program in PATH, the nearest is explain; write rankshim "
       "explain"},
      {{"help", "explian"},
       {},
       "",
       exit_code::usage,
       "there is no subcommand or code explian, the nearest is explain"},
      {{"help", "R62"}, {}, "", exit_code::usage, "there is no subcommand or code R62, the nearest is R"},
      {{"version", "x"}, {}, "", exit_code::usage, "unexpected argument x"},
      {{"--wait"}, {}, "", exit_code::usage, "--wait needs a value"},
      {{}, {}, "", exit_code::usage, "no command was given"},
      {{"env", "x"}, {}, "", exit_code::usage, "unexpected argument x"},
      {{"install", ""}, {}, "", exit_code::usage, "install needs one folder"},
      {{"--format=json", "x"}, {}, "", exit_code::usage, "--format is for explain, env, doctor and status"},
      {{"explain", "--format=xml"},
       {},
       "",
       exit_code::usage,
       "--format=xml is not one of text, json; correct --format"},
      {{""}, {}, "", exit_code::usage, "the command is empty"},
      {{"--", "-m"}, {}, "", exit_code::usage, "-m needs a module"},
      {{"--report", "-", "x"}, {}, "", exit_code::usage, "--report=- is not a file; stdout is /dev/stdout"},
      {{"x"},
       {"RANKSHIM_MASTER_ADRR=a"},
       "",
       exit_code::configuration,
       "unknown variable RANKSHIM_MASTER_ADRR, the nearest is RANKSHIM_MASTER_ADDR; correct or unset "
       "RANKSHIM_MASTER_ADRR;"},
      {{"x"}, {"RANKSHIM_GRACE=soon"}, "", exit_code::configuration, "RANKSHIM_GRACE=soon is not a time"},
      {{"x"},
       {},
       "maste-port = 1",
       exit_code::configuration,
       "/etc/rankshim.toml:1: unknown key maste-port, the nearest is master-port; correct or remove "
       "maste-port in "},
      {{"x"}, {}, "\nwait = ", exit_code::configuration, "/etc/rankshim.toml:2: "},
      {{"x"}, {}, "[=]", exit_code::configuration, "/etc/rankshim.toml:1: "},
      {{"x"}, {}, "wait = {a = 1}", exit_code::configuration, "/etc/rankshim.toml:1: wait must be"},
      {{"--config=/none", "x"},
       {},
       "",
       exit_code::configuration,
       "the configuration file /none cannot be read"},
      {{"--exit-map=3=999", "x"}, {}, "", exit_code::usage, "--exit-map=3=999 is not FROM[-TO]=CODE"},
  };
  for (const Row& row : rows) {
    const auto rejected = refused(read(row.line, row.variables, row.config));
    CHECK(rejected.exit_code == row.code);
    CHECK_THAT(to_line(rejected.faults.front()), Catch::Contains(row.says));
  }
}

TEST_CASE("every mistake is reported at once, and one of the command line decides the code") {
  const auto rejected = refused(read({"--wiat=1", "x"}, {"RANKSHIM_NOODES=1", "RANKSHIM_WAIT=never"}));
  CHECK(rejected.faults.size() == 3);
  CHECK(rejected.exit_code == exit_code::usage);
}

TEST_CASE("an empty variable is treated as not set, and Kubernetes' service links are no settings") {
  CHECK(accepted(read({"x"}, {"RANKSHIM_WAIT=", "RANKSHIM_NONSENSE="})).settings.text(Option::wait) ==
        "auto");
  accepted(read(
      {"x"}, {"RANKSHIM_SERVICE_HOST=10.0.0.1", "RANKSHIM_SERVICE_PORT=80", "RANKSHIM_SERVICE_PORT_HTTP=80",
              "RANKSHIM_PORT=tcp://10.0.0.1:80", "RANKSHIM_PORT_80_TCP=tcp://10.0.0.1:80",
              "RANKSHIM_PORT_80_TCP_PROTO=tcp", "RANKSHIM_PORT_80_TCP_ADDR=10.0.0.1",
              "RANKSHIM_WEB_SERVICE_HOST=10.0.0.1", "RANKSHIM_WEB_PORT_80_TCP_PORT=80",
              "RANKSHIM_MASTER_PORT=tcp://10.0.0.1:80", "RANKSHIM_VERSION=1.2.3"}));
}

TEST_CASE("the exit map changes numbers, ranges and causes, a cause first") {
  const auto map = ExitMap::parse("3=0,64-78=1,stopped=0,wait=200,peer=201");
  REQUIRE(map);
  CHECK(map->apply(outcome::Cause::none, 3) == 0);
  CHECK(map->apply(outcome::Cause::none, 70) == 1);
  CHECK(map->apply(outcome::Cause::none, 4) == 4);
  CHECK(map->apply(outcome::Cause::stop_requested, 143) == 0);
  CHECK(map->apply(outcome::Cause::unreachable, 75) == 200);
  CHECK(map->apply(outcome::Cause::peer_lost, 1) == 201);
  CHECK(map->apply(outcome::Cause::configuration, 78) == 1);
  for (const char* wrong : {"3", "a=1", "3=", "5-3=1", "300=1", "1=256"}) CHECK_FALSE(ExitMap::parse(wrong));
}

TEST_CASE("a configuration that is too large, too deep or not to be read is refused", "[attack]") {
  const auto fault = [](const FakeHost& host) {
    const Rejected rejected = refused(read_settings({"x"}, host));
    CHECK(rejected.exit_code == exit_code::configuration);
    return to_line(rejected.faults.front());
  };
  FakeHost host({});
  accepted(read_settings({"x"}, host));
  host.files["/etc/rankshim.toml"] = "wait = \"none\"\n#" + std::string(largest_file, 'x');
  CHECK_THAT(fault(host), Catch::Contains("/etc/rankshim.toml:1: the file is longer than 1024 KiB"));
  std::string key = "\n\na";
  for (int i = 0; i < 250'000; ++i) key += ".b";
  host.files["/etc/rankshim.toml"] = key + " = 1\n";
  CHECK_THAT(fault(host), Catch::Contains("/etc/rankshim.toml:3: there are too many dots"));
  host.files.clear();
  host.unreadable = {{"/etc/rankshim.toml", EACCES}};
  CHECK_THAT(fault(host), Catch::Contains("/etc/rankshim.toml cannot be read (Permission denied)"));
  host.unreadable = {{"/etc/rankshim.toml", EMFILE}};
  CHECK(refused(read_settings({"x"}, host)).exit_code == exit_code::system);
}

TEST_CASE("the documented configuration file has every key with its built-in default") {
  std::ifstream file(RANKSHIM_SOURCE_DIR "/config/rankshim.toml");
  std::stringstream content;
  content << file.rdbuf();
  const std::string text = content.str();
  const toml::parse_result parsed = toml::parse(text);
  REQUIRE(parsed);
  const toml::table& table = parsed.table();
  for (const OptionInfo& option : options) {
    if (!option.has_key) continue;
    INFO(option.name);
    if (option.fallback.empty()) {
      CHECK(text.find("\n# " + std::string(option.name) + " = ") != std::string::npos);
      CHECK_FALSE(table.contains(option.name));
    } else {
      REQUIRE(table.contains(option.name));
      const auto* string = table.get(option.name)->as_string();
      const auto* truth = table.get(option.name)->as_boolean();
      CHECK((string != nullptr ? string->get() : truth->get() ? "true" : "false") == option.fallback);
    }
  }
  for (const auto& [key, value] : table) {
    const bool known =
        std::any_of(options.begin(), options.end(), [&](const auto& o) { return o.name == key.str(); });
    CHECK(known);
  }
  std::string uncommented;  // the examples after '#' must be accepted too
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const bool example =
        line.starts_with("# ") && line.find(" = ") != std::string::npos && line[2] >= 'a' && line[2] <= 'z';
    if (example) uncommented += line.substr(2) + "\n";
  }
  accepted(read({"x"}, {}, uncommented));
}

TEST_CASE("the help without a topic is one screen with examples and all subcommands") {
  const std::string text = help_text();
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    INFO(line);
    CHECK(line.size() <= 80);
  }
  CHECK(std::ranges::count(text, '\n') <= 24);
  for (const Usage& usage : usages) CHECK(text.find("\n  " + std::string(usage.name)) != std::string::npos);
  for (const Example& example : examples) CHECK(text.find(example.command) != std::string::npos);
}

TEST_CASE("the help on a code is what the page about failures says") {
  CHECK(accepted(read({"help", "R26"})).arguments == std::vector<std::string>{"R26"});
  CHECK_THAT(help_text("R26"), Catch::StartsWith("[R26] `master") && Catch::EndsWith(".\n"));
  CHECK(help_text("r26") == help_text("R26"));
}

TEST_CASE("the whole help fits 80 columns and names every option") {
  std::istringstream lines(help_text("all"));
  for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 80);
  for (const OptionInfo& option : options) {
    const std::string no = option.is_boolean() ? "[no-]" : "";
    CHECK(help_text("all").find("  --" + no + std::string(option.name)) != std::string::npos);
  }
}

}  // namespace
}  // namespace rankshim::settings
