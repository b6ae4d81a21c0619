/// Build-time tool: compile_profiles OUT.inc FILE.toml... reads the profiles by the rules of reader.h and
/// writes them as constexpr tables, which builtin.cpp includes. Faults go to stderr as PATH:LINE: …, exit 1.
/// compile_profiles --words OUT.inc FILE.toml writes each list of words as a table of its name.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/toml.h"
#include "platform/expression.h"
#include "platform/reader.h"

namespace rankshim::platform {
namespace {

/// A C++ string literal of the text, one source line per line of it.
std::string literal(std::string_view text) {
  std::string result = "\"";
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c == '"' || c == '\\')
      result.append(1, '\\').append(1, text[i]);
    else if (c == '\n')
      result += i + 1 < text.size() ? "\\n\"\n    \"" : "\\n";
    else if (c == '\t')
      result += "\\t";
    else if (c == '\r')
      result += "\\r";
    else
      result += text[i];  // TOML allows no other control characters; UTF-8 is unchanged
  }
  return result + "\"sv";
}

std::string number(std::size_t value) { return std::to_string(value); }

const char* name(Op op) {
  switch (op) {
    case Op::text:
      return "text";
    case Op::variable:
      return "variable";
    case Op::either:
      return "either";
    case Op::join:
      return "join";
    case Op::call:
      return "call";
  }
  return "";
}

const char* name(Sign sign) {
  switch (sign) {
    case Sign::set:
      return "set";
    case Sign::not_set:
      return "not_set";
    case Sign::like:
      return "like";
    case Sign::unlike:
      return "unlike";
  }
  return "";
}

std::string name(Function function) {
  const auto* found = std::find_if(signatures.begin(), signatures.end(),
                                   [&](auto& signature) { return signature.function == function; });
  return found == signatures.end() ? "none" : std::string(found->name);
}

/// `constexpr TYPE NAME[] = {…};`
std::string table(const std::string& type, const std::string& table_name,
                  const std::vector<std::string>& rows) {
  std::string out = "constexpr " + type + " " + table_name + "[] = {\n";
  for (const std::string& row : rows) out += "    " + row + ",\n";
  return out + "};\n";
}

/// Combines the tables of profiles: a row that occurs several times is stored once.
class Common {
 public:
  /// The row for the profile in the table of profiles, over the common tables.
  std::string add(const Profile& profile) {
    const Tables& its = *profile.tables;
    const auto alternatives = rows<Alternative>(profile.match(), [&](const Alternative& one) {
      return Alternative{conditions(its, its.conditions_of(one))};
    });
    const auto roles = [&](std::span<const Role> all) {
      return range(tables_.roles, rows<Role>(all, [&](const Role& role) {
                     return Role{text(its.text(role.name)),
                                 text(its.text(role.fix)),
                                 {conditions(its, its.conditions_of(role.when))}};
                   }));
    };
    const auto expressions = rows<FactExpression>(profile.expressions(), [&](const FactExpression& one) {
      return FactExpression{one.fact, step(its, one.root)};
    });
    std::string row = "{&all_tables, " + number(text(profile.name())) + ", " + number(text(profile.title())) +
                      ", " + number(text(profile.supersedes())) + ", " + number(text(profile.agents())) +
                      ", ProfileKind::" + std::string(kind_names[static_cast<std::size_t>(profile.kind)]) +
                      (profile.opt_in ? ", true" : ", false");
    for (const Slice one :
         {conditions(its, profile.signs()), conditions(its, profile.unless()),
          range(tables_.alternatives, alternatives), range(tables_.expressions, expressions),
          roles(profile.roles()), roles(profile.refusals()), roles(profile.pending())})
      row += ", " + written(one);
    return row + "}";
  }

  /// The tables as text; nothing if there are too many rows for an index.
  [[nodiscard]] std::optional<std::string> write() const {
    const std::string pool = common_pool();
    constexpr std::size_t most = 0xFFFF;
    for (const std::size_t size : {pool.size(), texts_.size(), tables_.steps.size(), tables_.children.size(),
                                   tables_.conditions.size(), tables_.alternatives.size(),
                                   tables_.expressions.size(), tables_.roles.size()})
      if (size > most) return std::nullopt;
    std::string out;
    std::vector<std::string> lines;
    const auto put = [&](const char* type, const char* table_name) {
      out += table(type, table_name, lines);
      lines.clear();
    };
    for (const Step& one : tables_.steps)
      lines.push_back(std::string("{Op::") + name(one.op) + ", Function::" + name(one.function) + ", " +
                      number(one.index) + "}");
    put("Step", "all_steps");
    for (const std::uint16_t one : tables_.children) lines.push_back(number(one));
    put("std::uint16_t", "all_children");
    for (const std::string& one : texts_)
      lines.push_back("{" + number(pool.find(one)) + ", " + number(one.size()) + "}");
    put("Piece", "all_texts");
    for (const Condition& one : tables_.conditions)
      lines.push_back(std::string("{Sign::") + name(one.sign) + ", " + number(one.root) + ", " +
                      number(one.glob) + "}");
    put("Condition", "all_conditions");
    for (const Alternative& one : tables_.alternatives) lines.push_back("{" + written(one.conditions) + "}");
    put("Alternative", "all_alternatives");
    for (const FactExpression& one : tables_.expressions)
      lines.push_back("{Fact::" + std::string(rankshim::name(one.fact)) + ", " + number(one.root) + "}");
    put("FactExpression", "all_expressions");
    for (const Role& one : tables_.roles)
      lines.push_back("{" + number(one.name) + ", " + number(one.fix) + ", {" + written(one.when.conditions) +
                      "}}");
    put("Role", "all_roles");
    return out +
           "constexpr Tables all_tables = {all_steps, all_children, all_texts, all_conditions,\n"
           "    all_alternatives, all_expressions, all_roles,\n    " +
           literal(pool) + "};\n";
  }

 private:
  TextIndex text(std::string_view text) {
    const auto found = std::find(texts_.begin(), texts_.end(), text);
    const auto index = found - texts_.begin();
    if (found == texts_.end()) texts_.emplace_back(text);
    return static_cast<TextIndex>(index);
  }

  std::uint16_t step(const Tables& its, std::uint16_t root) {
    Step one = its.steps[root];
    if (one.op == Op::text || one.op == Op::variable) {
      one.index = text(its.text(one.index));
    } else {
      std::vector<std::uint16_t> list{static_cast<std::uint16_t>(its.children_of(one).size())};
      for (const std::uint16_t child : its.children_of(one)) list.push_back(step(its, child));
      one.index = position_of(tables_.children, list, [](auto a, auto b) { return a == b; });
    }
    return position_of(tables_.steps, {one}, [](const Step& a, const Step& b) {
      return a.op == b.op && a.function == b.function && a.index == b.index;
    });
  }

  Slice conditions(const Tables& its, std::span<const Condition> all) {
    if (all.empty()) return {};
    const auto list = rows<Condition>(all, [&](const Condition& one) {
      const bool has_glob = one.sign == Sign::like || one.sign == Sign::unlike;
      return Condition{one.sign, step(its, one.root), text(has_glob ? its.text(one.glob) : "")};
    });
    const auto same = [](const Condition& a, const Condition& b) {
      return a.sign == b.sign && a.root == b.root && a.glob == b.glob;
    };
    return {position_of(tables_.conditions, list, same), static_cast<std::uint16_t>(list.size())};
  }

  template <class Row, class Make>
  static std::vector<Row> rows(std::span<const Row> all, const Make& make) {
    std::vector<Row> result;
    std::transform(all.begin(), all.end(), std::back_inserter(result), make);
    return result;
  }

  /// The position of the list in the table; appends the list if it is not there yet.
  template <class Row, class Same>
  static std::uint16_t position_of(std::vector<Row>& table, const std::vector<Row>& list, const Same& same) {
    const auto found = std::search(table.begin(), table.end(), list.begin(), list.end(), same);
    const auto index = found - table.begin();
    if (found == table.end()) table.insert(table.end(), list.begin(), list.end());
    return static_cast<std::uint16_t>(index);
  }

  template <class Row>
  static Slice range(std::vector<Row>& table, const std::vector<Row>& list) {
    const auto first = static_cast<std::uint16_t>(table.size());
    table.insert(table.end(), list.begin(), list.end());
    return {first, static_cast<std::uint16_t>(list.size())};
  }

  static std::string written(Slice range) {
    return "{" + number(range.first) + ", " + number(range.count) + "}";
  }

  /// The pool of all texts, without those that are part of another text.
  [[nodiscard]] std::string common_pool() const {
    std::vector<std::string_view> texts(texts_.begin(), texts_.end());
    std::sort(texts.begin(), texts.end(),
              [](auto a, auto b) { return a.size() != b.size() ? a.size() > b.size() : a < b; });
    std::string pool;
    for (const std::string_view text : texts)
      if (pool.find(text) == std::string::npos) pool += text;
    return pool;
  }

  OwnedTables tables_;  // except the texts
  std::vector<std::string> texts_;
};

int compile(const std::string& output, std::vector<std::filesystem::path> files) {
  std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) { return a.stem() < b.stem(); });
  std::string out = "// Written by compile_profiles from config/platforms/*.toml; not to be edited.\n\n";
  std::vector<OwnedProfile> profiles;
  bool failed = false;
  for (const auto& file : files) {
    std::ifstream in(file, std::ios::binary);
    const std::string document{std::istreambuf_iterator<char>(in), {}};
    if (!in) {
      std::fprintf(stderr, "%s: cannot be read\n", file.c_str());
      failed = true;
      continue;
    }
    auto outcome = read_profile(file.stem().string(), document, file.string());
    if (const auto* faults = std::get_if<Faults>(&outcome)) {
      for (const Fault& fault : *faults) std::fprintf(stderr, "%s\n", to_line(fault).c_str());
      failed = true;
      continue;
    }
    profiles.push_back(std::move(std::get<OwnedProfile>(outcome)));
  }
  if (failed) return EXIT_FAILURE;
  Common common;
  std::vector<std::string> rows;
  for (const OwnedProfile& owned : profiles) rows.push_back(common.add(owned.profile()));
  const auto tables = common.write();
  if (!tables) {
    std::fprintf(stderr, "all profiles together have more than an index can say\n");
    return EXIT_FAILURE;
  }
  out += *tables + table("Profile", "all_profiles", rows);
  std::vector<std::string> documents;
  for (const OwnedProfile& owned : profiles)
    documents.push_back("R\"document(" + std::string(owned.document()) + ")document\"sv");
  out += table("std::string_view", "all_documents", documents);
  std::ofstream stream(output, std::ios::binary);
  stream << out;
  stream.close();
  if (!stream) std::fprintf(stderr, "%s: cannot be written\n", output.c_str());
  return stream ? EXIT_SUCCESS : EXIT_FAILURE;
}

int compile_words(const std::string& output, const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  const std::string document{std::istreambuf_iterator<char>(in), {}};
  Faults faults;
  const auto lists = TomlDocument(file, faults).parse(document);
  std::string out = "// Written by compile_profiles; not to be edited.\n\n";
  if (lists) {
    for (const auto& [key, list] : *lists) {
      std::vector<std::string> words;
      if (list.is_array())
        for (const toml::node& word : *list.as_array()) words.push_back(literal(word.value_or("")));
      out += table("std::string_view", std::string(key.str()), words);
    }
  }
  for (const Fault& fault : faults) std::fprintf(stderr, "%s\n", to_line(fault).c_str());
  std::ofstream stream(output, std::ios::binary);
  stream << out;
  stream.close();
  return lists && stream ? EXIT_SUCCESS : EXIT_FAILURE;
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
