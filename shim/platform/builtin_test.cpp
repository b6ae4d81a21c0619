#include "platform/recognise.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "platform/recording_for_test.h"

using namespace rankshim;
using namespace rankshim::platform;

using node::FakeHost;

namespace {

std::vector<std::string> described(const Platform& platform) {
  std::vector<std::string> lines;
  for (const Fault& doubt : platform.doubts) lines.push_back("refused: " + doubt.what);
  if (!lines.empty()) return lines;
  std::string also;
  for (const std::string& other : platform.also_matched) also += (also.empty() ? "also: " : ", ") + other;
  if (!also.empty()) lines.push_back(also);
  if (platform.idle) lines.push_back("role: " + platform.idle->name);
  if (platform.pending)
    lines.push_back("pending: " + platform.pending->name + " (" + platform.pending->because + ")");
  for (std::size_t i = 0; i < fact_count; ++i)
    if (const auto& value = platform.facts[static_cast<Fact>(i)])
      lines.push_back(std::string(fact_names[i]) + ": " + value->text + " (" + value->source() + ")");
  return lines;
}

std::string source_file(const std::string& path) {
  std::ifstream in(std::filesystem::path(RANKSHIM_SOURCE_DIR) / path);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string document_file(const Profile& profile) {
  return source_file("config/platforms/" + std::string(profile.name) + ".toml");
}

}  // namespace

TEST_CASE("every recorded environment is recognised and gives its facts") {
  for (const Recording& recording : recordings()) {
    INFO(recording.path.string());
    FakeHost host(recording.variables);
    recording.apply(host);
    const std::string name = recording.path.parent_path().filename().string();
    const Profile* profile = find(builtin_profiles(), name);
    const bool asked = profile != nullptr && profile->opt_in;
    const auto outcome = recognise(builtin_profiles(), asked ? name : "auto", host);
    auto expected = recording.expected;
    std::vector<std::string> found;
    if (const auto* faults = std::get_if<Faults>(&outcome)) {
      for (const Fault& fault : *faults) found.push_back("refused: " + fault.what);
    } else {
      const Platform& platform = std::get<Platform>(outcome);
      CHECK(platform.id.name() == name);
      found = described(platform);
    }
    std::sort(expected.begin(), expected.end());
    std::sort(found.begin(), found.end());
    CHECK(found == expected);
  }
}

TEST_CASE("a profile of a platform that no longer exists is read from its file, and gives its facts") {
  std::set<std::string> read;
  for (const Recording& recording : recordings("testdata_of_examples")) {
    INFO(recording.path.string());
    const std::string name = recording.path.parent_path().filename();
    const std::string path = "/etc/rankshim.d/" + name + ".toml";
    FakeHost host(recording.variables);
    recording.apply(host);
    host.files[path] = source_file("examples/profiles/" + name + ".toml");
    CHECK(check_profile(path, host).empty());
    const auto set = read_profiles({}, host);
    REQUIRE(std::holds_alternative<ProfileSet>(set));
    const auto& [profiles, own, arena] = std::get<ProfileSet>(set);
    const auto outcome = recognise(profiles, "auto", host, own);
    REQUIRE(std::holds_alternative<Platform>(outcome));
    const auto& platform = std::get<Platform>(outcome);
    CHECK(platform.id.name() == name);
    auto expected = recording.expected, found = described(platform);
    std::ranges::sort(expected);
    std::ranges::sort(found);
    CHECK(found == expected);
    read.insert(name);
  }
  for (const auto& file :
       std::filesystem::directory_iterator(std::filesystem::path(RANKSHIM_SOURCE_DIR) / "examples/profiles"))
    if (file.path().extension() == ".toml") CHECK(read.contains(file.path().stem().string()));
}

TEST_CASE("no profile that is recognised is left out because none of its clues is there") {
  // For a copy nothing is known of its clues: all are evaluated.
  const std::vector<Profile> all(builtin_profiles().begin(), builtin_profiles().end());
  const auto found = [](std::span<const Profile> profiles, const node::Host& host) {
    const auto outcome = recognise(profiles, "auto", host);
    if (std::holds_alternative<Faults>(outcome)) return std::vector<std::string>{"faults"};
    std::vector<std::string> lines = described(std::get<Platform>(outcome));
    lines.push_back(std::get<Platform>(outcome).id.name());
    return lines;
  };
  for (const Recording& recording : recordings()) {
    INFO(recording.path.string());
    std::vector<std::vector<std::string>> environments = {{}, recording.variables};
    for (const std::string& one : recording.variables) {
      environments.push_back({one});
      std::erase(environments.emplace_back(recording.variables), one);
    }
    for (const std::vector<std::string>& variables : environments) {
      FakeHost host(variables);
      recording.apply(host);
      CHECK(found(builtin_profiles(), host) == found(all, host));
    }
  }
}

TEST_CASE("every built-in profile has a recorded environment, a title and a source") {
  for (const Profile& profile : builtin_profiles()) {
    INFO(profile.name);
    CHECK(std::filesystem::is_directory(std::filesystem::path(RANKSHIM_SOURCE_DIR) /
                                        "shim/platform/testdata" / std::string(profile.name)));
    CHECK_FALSE(profile.title.empty());
    CHECK(document_file(profile).find("ource") != std::string::npos);
  }
}

TEST_CASE(
    "a built-in profile has no line above 120 columns, and no call twice that is longer than its [let]") {
  for (const Profile& profile : builtin_profiles()) {
    INFO(profile.name);
    const std::string document = document_file(profile);
    std::istringstream lines(document);
    std::vector<std::string> calls;
    for (std::string line; std::getline(lines, line);) {
      CHECK(line.size() <= 120);
      if (line.starts_with('#')) continue;
      // Every call of one within another that begins on this line.
      for (std::size_t open = line.find('('); open != std::string::npos; open = line.find('(', open + 1)) {
        std::size_t depth = 0, deepest = 0, end = open, start = open;
        for (; end < line.size(); ++end) {
          depth += line[end] == '(' ? 1 : 0;
          deepest = std::max(deepest, depth);
          if (line[end] == ')' && --depth == 0) break;
        }
        while (start > 0 && (std::isalpha(line[start - 1]) != 0 || line[start - 1] == '_')) --start;
        if (end == line.size() || start == open || deepest < 2) continue;
        const std::string call = line.substr(start, end - start + 1);
        INFO(call);
        CHECK(std::find(calls.begin(), calls.end(), call) == calls.end());
        calls.push_back(call);
      }
    }
  }
}

TEST_CASE("a built-in profile's document is its file, as it is") {
  for (const Profile& profile : builtin_profiles()) CHECK(profile.document == document_file(profile));
}

TEST_CASE("the built-in profiles are sorted by name, and each is there once") {
  const auto profiles = builtin_profiles();
  REQUIRE_FALSE(profiles.empty());
  for (std::size_t i = 1; i < profiles.size(); ++i) CHECK(profiles[i - 1].name < profiles[i].name);
}
