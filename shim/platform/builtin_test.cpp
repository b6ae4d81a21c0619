#include "platform/builtin.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "node/fake_node.h"
#include "platform/recognise.h"

/// The recorded environments: testdata/PROFILE/CASE.txt, read as they are found, so that a new platform needs
/// its TOML file and these alone. Above the line `=>` stand variables as `env` prints them, `hostname: NAME`
/// and `file PATH: TEXT` (\n and \t as in C); below it all that has to come of them, no more and no less:
///
///     also: OTHER, …          profiles that are recognised too
///     role: NAME              a role that does not train
///     FACT: VALUE (SOURCE)
///
/// Lines that begin with # say where the environment comes from.

using namespace rankshim;
using namespace rankshim::platform;

namespace {

struct Recording {
  std::vector<std::string> variables;
  std::string hostname = "node-of-no-name";
  std::map<std::string, std::string> files;
  std::vector<std::string> expected;
};

std::string unescaped(std::string text) {
  for (std::size_t at = 0; (at = text.find('\\', at)) != std::string::npos; ++at) {
    REQUIRE(at + 1 < text.size());
    const char escaped = text[at + 1];
    REQUIRE((escaped == 'n' || escaped == 't'));
    text.replace(at, 2, escaped == 'n' ? "\n" : "\t");
  }
  return text;
}

Recording read(const std::filesystem::path& path) {
  Recording recording;
  std::ifstream in(path);
  bool above = true;
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line.starts_with('#')) continue;
    if (line == "=>") {
      above = false;
    } else if (!above) {
      recording.expected.push_back(line);
    } else if (line.starts_with("hostname: ")) {
      recording.hostname = line.substr(10);
    } else if (line.starts_with("file ")) {
      const auto colon = line.find(": ");
      recording.files[line.substr(5, colon - 5)] = unescaped(line.substr(colon + 2));
    } else {
      recording.variables.push_back(unescaped(line));
    }
  }
  REQUIRE_FALSE(above);
  return recording;
}

std::vector<std::string> described(const Platform& platform) {
  std::vector<std::string> lines;
  std::string also;
  for (const std::string& other : platform.also_matched) also += (also.empty() ? "also: " : ", ") + other;
  if (!also.empty()) lines.push_back(also);
  if (!platform.idle_role.empty()) lines.push_back("role: " + platform.idle_role);
  for (std::size_t i = 0; i < fact_count; ++i)
    if (const auto& value = platform.facts[static_cast<Fact>(i)])
      lines.push_back(std::string(fact_names[i]) + ": " + value->text + " (" + value->source() + ")");
  return lines;
}

}  // namespace

TEST_CASE("every recorded environment is recognised and gives its facts") {
  const std::filesystem::path testdata =
      std::filesystem::path(RANKSHIM_SOURCE_DIR) / "shim/platform/testdata";
  for (const auto& entry : std::filesystem::recursive_directory_iterator(testdata)) {
    if (!entry.is_regular_file()) continue;
    INFO(entry.path().string());
    Recording recording = read(entry.path());
    FakeNode node(recording.variables);
    node.name = recording.hostname;
    node.files = recording.files;
    const auto outcome = recognise(builtin_profiles(), "auto", node);
    REQUIRE(std::holds_alternative<Platform>(outcome));
    const Platform& platform = std::get<Platform>(outcome);
    CHECK(platform.name == entry.path().parent_path().filename().string());
    auto expected = recording.expected, found = described(platform);
    std::sort(expected.begin(), expected.end());
    std::sort(found.begin(), found.end());
    CHECK(found == expected);
  }
}

TEST_CASE("every built-in profile has a recorded environment, a title and a source for what it says") {
  for (const Profile& profile : builtin_profiles()) {
    INFO(profile.name);
    CHECK(std::filesystem::is_directory(std::filesystem::path(RANKSHIM_SOURCE_DIR) /
                                        "shim/platform/testdata" / std::string(profile.name)));
    CHECK_FALSE(profile.title.empty());
    CHECK(profile.text.find("ource") != std::string_view::npos);
  }
}

TEST_CASE("the built-in profiles are sorted by name, and each is there once") {
  const auto profiles = builtin_profiles();
  REQUIRE_FALSE(profiles.empty());
  for (std::size_t i = 1; i < profiles.size(); ++i) CHECK(profiles[i - 1].name < profiles[i].name);
}
