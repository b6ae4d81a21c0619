#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>

#include "node/private_folder.h"

namespace rankshim::node {
namespace {

TEST_CASE("the folder of a container that has ended is removed after a minute, and no other") {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / ("private-" + std::to_string(getpid()));
  const fs::path left = folder / "rankshim-job-0-aaaaaa", living = folder / "rankshim-job-0-bbbbbb",
                 new_one = folder / "rankshim-job-0-cccccc", checkout = folder / "rankshim-job-0-checkout",
                 elsewhere = folder / "rankshim-job-1-aaaaaa", no_container = folder / "rankshim-aaaaaa",
                 no_folder = folder / "rankshim-job-0-dddddd";
  for (const fs::path& one : {left / "attempt_0", living, new_one, checkout, elsewhere, no_container})
    fs::create_directories(one);
  std::ofstream(no_folder) << "x";
  for (const fs::path& one : {left, living, checkout, elsewhere, no_container, no_folder})
    fs::last_write_time(one, fs::file_time_type::clock::now() - std::chrono::minutes(2));
  const UniqueFd lock(open(living.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  REQUIRE(flock(lock.number(), LOCK_SH) == 0);
  remove_folders_of_ended_containers({"/no/such", folder}, "job-0");
  CHECK_FALSE(fs::exists(left));
  for (const fs::path& one : {living, new_one, checkout, elsewhere, no_container, no_folder}) {
    INFO(one);
    CHECK(fs::exists(one));
  }
  fs::remove_all(folder);
}

TEST_CASE("nothing is removed where another user could have given it its name", "[attack]") {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / ("private-" + std::to_string(getpid()));
  const fs::path named = folder / "rankshim-job-0-aaaaaa";
  fs::create_directories(named);
  fs::last_write_time(named, fs::file_time_type::clock::now() - std::chrono::minutes(2));
  for (const bool sticky : {false, true}) {
    fs::permissions(folder, fs::perms::all | (sticky ? fs::perms::sticky_bit : fs::perms::none));
    CHECK(others_can_replace_in(folder) != sticky);
    remove_folders_of_ended_containers({"/no/such", folder}, "job-0");
    CHECK(fs::exists(named) != sticky);
  }
  fs::remove_all(folder);
}

}  // namespace
}  // namespace rankshim::node
