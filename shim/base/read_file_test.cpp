#include "base/read_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <cstdlib>
#include <fstream>
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
  using Kind = Unreadable::Kind;
  // Without a writer a FIFO would look empty, with one it would be eaten.
  CHECK(refusal(fifo).kind == Kind::not_regular);
  CHECK(refusal(fifo).why() == "it is not a regular file");
  CHECK(refusal(folder).kind == Kind::not_regular);
  CHECK(refusal(folder + "/none").kind == Kind::absent);
  CHECK(refusal("/dev/null/none").kind == Kind::absent);
  CHECK(content("/dev/null").empty());
  CHECK(refusal("/dev/zero").kind == Kind::not_regular);
  for (const int error : {ENOMEM, EMFILE, ENFILE, ENOSYS})
    CHECK(Unreadable(error).kind == Kind::out_of_memory);
  for (const int error : {EACCES, EIO, ELOOP}) CHECK(Unreadable(error).kind == Kind::refused);

  std::ofstream(small) << "text";
  CHECK(content(small) == "text");
  CHECK_FALSE(content("/proc/self/comm").empty());
  std::ofstream(large).close();
  REQUIRE(truncate(large.c_str(), 3 * largest_file) == 0);
  CHECK(content(large).size() == largest_file + 1);

  for (const std::string& path : {fifo, large, small}) unlink(path.c_str());
  rmdir(folder.c_str());
}
