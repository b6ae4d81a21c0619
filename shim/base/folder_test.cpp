#include "base/folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <set>
#include <string>

#include "base/remove_folder.h"

namespace rankshim {
namespace {

std::set<std::string> names_in(Folder& folder) {
  std::set<std::string> names;
  while (const char* name = folder.next()) names.insert(name);
  return names;
}

TEST_CASE("a folder's entries are read once, and again after rewind()") {
  std::string path = "/tmp/rankshim-folder-XXXXXX";
  REQUIRE(mkdtemp(path.data()) != nullptr);
  REQUIRE(mkdir((path + "/.hidden").c_str(), S_IRWXU) == 0);
  REQUIRE(mkdir((path + "/below").c_str(), S_IRWXU) == 0);
  Folder by_path(path.c_str());
  REQUIRE(by_path);
  CHECK(names_in(by_path) == std::set<std::string>{".hidden", "below"});
  CHECK(names_in(by_path).empty());
  by_path.rewind();
  CHECK(names_in(by_path).size() == 2);
  Folder by_descriptor(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  CHECK(names_in(by_descriptor).size() == 2);
  CHECK(faccessat(by_descriptor.descriptor(), "below", F_OK, 0) == 0);
  CHECK(remove_folder(path, std::chrono::milliseconds(10'000)));
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
