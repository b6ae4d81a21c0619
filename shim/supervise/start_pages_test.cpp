#include "supervise/start_pages.h"

#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <fstream>
#include <string>

using namespace rankshim::supervise;

namespace {

/// Resident kilobytes of this program's own code.
unsigned resident_code() {
  std::array<char, 4096> path{};
  REQUIRE(readlink("/proc/self/exe", path.data(), path.size() - 1) > 0);
  std::ifstream maps("/proc/self/smaps");
  bool is_code = false;
  unsigned sum = 0;
  for (std::string line; std::getline(maps, line);) {
    if (line.find(" r-xp ") != std::string::npos) is_code = line.ends_with(path.data());
    if (is_code && line.starts_with("Rss:")) {
      sum += static_cast<unsigned>(std::stoul(line.substr(4)));
      is_code = false;
    }
  }
  return sum;
}

}  // namespace

TEST_CASE("code that only the start needed is no longer in memory", "[start_pages]") {
  const unsigned before = resident_code();
  unmap_start_pages();
  const unsigned after = resident_code();
  CHECK(after < before);
  CHECK(after > 0);  // this runs
}
