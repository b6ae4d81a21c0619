#include "base/folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <filesystem>
#include <set>
#include <string>

namespace rankshim {
namespace {

std::set<std::string> names_in(Folder& folder) {
  std::set<std::string> names;
  while (const char* name = folder.next()) names.insert(name);
  return names;
}

TEST_CASE("a folder's entries are read once") {
  std::string path = "/tmp/rankshim-folder-XXXXXX";
  REQUIRE(mkdtemp(path.data()) != nullptr);
  REQUIRE(mkdir((path + "/.hidden").c_str(), S_IRWXU) == 0);
  REQUIRE(mkdir((path + "/below").c_str(), S_IRWXU) == 0);
  Folder by_path(path.c_str());
  REQUIRE(by_path);
  CHECK(names_in(by_path) == std::set<std::string>{".hidden", "below"});
  CHECK(names_in(by_path).empty());
  Folder by_descriptor(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  CHECK(names_in(by_descriptor).size() == 2);
  CHECK(faccessat(by_descriptor.descriptor(), "below", F_OK, 0) == 0);
  CHECK(std::filesystem::remove_all(path) == 3);
}

TEST_CASE("a folder that cannot be opened has no entries") {
  Folder absent("/tmp/rankshim-there-is-no-such-folder");
  CHECK(errno == ENOENT);
  CHECK_FALSE(absent);
  CHECK(absent.next() == nullptr);
  CHECK(absent.descriptor() == -1);
  const int file = open("/dev/null", O_RDONLY | O_CLOEXEC);
  Folder no_folder(file);
  CHECK_FALSE(no_folder);
  CHECK(fcntl(file, F_GETFD) == -1);  // it was closed
}

}  // namespace
}  // namespace rankshim
