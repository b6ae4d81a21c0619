/// Build-time tool: compile_profiles OUT.inc FILE.toml... reads the profiles by the rules of reader.h and
/// writes them as constexpr tables, which profiles.cpp includes. Faults go to stderr as PATH:LINE: …, exit 1.
/// compile_profiles --words OUT.inc FILE.toml writes each list of words as a table of its name.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <type_traits>
#include <vector>

#include "base/toml.h"
#include "platform/expression.h"
#include "platform/reader.h"

namespace rankshim::platform {
namespace {

/// The text as it is, as a C++ string literal.
std::string literal(const std::string& text) { return "R\"text(" + text + ")text\"sv"; }

/// `constexpr TYPE NAME[] = {…};`, with what `write` makes of each row.
template <class Row, class Write>
std::string table(const std::string& type, const std::string& name, const std::vector<Row>& rows,
                  const Write& write) {
  std::string out = "constexpr " + type + " " + name + "[] = {\n";
  for (const Row& row : rows) out += "    " + std::string(write(row)) + ",\n";
  return out + "};\n";
}

/// The values of a row: numbers, enumerators of their types, slices.
std::string value(std::size_t number) { return std::to_string(number); }
std::string value(Slice slice) { return "{" + value(slice.first) + ", " + value(slice.count) + "}"; }
template <class Enum>
  requires std::is_enum_v<Enum>
std::string value(const char* type, Enum one) {
  return std::string(type) + "{" + std::to_string(static_cast<unsigned>(one)) + "}";
}

std::string written(const OwnedTables& tables) {
  std::string out;
  out += table("Step", "all_steps", tables.steps, [](const Step& one) {
    return "{" + value("Op", one.op) + ", " + value("Function", one.function) + ", " + value(one.index) + "}";
  });
  out += table("std::uint16_t", "all_children", tables.children, [](std::size_t one) { return value(one); });
  out += table("Piece", "all_texts", tables.texts,
               [](const Piece& one) { return "{" + value(one.at) + ", " + value(one.size) + "}"; });
  out += table("Condition", "all_conditions", tables.conditions, [](const Condition& one) {
    return "{" + value("Sign", one.sign) + ", " + value(one.root) + ", " + value(one.glob) + "}";
  });
  out += table("Alternative", "all_alternatives", tables.alternatives,
               [](const Alternative& one) { return value(one); });
  out += table("FactExpression", "all_expressions", tables.expressions, [](const FactExpression& one) {
    return "{" + value("Fact", one.fact) + ", " + value(one.root) + "}";
  });
  out += table("Role", "all_roles", tables.roles, [](const Role& one) {
    return "{" + value(one.name) + ", " + value(one.fix) + ", " + value(one.when) + "}";
  });
  return out +
         "constexpr Tables all_tables = {all_steps, all_children, all_texts, all_conditions,\n"
         "    all_alternatives, all_expressions, all_roles,\n    " +
         literal(tables.pool) + "};\n";
}

std::string written(const Profile& one) {
  std::string row = "{&all_tables";
  for (const TextIndex text : {one.name_text, one.title_text, one.supersedes_text, one.agents_text})
    row += ", " + value(text);
  row += ", " + value("ProfileKind", one.kind) + (one.opt_in ? ", true" : ", false");
  for (const Slice slice : {one.signs_range, one.unless_range, one.match_range, one.expressions_range,
                            one.roles_range, one.refusals_range, one.pending_range})
    row += ", " + value(slice);
  return row + "}";
}

bool write(const std::string& path, const std::string& text) {
  std::ofstream stream(path, std::ios::binary);
  stream << text;
  stream.close();
  if (!stream) std::fprintf(stderr, "%s: cannot be written\n", path.c_str());
  return static_cast<bool>(stream);
}

int compile(const std::string& output, std::vector<std::filesystem::path> files) {
  std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) { return a.stem() < b.stem(); });
  OwnedTables tables;
  std::vector<Profile> profiles;
  std::vector<std::string> documents;
  Faults faults;
  for (const auto& file : files) {
    std::ifstream in(file, std::ios::binary);
    documents.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
    if (auto profile = read_profile(file.stem().string(), documents.back(), file.string(), tables, faults))
      profiles.push_back(*profile);
  }
  for (const Fault& fault : faults) std::fprintf(stderr, "%s\n", to_line(fault).c_str());
  if (!faults.empty()) return EXIT_FAILURE;
  const std::string out =
      "// Written by compile_profiles from config/platforms/*.toml; not to be edited.\n\n" + written(tables) +
      table("Profile", "all_profiles", profiles, [](const Profile& one) { return written(one); }) +
      table("std::string_view", "all_documents", documents, literal);
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
    for (const toml::node& word : *list.as_array()) words.emplace_back(word.value_or(""));
    out += table("std::string_view", std::string(key.str()), words, literal);
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
