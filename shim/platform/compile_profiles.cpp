/// Build-time tool: compile_profiles OUT.inc FILE.toml... reads the profiles by the rules of reader.h and
/// writes them as constants, which profiles.cpp includes. Faults go to stderr as PATH:LINE: …, exit 1.

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
    return row_of({literal(one.name), literal(one.document), literal(one.title),
                   enumerator("ProfileKind", one.kind), one.opt_in ? "true" : "false",
                   list("std::string_view", one.supersedes), list("std::string_view", one.agents),
                   list("Expression", one.signs), list("Expression", one.unless),
                   list("Conditions", one.match), list("FactExpression", one.facts),
                   list("Role", one.idle_roles), list("Role", one.refusals), list("Role", one.pending)});
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

}  // namespace
}  // namespace rankshim::platform

int main(int argc, char** argv) {
  using namespace rankshim;
  std::vector<std::filesystem::path> files(argv + 2, argv + argc);
  std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) { return a.stem() < b.stem(); });
  std::vector<std::string> profiles;
  Faults faults;
  platform::Writer writer;
  for (const auto& file : files) {
    std::ifstream in(file, std::ios::binary);
    platform::Store store;
    const auto outcome = platform::read_profile(
        file.stem().string(), {std::istreambuf_iterator<char>(in), {}}, file.string(), store);
    if (const auto* wrong = std::get_if<Faults>(&outcome))
      faults.insert(faults.end(), wrong->begin(), wrong->end());
    else
      profiles.push_back(writer.profile(std::get<platform::Profile>(outcome)));
  }
  for (const Fault& fault : faults) std::fprintf(stderr, "%s\n", to_line(fault).c_str());
  if (!faults.empty()) return EXIT_FAILURE;
  std::ofstream out(argv[1], std::ios::binary);
  out << "// Written by compile_profiles from config/platforms/*.toml; not to be edited.\n\n"
      << writer.lists << platform::table("Profile", "all_profiles", profiles) << std::flush;
  return out ? EXIT_SUCCESS : EXIT_FAILURE;
}
