/// A job's name, a host's and a master's, as labels of metrics.

#include <string>

#include "base/text.h"
#include "report/snapshot.h"
#include "target.h"

namespace {

using rankshim::fuzz::check;

/// Takes `NAME="VALUE"` from the front, as OpenMetrics has it; returns the value without its escapes.
std::string take_label(std::string_view& text) {
  const std::size_t begin = text.find("=\"");
  check(begin != std::string_view::npos && begin != 0);
  for (const char c : text.substr(0, begin)) check((c >= 'a' && c <= 'z') || c == '_');
  std::string value;
  text.remove_prefix(begin + 2);
  for (; !text.empty() && text[0] != '"'; text.remove_prefix(1)) {
    if (text[0] == '\\') {
      text.remove_prefix(1);
      check(!text.empty() && (text[0] == '\\' || text[0] == '"'));
    }
    value += text[0];
  }
  check(!text.empty());
  text.remove_prefix(1);
  return value;
}

}  // namespace

FUZZ_TARGET(metrics) {
  using namespace rankshim;
  const auto names = fuzz::split(fuzz::text_of(data, size), '\n', 3);
  topology::Topology topology;
  topology.facts[Fact::run_id] = Value{names[0]};
  topology.meeting = topology::Master{names.back(), 29500};
  const std::string text = report::as_metrics(
      {.phase = report::PhaseName::run, .topology = &topology, .host = names[names.size() / 2]});
  check(text.ends_with("\n# EOF\n") && text.size() <= std::size_t{32} << 10U && as_utf8(text) == text);
  std::string_view rest = text;
  while (!rest.empty()) {
    std::string_view line = next_line(rest);
    check(printable(line) == line);
    if (line.starts_with("# ")) continue;
    check(line.starts_with("rankshim_") && line.find('{') != std::string_view::npos);
    line.remove_prefix(line.find('{') + 1);
    for (bool first = true; !line.starts_with("}"); first = false) {
      if (!first) {
        check(line.starts_with(","));
        line.remove_prefix(1);
      }
      const std::string value = take_label(line);
      check(!value.empty() && value.size() <= 100);
    }
    line.remove_prefix(1);
    check(line.starts_with(" ") && line.size() > 1);
    for (const char c : line.substr(1)) check((c >= '0' && c <= '9') || c == '.');
  }
  return 0;
}
