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

/// The value as it is stored, "-" if the kind does not allow it.
std::string stored(ValueKind kind, std::string_view text) {
  return normalise(option(kind), text).value_or("-");
}

TEST_CASE("each kind of option stores what it allows and refuses the rest") {
  struct Row {
    ValueKind kind;
    std::string text;
    std::string stored;
  };
  const auto row = GENERATE(values<Row>({
      {ValueKind::text, "any text", "any text"},
      {ValueKind::choice, "json", "json"},
      {ValueKind::choice, "text|json", "-"},
      {ValueKind::choice, "JSON", "-"},
      {ValueKind::choice, "", "-"},
      {ValueKind::time, "10m", "10m"},
      {ValueKind::time, "10 m", "-"},
      {ValueKind::boolean, "1", "true"},
      {ValueKind::boolean, "true", "true"},
      {ValueKind::boolean, "0", "false"},
      {ValueKind::boolean, "false", "false"},
      {ValueKind::boolean, "yes", "-"},
      {ValueKind::exit_map, "3=0,oom=1", "3=0,oom=1"},
      {ValueKind::exit_map, "3=256", "-"},
      {ValueKind::signal, "USR1", "USR1"},
      {ValueKind::signal, "USR3", "-"},
      {ValueKind::signals, "none", "none"},
      {ValueKind::signals, "USR1,RTMIN+3", "USR1,RTMIN+3"},
      {ValueKind::signals, "USR1,USR3", "-"},
      {ValueKind::signal_map, "TERM=INT,HUP=none", "TERM=INT,HUP=none"},
      {ValueKind::signal_map, "KILL=TERM", "-"},
      {ValueKind::variables, "A=1\nB=", "A=1\nB="},
      {ValueKind::variables, "A=1\n=2", "-"},
      {ValueKind::variables, "A", "-"},
      {ValueKind::words, "--a --b", "--a --b"},
  }));
  INFO(row.text);
  CHECK(stored(row.kind, row.text) == row.stored);
}

TEST_CASE("a message about a wrong choice lists the choices") {
  CHECK(wanted(option(ValueKind::choice)) == "one of text, json");
}

}  // namespace
}  // namespace rankshim
