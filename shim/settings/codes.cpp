#include "settings/codes.h"

#include "base/files.h"
#include "base/text.h"

namespace rankshim::settings {
namespace {

constexpr EmbeddedFile page[] = {
#include "when_it_fails.inc"
};
constexpr std::string_view heading = "\n### [";

}  // namespace

std::string_view about_code(std::string_view code) {
  std::string_view rest = page[0].text;
  for (auto at = rest.find(heading); at != std::string_view::npos; at = rest.find(heading)) {
    rest.remove_prefix(at + heading.size() - 1);
    const std::string_view section = rest.substr(0, rest.find("\n##"));
    if (same_but_case(section.substr(1, section.find(']') - 1), code)) return trimmed(section);
  }
  return {};
}

std::vector<std::string_view> all_codes() {
  std::vector<std::string_view> codes;
  std::string_view rest = page[0].text;
  for (auto at = rest.find(heading); at != std::string_view::npos; at = rest.find(heading)) {
    rest.remove_prefix(at + heading.size());
    codes.push_back(rest.substr(0, rest.find(']')));
  }
  return codes;
}

}  // namespace rankshim::settings
