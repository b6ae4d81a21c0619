/// Build-time tool: compile_profiles OUT.inc FILE.toml... reads the profiles by the rules of reader.h and
/// writes them as constants, which profiles.cpp includes. Faults go to stderr as PATH:LINE: …, exit 1.
/// compile_profiles --words OUT.inc FILE.toml writes each list of words as a table of its name.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/text.h"
#include "base/toml.h"
#include "platform/reader.h"

namespace rankshim::platform {
namespace {

/// The text as it is, as a C++ string literal.
std::string literal(std::string_view text) { return "R\"text(" + std::string(text) + ")text\"sv"; }

template <class Enum>
std::string enumerator(const char* type, Enum one) {
  return std::string(type) + "{" + std::to_string(static_cast<unsigned>(one)) + "}";
}

/// `constexpr TYPE NAME[] = {…};`
std::string table(const std::string& type, const std::string& name, const std::vector<std::string>& rows) {
  return "constexpr " + type + " " + name + "[] = {\n    " + joined(rows, ",\n    ") + "};\n";
}

/// Writes what profiles consist of as constants.
class Writer {
 public:
  std::string lists;  ///< each with a name of its own, the inner ones first

  std::string profile(const Profile& one) {
    return row_of({literal(one.name), literal(one.title), enumerator("ProfileKind", one.kind),
                   one.opt_in ? "true" : "false", list("std::string_view", one.supersedes),
                   list("std::string_view", one.agents), list("Condition", one.signs),
                   list("Condition", one.unless), list("Alternative", one.match),
                   list("FactExpression", one.facts), list("Role", one.idle_roles),
                   list("Role", one.refusals), list("Role", one.pending)});
  }

 private:
  static std::string row_of(const std::vector<std::string>& values) { return "{" + joined(values) + "}"; }
  static std::string row(std::string_view one) { return literal(one); }
  std::string row(const Expression& one) {
    return row_of(
        {enumerator("Function", one.function), literal(one.text), list("Expression", one.children)});
  }
  std::string row(const Condition& one) {
    return row_of({one.is_negative ? "true" : "false", row(one.expression), literal(one.glob)});
  }
  std::string row(Alternative one) { return list("Condition", one); }
  std::string row(const FactExpression& one) {
    return row_of({enumerator("Fact", one.fact), row(one.expression)});
  }
  std::string row(const Role& one) { return row_of({literal(one.name), literal(one.fix), row(one.when)}); }

  /// The name of a list. Equal ones are written once, such as what each use of a [let] consists of.
  template <class Row>
  std::string list(const std::string& type, std::span<const Row> rows) {
    if (rows.empty()) return "{}";
    std::vector<std::string> written;
    for (const Row& one : rows) written.push_back(row(one));
    std::string& name = names_[type + joined(written)];
    if (!name.empty()) return name;
    name = "list_" + std::to_string(names_.size());
    lists += table(type, name, written);
    return name;
  }

  std::map<std::string, std::string> names_;  // of the lists
};

bool write(const std::string& path, const std::string& text) {
  std::ofstream stream(path, std::ios::binary);
  stream << text;
  stream.close();
  if (!stream) std::fprintf(stderr, "%s: cannot be written\n", path.c_str());
  return static_cast<bool>(stream);
}

int compile(const std::string& output, std::vector<std::filesystem::path> files) {
  std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) { return a.stem() < b.stem(); });
  std::vector<std::string> profiles, documents;
  Faults faults;
  Writer writer;
  for (const auto& file : files) {
    std::ifstream in(file, std::ios::binary);
    std::string document{std::istreambuf_iterator<char>(in), {}};
    auto outcome = read_profile(file.stem().string(), std::move(document), file.string());
    if (const auto* wrong = std::get_if<Faults>(&outcome)) {
      faults.insert(faults.end(), wrong->begin(), wrong->end());
      continue;
    }
    const auto& read = std::get<OwnedProfile>(outcome);
    profiles.push_back(writer.profile(read.profile));
    documents.push_back(literal(read.document));
  }
  for (const Fault& fault : faults) std::fprintf(stderr, "%s\n", to_line(fault).c_str());
  if (!faults.empty()) return EXIT_FAILURE;
  const std::string out =
      "// Written by compile_profiles from config/platforms/*.toml; not to be edited.\n\n" + writer.lists +
      table("Profile", "all_profiles", profiles) + table("std::string_view", "all_documents", documents);
  return write(output, out) ? EXIT_SUCCESS : EXIT_FAILURE;
}

int compile_words(const std::string& output, const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  const std::string document{std::istreambuf_iterator<char>(in), {}};
  Faults faults;
  const auto lists = TomlDocument(file, faults).parse(document);
  std::string out = "// Written by compile_profiles; not to be edited.\n\n";
  for (const auto& [key, list] : lists.value_or(toml::table())) {
    std::vector<std::string> words;
    for (const toml::node& word : *list.as_array()) words.push_back(literal(word.value_or("")));
    out += table("std::string_view", std::string(key.str()), words);
  }
  for (const Fault& fault : faults) std::fprintf(stderr, "%s\n", to_line(fault).c_str());
  return lists && write(output, out) ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace
}  // namespace rankshim::platform

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: compile_profiles OUT.inc FILE.toml... | --words OUT.inc FILE.toml\n");
    return EXIT_FAILURE;
  }
  if (argc == 4 && std::string_view(argv[1]) == "--words")
    return rankshim::platform::compile_words(argv[2], argv[3]);
  return rankshim::platform::compile(argv[1], {argv + 2, argv + argc});
}
