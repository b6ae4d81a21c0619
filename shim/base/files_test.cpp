#include "base/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

using namespace rankshim;

namespace {

std::string content(const std::string& path) {
  const auto read = read_file(path);
  REQUIRE(std::holds_alternative<std::string>(read));
  return std::get<std::string>(read);
}

Unreadable refusal(const std::string& path) {
  const auto read = read_file(path);
  REQUIRE(std::holds_alternative<Unreadable>(read));
  return std::get<Unreadable>(read);
}

}  // namespace

TEST_CASE("only a file is read, and of a large one what shows that it is too large", "[attack]") {
  std::string folder = "/tmp/rankshim_read_file_test.XXXXXX";
  REQUIRE(mkdtemp(folder.data()) != nullptr);
  const std::string fifo = folder + "/fifo", large = folder + "/large", small = folder + "/small";

  REQUIRE(mkfifo(fifo.c_str(), 0600) == 0);
  // Without a writer a FIFO would look empty, with one it would be eaten.
  CHECK(refusal(fifo).why() == "it is not a regular file");
  CHECK(refusal(folder).error == EISDIR);
  CHECK(refusal(folder + "/none").is_absent());
  CHECK(refusal("/dev/null/none").is_absent());
  CHECK(content("/dev/null").empty());
  CHECK(refusal("/dev/zero").why() == "it is not a regular file");
  for (const int error : {ENOMEM, EMFILE, ENFILE, ENOSYS}) CHECK(Unreadable{error}.is_for_want());
  for (const int error : {EACCES, EIO, ELOOP, EINVAL}) {
    CHECK_FALSE(Unreadable{error}.is_absent());
    CHECK_FALSE(Unreadable{error}.is_for_want());
  }

  std::ofstream(small) << "text";
  CHECK(content(small) == "text");
  CHECK_FALSE(content("/proc/self/comm").empty());
  std::ofstream(large).close();
  REQUIRE(truncate(large.c_str(), 3 * largest_file) == 0);
  CHECK(content(large).size() == largest_file + 1);

  for (const std::string& path : {fifo, large, small}) unlink(path.c_str());
  rmdir(folder.c_str());
}

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
  Folder folder(path.c_str());
  REQUIRE(folder);
  CHECK(names_in(folder) == std::set<std::string>{".hidden", "below"});
  CHECK(names_in(folder).empty());
  CHECK(std::filesystem::remove_all(path) == 3);
}

TEST_CASE("a folder that cannot be opened has no entries") {
  Folder absent("/tmp/rankshim-there-is-no-such-folder");
  CHECK(errno == ENOENT);
  CHECK_FALSE(absent);
  CHECK(absent.next() == nullptr);
}

}  // namespace
}  // namespace rankshim
