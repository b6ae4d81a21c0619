#include "base/remove_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

using namespace rankshim;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

std::string new_folder() {
  std::string path = "/tmp/rankshim-remove-XXXXXX";
  REQUIRE(mkdtemp(path.data()) != nullptr);
  return path;
}

}  // namespace

TEST_CASE("a folder is removed however deep it is", "[attack]") {
  const std::string path = new_folder();
  int at = open(path.c_str(), O_RDONLY | O_DIRECTORY);
  for (int depth = 0; depth < 5000; ++depth) {  // a path of 10,000 bytes, beyond PATH_MAX
    REQUIRE(mkdirat(at, "d", 0700) == 0);
    const int below = openat(at, "d", O_RDONLY | O_DIRECTORY);
    close(openat(below, "file", O_WRONLY | O_CREAT, 0600));
    close(at);
    at = below;
  }
  close(at);
  CHECK(remove_folder(path, 30s));
  CHECK_FALSE(fs::exists(path));
}

TEST_CASE("what links lead to stays, and what its owner may not write in goes", "[attack]") {
  const std::string path = new_folder(), precious = new_folder();
  std::ofstream(precious + "/file") << "x";
  fs::create_directory_symlink(precious, path + "/link");
  fs::create_directories(path + "/.1/.2/.3");
  std::ofstream(path + "/.1/.2/.3/file") << "x";
  fs::permissions(path + "/.1/.2", fs::perms::owner_read | fs::perms::owner_exec);
  CHECK(remove_folder(path, 30s));
  CHECK(fs::exists(precious + "/file"));
  CHECK(remove_folder(precious, 30s));
  CHECK(remove_folder(precious, 30s));  // it is gone
}

TEST_CASE("removing is given up where it takes too long", "[attack]") {
  const std::string path = new_folder();
  fs::create_directories(path + "/a/b");
  CHECK_FALSE(remove_folder(path, 0s));
  CHECK(fs::exists(path + "/a/b"));
  CHECK(remove_folder(path, 30s));
}

TEST_CASE("what lies beside the folder stays as it is", "[attack]") {
  const std::string parent = new_folder();
  fs::create_directories(parent + "/removed/below");
  std::ofstream(parent + "/neighbour") << "x";
  fs::permissions(parent, fs::perms::owner_all | fs::perms::others_read);
  CHECK(remove_folder(parent + "/removed", 30s));
  CHECK_FALSE(fs::exists(parent + "/removed"));
  CHECK(fs::exists(parent + "/neighbour"));
  CHECK(fs::status(parent).permissions() == (fs::perms::owner_all | fs::perms::others_read));
  CHECK(remove_folder(parent, 30s));
}
