/// Build-time tool: compile_profiles OUT.inc FILE.toml... reads profiles by the rules of profile.h and writes
/// them as constants, which recognise.cpp includes. Prints faults to stderr as PATH:LINE: … and exits with 1.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/text.h"
#include "platform/profile.h"

namespace rankshim::platform {
namespace {

/// The text as a raw C++ string literal.
std::string literal(std::string_view text) { return "R\"text(" + std::string(text) + ")text\"sv"; }

template <class Enum>
std::string enumerator(const char* type, Enum one) {
  return std::string(type) + "{" + std::to_string(static_cast<unsigned>(one)) + "}";
}

/// A list of variables of which at least one is set whenever the expression yields something; of several such
/// lists, the one that the fewest profiles mention. It contains the empty name, which all profiles mention,
/// if the expression may need no variable.
std::vector<std::string_view> needed(const Expression& one, std::span<const Profile> profiles) {
  if (one.function == Function::variable) return {one.text};
  const auto mentions = [profiles](const std::vector<std::string_view>& names) {
    return std::ranges::count_if(profiles, [&](const Profile& profile) {
      return std::ranges::any_of(names, [&](auto name) { return profile.document.find(name) != name.npos; });
    });
  };
  std::vector<std::string_view> best;
  if (one.function != Function::either) best.emplace_back();
  if (one.function == Function::unless) return best;
  for (const Expression& child : one.children) {
    const auto names = needed(child, profiles);
    if (one.function == Function::either)
      best.insert(best.end(), names.begin(), names.end());
    else if (mentions(names) < mentions(best))
      best = names;
  }
  return best;
}

/// The profiles' clues (recognise.cpp) as rows of a table, sorted by variable.
std::string clues_of(std::span<const Profile> profiles) {
  std::set<std::string> rows;
  for (const Profile& profile : profiles) {
    const auto add = [&](const Expression& condition) {
      for (const std::string_view name : needed(condition, profiles))
        rows.insert("    {" + literal(name) + ", " + std::to_string(&profile - profiles.data()) + "},\n");
    };
    std::ranges::for_each(profile.signs, add);
    for (const auto& [all, any] : profile.match) {
      std::vector<Expression> conditions(all.begin(), all.end());
      if (!any.empty()) conditions.push_back({Function::either, {}, any});
      add({Function::join, {}, conditions});
    }
  }
  return joined(rows, "");
}

/// Writes the parts of profiles as constants.
class Writer {
 public:
  std::string lists;  ///< each with its own name, inner ones first

  /// Returns the name of a list. Equal lists, such as the parts of each use of a [let], are written once.
  template <class Row>
  std::string list(const std::string& type, std::span<const Row> rows) {
    if (rows.empty()) return "{}";
    std::vector<std::string> written;
    for (const Row& one : rows) written.push_back(row(one));
    const std::string content = type + "[] = {\n    " + joined(written, ",\n    ") + "};\n";
    const auto [found, is_new] = names_.emplace(content, "list_" + std::to_string(names_.size()));
    if (is_new) lists += "constexpr " + type + " " + found->second + content.substr(type.size());
    return found->second;
  }

 private:
  static std::string row_of(const std::vector<std::string>& values) { return "{" + joined(values) + "}"; }
  static std::string row(std::string_view one) { return literal(one); }
  std::string row(const Expression& one) {
    return row_of(
        {enumerator("Function", one.function), literal(one.text), list("Expression", one.children)});
  }
  std::string row(const Conditions& one) {
    return row_of({list("Expression", one.all), list("Expression", one.any)});
  }
  std::string row(const FactExpression& one) {
    return row_of({enumerator("Fact", one.fact), row(one.expression)});
  }
  std::string row(const Role& one) { return row_of({literal(one.name), literal(one.fix), row(one.when)}); }
  std::string row(const Profile& one) {
    return row_of(
        {literal(one.name), literal(one.document), literal(one.title), enumerator("ProfileKind", one.kind),
         one.opt_in ? "true" : "false", list("std::string_view", one.supersedes),
         list("std::string_view", one.agents), list("Expression", one.signs), list("Expression", one.unless),
         list("Conditions", one.match), list("FactExpression", one.facts), list("Role", one.idle_roles),
         list("Role", one.refusals), list("Role", one.warnings), list("Role", one.pending)});
  }

  std::map<std::string, std::string> names_;  // of the lists, by content
};

}  // namespace
}  // namespace rankshim::platform

int main(int argc, char** argv) {
  using namespace rankshim;
  std::vector<std::filesystem::path> files(argv + 2, argv + argc);
  std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) { return a.stem() < b.stem(); });
  platform::Arena arena;
  std::vector<platform::Profile> profiles;
  Faults faults;
  for (const auto& file : files) {
    std::ifstream in(file, std::ios::binary);
    const auto outcome = platform::read_profile(
        file.stem().string(), {std::istreambuf_iterator<char>(in), {}}, file.string(), arena);
    if (const auto* wrong = std::get_if<Faults>(&outcome))
      faults.insert(faults.end(), wrong->begin(), wrong->end());
    else
      profiles.push_back(std::get<platform::Profile>(outcome));
  }
  for (const Fault& fault : faults) std::fprintf(stderr, "%s\n", to_line(fault).c_str());
  if (!faults.empty()) return EXIT_FAILURE;
  platform::Writer writer;
  const std::string name = writer.list("Profile", std::span<const platform::Profile>(profiles));
  std::ofstream out(argv[1], std::ios::binary);
  out << "// Written by compile_profiles from config/platforms/*.toml; not to be edited.\n\n"
      << writer.lists << "constexpr std::span<const Profile> all_profiles = " << name << ";\n\n"
      << "constexpr Clue clues[] = {\n"
      << platform::clues_of(profiles) << "};\n"
      << std::flush;
  return out ? EXIT_SUCCESS : EXIT_FAILURE;
}
