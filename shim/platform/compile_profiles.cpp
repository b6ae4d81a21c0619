/// Build-time tool: compile_profiles OUT.inc FILE.toml... reads the profiles by the rules of reader.h and
/// writes them as constexpr tables, which builtin.cpp includes. Faults go to stderr as PATH:LINE: …, exit 1.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "platform/packed_text.h"
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
      result += text[i];  // TOML allows no other control characters; UTF-8 stands as it is
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

/// `constexpr TYPE NAME[] = {…};` and what a span of it is written as; an empty table is an empty span.
std::string table(std::string& out, const std::string& type, const std::string& table_name,
                  const std::vector<std::string>& rows) {
  if (rows.empty()) return "{}";
  out += "constexpr " + type + " " + table_name + "[] = {\n";
  for (const std::string& row : rows) out += "    " + row + ",\n";
  out += "};\n";
  return table_name;
}

/// One pool for the texts of all profiles: what is in several of them, or part of another, is there once.
std::string common_pool(const std::vector<OwnedProfile>& profiles) {
  std::vector<std::string_view> texts;
  const auto add_globs = [&](const Profile& profile, const Alternative& alternative) {
    for (const Condition& condition : alternative.conditions) texts.push_back(profile.view(condition.glob));
  };
  for (const OwnedProfile& owned : profiles) {
    const Profile& profile = owned.profile();
    for (const Step& step : profile.steps) texts.push_back(profile.view(step.text));
    for (const Alternative& alternative : profile.match) add_globs(profile, alternative);
    for (const Role& role : profile.roles) add_globs(profile, role.when);
    for (const Role& role : profile.refusals) add_globs(profile, role.when);
    for (const Role& role : profile.pending) add_globs(profile, role.when);
  }
  std::sort(texts.begin(), texts.end(),
            [](auto a, auto b) { return a.size() != b.size() ? a.size() > b.size() : a < b; });
  std::string pool;
  for (const std::string_view text : texts)
    if (pool.find(text) == std::string::npos) pool += text;
  return pool;
}

std::string piece(const std::string& pool, std::string_view text) {
  return "{" + number(pool.find(text)) + ", " + number(text.size()) + "}";
}

std::string conditions(std::string& out, const std::string& table_name, const Profile& profile,
                       const Alternative& alternative, const std::string& pool) {
  std::vector<std::string> rows;
  for (const Condition& c : alternative.conditions)
    rows.push_back(std::string("{Sign::") + name(c.sign) + ", " + number(c.root) + ", " +
                   piece(pool, profile.view(c.glob)) + "}");
  return table(out, "Condition", table_name, rows);
}

/// Writes the tables of one profile to `out`; the row of the table of profiles.
std::string write(const Profile& profile, std::string& out, const std::string& prefix,
                  const std::string& pool) {
  std::vector<std::string> match, places, steps, children;
  for (const Alternative& alternative : profile.match)
    match.push_back(
        "{" + conditions(out, prefix + "match_" + number(match.size()), profile, alternative, pool) + "}");
  const auto states = [&](const std::string& kind, std::span<const Role> all) {
    std::vector<std::string> rows;
    for (const Role& role : all)
      rows.push_back("{" + literal(role.name) + ", {" +
                     conditions(out, prefix + kind + "_" + number(rows.size()), profile, role.when, pool) +
                     "}}");
    return table(out, "Role", prefix + kind, rows);
  };
  const std::string roles = states("role", profile.roles), refusals = states("refusal", profile.refusals),
                    pending = states("pending", profile.pending);
  for (const Place& place : profile.places)
    places.push_back("{Fact::" + std::string(rankshim::name(place.fact)) + ", " + number(place.root) + "}");
  for (const Step& step : profile.steps)
    steps.push_back(std::string("{Op::") + name(step.op) + ", Function::" + name(step.function) + ", " +
                    number(step.child_count) + ", " + number(step.first_child) + ", " +
                    piece(pool, profile.view(step.text)) + "}");
  for (const std::uint16_t child : profile.children) children.push_back(number(child));

  std::string row = "{" + literal(profile.name) + ", " + literal(profile.title) + ", " +
                    literal(profile.supersedes) +
                    ", Granularity::" + (profile.granularity == Granularity::process ? "process" : "node") +
                    (profile.opt_in ? ", true, " : ", false, ") + number(profile.fallback);
  row += ", " + table(out, "Alternative", prefix + "match", match);
  row += ", " + table(out, "Place", prefix + "places", places);
  row += ", " + roles + ", " + refusals + ", " + pending;
  row += ", " + table(out, "Step", prefix + "steps", steps);
  row += ", " + table(out, "std::uint16_t", prefix + "children", children);
  out += "\n";
  return row + ", pool}";
}

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
  const std::string pool = common_pool(profiles);
  if (pool.size() > 0xFFFF) {
    std::fprintf(stderr, "the texts of all profiles together are longer than a Piece can say\n");
    return EXIT_FAILURE;
  }
  out += "constexpr std::string_view pool =\n    " + literal(pool) + ";\n\n";
  std::vector<std::string> rows;
  for (const OwnedProfile& owned : profiles)
    rows.push_back(write(owned.profile(), out, "p" + number(rows.size()) + "_", pool));
  table(out, "Profile", "all_profiles", rows);
  std::string documents;
  for (const OwnedProfile& owned : profiles) documents.append(owned.document()).append(1, '\0');
  const std::string packed = pack(documents);
  std::vector<std::string> bytes;
  bytes.reserve(packed.size());
  for (const char c : packed) bytes.push_back(number(static_cast<unsigned char>(c)));
  table(out, "unsigned char", "packed_bytes", bytes);
  out +=
      "const std::string_view packed_documents(reinterpret_cast<const char*>(packed_bytes), sizeof "
      "packed_bytes);\n";
  out += "constexpr std::size_t documents_size = " + number(documents.size()) + ";\n";
  std::ofstream stream(output, std::ios::binary);
  stream << out;
  stream.close();
  if (!stream) std::fprintf(stderr, "%s: cannot be written\n", output.c_str());
  return stream ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace
}  // namespace rankshim::platform

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: compile_profiles OUT.inc FILE.toml...\n");
    return EXIT_FAILURE;
  }
  return rankshim::platform::compile(argv[1], {argv + 2, argv + argc});
}
