#include "base/toml_document.h"

#include <algorithm>
#include <utility>

#include "base/nearest.h"
#include "base/text.h"
#include "base/toml_nesting.h"

namespace rankshim {

std::optional<toml::table> TomlDocument::parse(std::string_view document) {
  if (document.size() > longest) {
    fault(1, "the file is longer than 64 KiB", "shorten it");
    return std::nullopt;
  }
  if (const auto line = line_of_too_many_dots(document)) {
    fault(*line, "there are more dots outside strings than such a file needs", "write tables as [name]");
    return std::nullopt;
  }
  toml::parse_result parsed = toml::parse(document);
  if (!parsed) {
    fault(parsed.error().source(), std::string(parsed.error().description()), "correct the TOML");
    return std::nullopt;
  }
  return std::move(parsed).table();
}

void TomlDocument::fault(std::size_t line, const std::string& what, const std::string& fix) {
  constexpr std::size_t most = 50;  // later faults seldom add anything
  if (faults_.size() == most) return;
  faults_.push_back(
      {std::string(path_) + ":" + std::to_string(line) + ": " + what, {std::string(path_)}, fix});
}

void TomlDocument::reject_unknown(const toml::table& table, std::span<const std::string_view> known) {
  for (const auto& [name, node] : table) {
    const std::string_view key(name);
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    fault(node, "there is no key '" + std::string(key) + "' here" + and_nearest(nearest(key, known)),
          "use one of " + joined(known));
  }
}

}  // namespace rankshim
