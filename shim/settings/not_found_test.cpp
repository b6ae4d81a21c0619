#include "settings/not_found.h"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

using namespace rankshim;
using namespace rankshim::settings;

TEST_CASE("a program that is not found is told with what to do about it") {
  const std::filesystem::path before = std::filesystem::current_path();
  std::string folder = "/tmp/rankshim_not_found_test.XXXXXX";
  REQUIRE(mkdtemp(folder.data()) != nullptr);
  std::filesystem::current_path(folder);
  std::ofstream("runs.sh") << "#!/bin/sh\n";
  std::ofstream("plain.sh") << "#!/bin/sh\n";
  REQUIRE(chmod("runs.sh", 0755) == 0);
  REQUIRE(symlink("/nowhere/python3", "python3") == 0);
  REQUIRE(symlink("python3", "python") == 0);
  REQUIRE(symlink("gone", "tool") == 0);

  struct Row {
    const char* program;
    const char* told;
  };
  for (const auto& [program, told] :
       {Row{"no-such", "no-such was not found in PATH"}, Row{"./no-such", "./no-such was not found"},
        Row{"runs.sh", "runs.sh was not found in PATH; it is in the working directory: write ./runs.sh"},
        Row{"plain.sh", "plain.sh was not found in PATH; it is in the working directory: write sh plain.sh"},
        Row{"python train.py",
            "'python train.py' was not found in PATH; it is one word: give each word of the command "
            "separately"},
        Row{"./python",
            "./python was not found: it is a symbolic link to /nowhere/python3, which is not there; create "
            "its "
            "virtual environment again with this image's Python"},
        Row{"./tool",
            "./tool was not found: it is a symbolic link to ./gone, which is not there; correct the link"},
        Row{"status",
            "status was not found in PATH; a subcommand is the first word: rankshim status [OPTIONS]"}})
    CHECK(not_found(program) == told);

  std::filesystem::current_path(before);
  std::filesystem::remove_all(folder);
}
