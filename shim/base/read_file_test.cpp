#include "base/read_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <string>

using namespace rankshim;

TEST_CASE("only a file is read, and of a large one what shows that it is too large", "[attack]") {
  std::string folder = "/tmp/rankshim_read_file_test.XXXXXX";
  REQUIRE(mkdtemp(folder.data()) != nullptr);
  const std::string fifo = folder + "/fifo", large = folder + "/large", small = folder + "/small";

  REQUIRE(mkfifo(fifo.c_str(), 0600) == 0);
  CHECK_FALSE(read_file(fifo));  // without a writer it would look empty, with one it would be eaten
  CHECK(errno == EINVAL);
  CHECK_FALSE(read_file(folder));
  CHECK(errno == EISDIR);
  CHECK_FALSE(read_file(folder + "/none"));
  CHECK(errno == ENOENT);
  CHECK(read_file("/dev/null") == "");
  CHECK_FALSE(read_file("/dev/zero"));

  std::ofstream(small) << "text";
  CHECK(read_file(small) == "text");
  CHECK(read_file("/proc/self/comm").has_value());
  std::ofstream(large).close();
  REQUIRE(truncate(large.c_str(), 3 * largest_file) == 0);
  CHECK(read_file(large)->size() == largest_file + 1);

  for (const std::string& path : {fifo, large, small}) unlink(path.c_str());
  rmdir(folder.c_str());
}
