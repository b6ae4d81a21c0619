#include "base/toml.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace rankshim {
namespace {

/// The line on which a document has its 257th dot outside strings and comments; nothing if it has fewer. None
/// of rankshim's documents needs as many.
std::optional<std::size_t> line_of_too_many_dots(std::string_view document) {
  constexpr std::size_t most = 256;
  std::size_t dots = 0, line = 1;
  for (std::size_t i = 0; i < document.size(); ++i) {
    const char c = document[i];
    if (c == '\n') ++line;
    if (c == '.' && ++dots > most) return line;
    if (c == '#') {
      i = std::min(document.find('\n', i), document.size()) - 1;
    } else if (c == '"' || c == '\'') {
      const std::string_view three = document.substr(i, 3);
      const bool multi = three.size() == 3 && three[1] == c && three[2] == c;
      i += multi ? 3 : 1;
      while (i < document.size()) {
        if (document[i] == '\\' && c == '"') {
          i += 2;
          continue;
        }
        if (document[i] == '\n') {
          ++line;
          if (!multi) break;
        }
        if (document[i] == c && (!multi || document.substr(i, 3) == three)) {
          i += multi ? 2 : 0;
          break;
        }
        ++i;
      }
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<toml::table> TomlDocument::parse(std::string_view document, std::size_t most_bytes) {
  if (document.size() > most_bytes) {
    fault(1, "the file is longer than 64 KiB", "shorten it");
    return std::nullopt;
  }
  if (const auto line = line_of_too_many_dots(document)) {
    fault(*line, "there are more dots outside strings than such a file needs",
          "write tables as [name], and one key on each line");
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
  faults_.push_back({Anchor::profile_file,
                     std::string(path_) + ":" + std::to_string(line) + ": " + what,
                     {std::string(path_)},
                     fix});
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
