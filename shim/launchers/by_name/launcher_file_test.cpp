#include "launchers/by_name/named_launcher.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "node/fake_host_for_test.h"

namespace rankshim::launchers {
namespace {

std::vector<std::string> faults_of(std::string_view document) {
  Faults faults;
  read_launcher(document, "x.launcher.toml", faults);
  std::vector<std::string> lines;
  for (const Fault& fault : faults) lines.push_back(to_line(fault));
  return lines;
}

TEST_CASE("every file of config/launchers is right, and is in the binary as it is there") {
  std::vector<LauncherFile> builtin;
  add_builtin_launchers("", builtin);
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(RANKSHIM_SOURCE_DIR "/config/launchers")) {
    ++files;
    std::ifstream in(entry.path());
    const std::string document{std::istreambuf_iterator<char>(in), {}};
    CAPTURE(entry.path());
    Faults faults;
    const LauncherFile file = read_launcher(document, "built-in " + entry.path().filename().string(), faults);
    CHECK(faults.empty());
    CHECK_THAT(document, Catch::StartsWith("starts = ["));  // where a command is looked for, not as TOML
    for (const std::string& words : file.starts) CHECK(starts_named_launcher("exec " + words + " x"));
    CHECK_THAT(document, Catch::Contains("# Source: "));
    CHECK_THAT(builtin, Catch::VectorContains(file));
  }
  CHECK(builtin.size() == files);
  add_builtin_launchers("", builtin);
  CHECK(builtin.size() == files);  // each once
  CHECK_FALSE(starts_named_launcher("exec python train.py"));
}

TEST_CASE("what is wrong with a launcher's file is named with its line") {
  CHECK(faults_of("flags = ['--x']\n") ==
        std::vector<std::string>{
            "x.launcher.toml:1: 'starts' is missing or empty; write the words that start the launcher [R5]"});
  CHECK_THAT(
      faults_of("starts = ['x']\nflag = ['--x']\n").at(0),
      Catch::Contains("x.launcher.toml:2: there is no key 'flag' here, the nearest is flags; use one of "));
  CHECK_THAT(faults_of("starts = ['x']\nflags = ['--x={nodes}']\n").at(0),
             Catch::Contains(":2: there is no {nodes}; use one of nnodes"));
  CHECK_THAT(faults_of("starts = ['x']\nflags = ['x=1']\n").at(0), Catch::Contains("begin it with - or --"));
  CHECK(faults_of("starts = 'x'\n").empty());
  CHECK(faults_of("starts = ['x']\nwarning = 1\n").size() == 1);
  CHECK(faults_of("starts = ['x', \"a\\nb\"]\n").size() == 1);
  CHECK(faults_of("starts = ['x']\n[set]\nA = ''\n").size() == 1);
  CHECK(faults_of("starts = [").size() == 1);
}

TEST_CASE("a launcher's file is not a profile of a platform, and one that cannot be read is a fault") {
  const node::FakeHost host({});
  Faults faults;
  users_launchers("/no/x.launcher.toml", host, faults);
  CHECK(faults.size() == 1);
  CHECK(users_launchers("/no/x.toml", host, faults).empty());
}

}  // namespace
}  // namespace rankshim::launchers
