#include "base/toml.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace rankshim {
namespace {

/// The line of the document's 257th dot outside strings and comments; 0 if it has fewer. No document needs
/// that many.
std::size_t line_of_too_many_dots(std::string_view document) {
  constexpr std::size_t most = 256;
  std::size_t dots = 0;
  for (std::size_t i = 0; i < document.size(); ++i) {
    const char c = document[i];
    if (c == '.' && ++dots > most)
      return 1 + static_cast<std::size_t>(std::ranges::count(document.substr(0, i), '\n'));
    if (c == '#') i = document.find('\n', i);
    if (c == '"' || c == '\'') {
      const std::string mark(document.substr(i, 3) == std::string(3, c) ? 3 : 1, c);
      i += mark.size();
      while (i < document.size() && !document.substr(i).starts_with(mark))
        i += c == '"' && document[i] == '\\' ? 2 : 1;
      i = document.find_first_not_of(c, i) - 1;  // up to two quotes belong to the text in front of three
    }
    if (i >= document.size()) break;
  }
  return 0;
}

}  // namespace

std::optional<toml::table> TomlDocument::parse(std::string_view document, std::size_t most_bytes) {
  if (document.size() > most_bytes) {
    fault(1, "the file is longer than " + std::to_string(most_bytes >> 10U) + " KiB", "shorten it");
    return std::nullopt;
  }
  if (const std::size_t line = line_of_too_many_dots(document); line != 0) {
    fault(line, "there are too many dots outside strings",
          "write tables as [name], and one key on each line");
    return std::nullopt;
  }
  toml::parse_result parsed = toml::parse(document);
  if (!parsed) {
    fault(parsed.error().source().begin.line, std::string(parsed.error().description()), "correct the TOML");
    return std::nullopt;
  }
  return std::move(parsed).table();
}

void TomlDocument::fault(std::size_t line, const std::string& what, const std::string& fix) {
  constexpr std::size_t most = 50;  // further faults seldom add anything
  if (faults_.size() == most) return;
  faults_.push_back({ErrorCode::profile_file,
                     std::string(path_) + ":" + std::to_string(line) + ": " + what,
                     {std::string(path_)},
                     fix});
}

void TomlDocument::reject_unknown(const toml::table& table, std::span<const std::string_view> known) {
  for (const auto& [name, node] : table) {
    const std::string_view key(name);
    if (contains(known, key)) continue;
    fault(node, "there is no key '" + std::string(key) + "' here" + and_nearest(nearest(key, known)),
          "use one of " + joined(known));
  }
}

}  // namespace rankshim
