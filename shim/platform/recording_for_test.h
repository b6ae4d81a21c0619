#pragma once

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "node/fake_host_for_test.h"

/// The recorded environments: testdata/PROFILE/CASE.txt, and testdata_of_examples/ for examples/profiles. All
/// files are read, so that a new platform needs only its TOML file and its recordings. Above the line `=>`
/// are variables as `env` prints them, `hostname: NAME` and `file PATH: TEXT` (\n and \t as in C); below it
/// is the complete result:
///
///     also: OTHER, …          profiles that are recognised too
///     role: NAME              a role that does not train
///     pending: NAME           what must end first
///     refused: WHAT           an ambiguous state; no other line follows
///     FACT: VALUE (SOURCE)
///
/// Lines that begin with # name the source of the environment.
namespace rankshim::platform {

struct Recording {
  std::filesystem::path path;
  std::vector<std::string> variables;
  std::string hostname = "node-of-no-name";
  std::map<std::string, std::string> files;
  std::vector<std::string> expected;

  /// The node that the environment was recorded on.
  void apply(node::FakeHost& host) const {
    host.name = hostname;
    host.files = files;
  }
};

inline std::string unescaped(std::string text) {
  for (std::size_t at = 0; (at = text.find('\\', at)) != std::string::npos; ++at) {
    REQUIRE(at + 1 < text.size());
    const char escaped = text[at + 1];
    REQUIRE((escaped == 'n' || escaped == 't'));
    text.replace(at, 2, escaped == 'n' ? "\n" : "\t");
  }
  return text;
}

inline Recording read_recording(const std::filesystem::path& path) {
  Recording recording;
  recording.path = path;
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

/// All of a folder, sorted by path.
inline std::vector<Recording> recordings(std::string_view folder = "testdata") {
  const auto testdata = std::filesystem::path(RANKSHIM_SOURCE_DIR) / "shim/platform" / folder;
  std::vector<Recording> result;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(testdata))
    if (entry.is_regular_file()) result.push_back(read_recording(entry.path()));
  std::sort(result.begin(), result.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  return result;
}

}  // namespace rankshim::platform
