#include "launchers/by_name/launcher_file.h"

#include <algorithm>
#include <array>

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
    {"starts", "unless", "flags", "first", "others", "set", "hostfile", "warning"});
constexpr std::array letters = {key::starts, key::unless, key::flags,    key::first,
                                key::others, key::set,    key::hostfile, key::warning};

constexpr auto placeholders =
    std::to_array<std::string_view>({"nnodes", "node_rank", "local_world_size", "world_size", "rank",
                                     "master_addr", "master_port", "master", "run_id", "hostfile"});

class LauncherFileReader : public TomlDocument {
 public:
  using TomlDocument::TomlDocument;

  void read(const toml::table& top, LauncherFile& file) {
    reject_unknown(top, keys);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const toml::node* node = top.get(keys[i]);
      if (node == nullptr) continue;
      if (const auto* table = node->as_table()) {
        for (const auto& [name, value] : *table)
          add(letters[i], std::string(std::string_view(name)) + "=", value, file);
      } else if (const auto* array = node->as_array()) {
        for (std::size_t at = 0; at < array->size(); ++at) add(letters[i], {}, (*array)[at], file);
      } else {
        add(letters[i], {}, *node, file);
      }
    }
    std::string_view rest = file;
    if (take_entry(rest, key::starts).empty())
      fault(1, "'starts' is missing or empty", "write the words that start the launcher");
  }

 private:
  void add(char letter, const std::string& before, const toml::node& node, LauncherFile& file) {
    const auto* value = node.as_string();
    if (value == nullptr || value->get().empty() || value->get().find('\n') != std::string::npos)
      return fault(node, "this is no text of one line", "write a string");
    const std::string& text = value->get();
    const bool is_flag = letter <= key::others || letter == key::flags || letter == key::unless;
    if (is_flag && text[0] != '-') fault(node, text + " is not a flag", "begin it with - or --");
    for (auto brace = text.find('{'); brace != std::string::npos; brace = text.find('{', brace + 1)) {
      const auto name = std::string_view(text).substr(brace + 1, text.find('}', brace) - brace - 1);
      if (std::find(placeholders.begin(), placeholders.end(), name) == placeholders.end())
        fault(node, "there is no {" + std::string(name) + "}", "use one of " + joined(placeholders));
    }
    (file += letter).append(before).append(text) += '\n';
  }
};

}  // namespace

std::string_view take_entry(std::string_view& file, char key) {
  while (!file.empty()) {
    const std::string_view line = take_line(file);
    if (line.starts_with(key)) return line.substr(1);
  }
  return {};
}

LauncherFile read_launcher(std::string_view document, std::string_view path, Faults& faults) {
  LauncherFileReader reader(path, faults);
  LauncherFile file = std::string(path) + "\n";
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
    const auto is_it = [&](const LauncherFile& file) { return file.starts_with(path); };
    if (std::ranges::none_of(files, is_it)) files.push_back(read_launcher(one.text, path, none));
  }
}

}  // namespace rankshim::by_name
