#include "settings/option_value.h"

#include <catch2/catch.hpp>

namespace rankshim {
namespace {

/// An option of that kind; a choice is one of text and json.
OptionInfo option(ValueKind kind) {
  return {.option = Option::log_format,
          .group = "",
          .name = "x",
          .kind = kind,
          .argument = "text|json",
          .fallback = "",
          .help = ""};
}

/// Whether a value of the kind may be that text.
bool takes(ValueKind kind, std::string_view text) { return parse(option(kind), text).has_value(); }

TEST_CASE("each kind of option takes what it allows and refuses the rest") {
  struct Row {
    ValueKind kind;
    std::vector<std::string> right, wrong;
  };
  const auto row = GENERATE(values<Row>({
      {ValueKind::text, {"any text"}, {}},
      {ValueKind::choice, {"json"}, {"text|json", "JSON", ""}},
      {ValueKind::count, {"0", "7"}, {"-1", "+1", "x", "1.5", ""}},
      {ValueKind::nodes, {"1", "2:4", "3:3"}, {"0", "4:2", "2:", ":2", "x", "1:2:3"}},
      {ValueKind::workers, {"1", "auto", "gpu", "cpu"}, {"0", "gpus"}},
      {ValueKind::port, {"1", "65535"}, {"0", "65536", "x"}},
      {ValueKind::time, {"10m"}, {"10 m"}},
      {ValueKind::boolean, {"1", "true", "0", "false"}, {"yes"}},
      {ValueKind::exit_map, {"3=0,oom=1"}, {"3=256"}},
      {ValueKind::restarts, {"0", "3", "3/1h"}, {"x", "3/", "/1h", "3/0", "3/1 h", "-1"}},
      {ValueKind::ends, {"2", "64-78,oom,lost"}, {"78-64", "256", "2,,3", "stopped"}},
      {ValueKind::signal, {"USR1"}, {"USR3"}},
      {ValueKind::signals, {"none", "USR1,RTMIN+3"}, {"USR1,USR3"}},
      {ValueKind::signal_map, {"TERM=INT,HUP=none"}, {"KILL=TERM"}},
      {ValueKind::variables, {"A=1\nB="}, {"A=1\n=2", "A"}},
      {ValueKind::words, {"--a --b"}, {}},
  }));
  for (const std::string& text : row.right) {
    INFO(text);
    CHECK(takes(row.kind, text));
  }
  for (const std::string& text : row.wrong) {
    INFO(text);
    CHECK_FALSE(takes(row.kind, text));
  }
}

TEST_CASE("what is taken is parsed, once") {
  using std::chrono::milliseconds;
  CHECK(std::get<milliseconds>(*parse(option(ValueKind::time), "10m")) == std::chrono::minutes(10));
  CHECK(std::get<bool>(*parse(option(ValueKind::boolean), "1")));
  CHECK(std::get<Variables>(*parse(option(ValueKind::variables), "A=1\nB==")) ==
        Variables{{"A", "1"}, {"B", "="}});
  CHECK(std::get<std::vector<std::string>>(*parse(option(ValueKind::words), " --a  --b ")) ==
        std::vector<std::string>{"--a", "--b"});
}

TEST_CASE("a message about a wrong choice lists the choices") {
  CHECK(wanted(option(ValueKind::choice)) == "one of text, json");
}

}  // namespace
}  // namespace rankshim
