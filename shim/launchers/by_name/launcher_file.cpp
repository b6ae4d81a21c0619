#include "launchers/by_name/launcher_file.h"

#include <algorithm>
#include <array>
#include <type_traits>

#include "base/files.h"
#include "base/text.h"
#include "base/toml.h"
#include "platform/profiles.h"

namespace rankshim::by_name {
namespace {

constexpr EmbeddedFile builtins[] = {
#include "builtin_launchers.inc"
};

/// The line with the words that start the launcher.
constexpr std::string_view line_of_starts(std::string_view document) {
  while (!document.empty()) {
    const std::string_view line = take_part(document, "\n");
    if (line.starts_with("starts")) return line;
  }
  return {};
}
static_assert(std::ranges::none_of(builtins,
                                   [](const EmbeddedFile& one) { return line_of_starts(one.text).empty(); }));

constexpr auto keys = std::to_array<std::string_view>(
    {"starts", "unless", "flags", "first", "others", "set", "hostfile", "warning", "elastic"});
constexpr auto placeholders =
    std::to_array<std::string_view>({"nnodes", "node_rank", "local_world_size", "world_size", "rank",
                                     "master_addr", "master_port", "master", "run_id", "hostfile"});

class LauncherFileReader : public TomlDocument {
 public:
  using TomlDocument::TomlDocument;

  void read(const toml::table& top, LauncherFile& file) {
    reject_unknown(top, keys);
    read_texts(top, "starts", file.starts);
    read_texts(top, "unless", file.unless);
    read_texts(top, "flags", file.flags);
    read_texts(top, "first", file.first);
    read_texts(top, "others", file.others);
    file.hostfile = read_text(top, "hostfile");
    file.warning = read_text(top, "warning");
    if (const auto* variables = get<toml::table>(top, "set", "a table")) {
      for (const auto& [name, value] : *variables) file.set.emplace_back(name.str(), checked(value));
    }
    if (const auto* elastic = get<toml::value<bool>>(top, "elastic", "true or false"))
      file.elastic = elastic->get();
    if (file.starts.empty())
      fault(1, "'starts' is missing or empty", "write the words that start the launcher");
  }

 private:
  template <class Text>
  void read_texts(const toml::table& top, std::string_view key, std::vector<Text>& texts) {
    const toml::node* node = top.get(key);
    if (node == nullptr) return;
    const auto take = [&](const toml::node& one) {
      const std::string text = checked(one);
      if (std::is_same_v<Text, DescribedFlag> && !text.starts_with('-'))
        fault(one, text + " is not a flag", "begin it with - or --");
      texts.emplace_back(text);
    };
    if (const auto* array = node->as_array()) {
      for (const toml::node& one : *array) take(one);
    } else {
      take(*node);
    }
  }

  std::string read_text(const toml::table& top, std::string_view key) {
    std::vector<std::string> texts;
    read_texts(top, key, texts);
    return joined(texts, " ");
  }

  /// A text of one line, in which every name in braces is a placeholder.
  std::string checked(const toml::node& node) {
    const auto* value = node.as_string();
    std::string text = value != nullptr ? value->get() : std::string();
    if (text.empty() || text.find('\n') != std::string::npos)
      fault(node, "this is no text of one line", "write a string");
    for (auto brace = text.find('{'); brace != std::string::npos; brace = text.find('{', brace + 1)) {
      const auto name = std::string_view(text).substr(brace + 1, text.find('}', brace) - brace - 1);
      if (std::ranges::find(placeholders, name) == placeholders.end())
        fault(node, "there is no {" + std::string(name) + "}", "use one of " + joined(placeholders));
    }
    return text;
  }
};

bool same_spelling(std::string_view a, std::string_view b) {
  const auto dash = [](char c) { return c == '_' ? '-' : c; };
  return std::ranges::equal(a, b, {}, dash, dash);
}

bool begins_script(std::string_view word) {
  return word.ends_with(".py") || word == "-m" || word == "--module" || word == "--";
}

}  // namespace

DescribedFlag::DescribedFlag(std::string_view text) {
  const auto end = std::min(text.find_first_of("= "), text.size());
  spellings = text.substr(0, end);
  if (end == text.size()) return;
  between = text[end];
  value = text.substr(end + 1);
}

std::string_view DescribedFlag::name() const {
  return std::string_view(spellings).substr(spellings.rfind('|') + 1);
}

std::string_view DescribedFlag::placeholder() const {
  const bool whole = value.starts_with('{') && value.find('}') == value.size() - 1;
  return whole ? std::string_view(value).substr(1, value.size() - 2) : std::string_view();
}

std::optional<std::string_view> DescribedFlag::given_in(const std::vector<std::string>& words,
                                                        std::size_t from) const {
  std::optional<std::string_view> found;
  for (std::size_t at = from; at < words.size() && !begins_script(words[at]); ++at) {
    const std::string_view word = words[at];
    const std::string_view written = word.substr(0, word.find('='));
    for (std::string_view rest = spellings; !rest.empty();) {
      const std::string_view spelling = take_part(rest, "|");
      if (same_spelling(written, spelling)) {
        const bool is_next = written.size() == word.size() && between != 0 && at + 1 < words.size() &&
                             !begins_script(words[at + 1]);
        found = is_next ? std::string_view(words[at + 1])
                        : word.substr(std::min(written.size() + 1, word.size()));
      } else if (spelling.size() == 2 && word.starts_with(spelling) && all_digits(word.substr(2))) {
        found = word.substr(2);
      }
    }
  }
  return found;
}

LauncherFile read_launcher(std::string_view document, const std::string& path, Faults& faults) {
  LauncherFileReader reader(path, faults);
  LauncherFile file{.path = path};
  if (const auto top = reader.parse(document)) reader.read(*top, file);
  return file;
}

LauncherFile read_launcher_file(const std::string& path, const Node& node, Faults& faults) {
  if (const auto document = node.file(path)) return read_launcher(*document, path, faults);
  faults.push_back(platform::unreadable_profile(path));
  return {};
}

std::vector<LauncherFile> users_launchers(std::string_view file, const Node& node, Faults& faults) {
  std::vector<LauncherFile> files;
  for (const std::string& path : platform::users_files(file, true, node))
    files.push_back(read_launcher_file(path, node, faults));
  return files;
}

void add_builtin_launchers(std::string_view word, std::vector<LauncherFile>& files) {
  Faults none;
  for (const EmbeddedFile& one : builtins) {
    if (line_of_starts(one.text).find(word) == std::string_view::npos) continue;
    const std::string path = "built-in " + std::string(one.name) + ".toml";
    if (std::ranges::find(files, path, &LauncherFile::path) == files.end())
      files.push_back(read_launcher(one.text, path, none));
  }
}

}  // namespace rankshim::by_name
