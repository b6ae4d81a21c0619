#include <fcntl.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "node/instance.h"

namespace rankshim {
namespace {

TEST_CASE("a name says whose it is") {
  CHECK(instance_of(name_of_instance() + ".sock") == getpid());
  CHECK(instance_of(name_of_instance() + "-x1Y2z3") == getpid());
  for (const std::string name : {"rankshim", "rankshim.sock", "rankshim-1-17.sock"})
    CHECK_FALSE(instance_of(name));
  for (const std::string number : {"", "x", "-1", "0", "99999999999"})
    CHECK_FALSE(instance_of(name_in_namespace() + number));
}

TEST_CASE("what a killed instance left is removed, and nothing else") {
  std::string folder = std::filesystem::temp_directory_path() / "instance-XXXXXX";
  REQUIRE(mkdtemp(folder.data()) != nullptr);
  const pid_t gone = fork();
  if (gone == 0) _exit(0);
  REQUIRE(waitpid(gone, nullptr, 0) == gone);
  const std::string ended = folder + "/" + name_in_namespace() + std::to_string(gone);
  std::filesystem::create_directories(ended + "-x1Y2z3/attempt_0");
  for (const std::string& made :
       {ended + ".sock", folder + "/" + name_of_instance() + ".sock", folder + "/rankshim-x"})
    std::ofstream(made) << "x";
  remove_what_was_left({"/no/such", folder});
  std::vector<std::string> left;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    left.push_back(entry.path().filename());
  std::ranges::sort(left);
  CHECK(left == std::vector<std::string>{name_of_instance() + ".sock", "rankshim-x"});
  std::filesystem::remove_all(folder);
}

TEST_CASE("the temporary folder of a container that has ended is removed after a minute, and no other") {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / ("instance-" + std::to_string(getpid()));
  const fs::path left = folder / "rankshim-pid1-aaaaaa", living = folder / "rankshim-pid1-bbbbbb",
                 new_one = folder / "rankshim-pid1-cccccc", checkout = folder / "rankshim-pid1-checkout",
                 no_folder = folder / "rankshim-pid1-dddddd";
  for (const fs::path& one : {left / "attempt_0", living, new_one, checkout}) fs::create_directories(one);
  std::ofstream(no_folder) << "x";
  for (const fs::path& one : {left, living, checkout, no_folder})
    fs::last_write_time(one, fs::file_time_type::clock::now() - std::chrono::minutes(2));
  const Descriptor lock(open(living.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  REQUIRE(flock(lock.number(), LOCK_SH) == 0);
  remove_what_was_left({folder});
  CHECK_FALSE(fs::exists(left));
  for (const fs::path& one : {living, new_one, checkout, no_folder}) CHECK(fs::exists(one));
  fs::remove_all(folder);
}

TEST_CASE("nothing is removed where another user could have given it its name", "[attack]") {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / ("instance-" + std::to_string(getpid()));
  const fs::path named = folder / "rankshim-pid1-aaaaaa";
  fs::create_directories(named);
  fs::last_write_time(named, fs::file_time_type::clock::now() - std::chrono::minutes(2));
  for (const bool sticky : {false, true}) {
    fs::permissions(folder, fs::perms::all | (sticky ? fs::perms::sticky_bit : fs::perms::none));
    CHECK(others_can_replace_in(folder) != sticky);
    remove_what_was_left({folder});
    CHECK(fs::exists(named) != sticky);
  }
  fs::remove_all(folder);
}

TEST_CASE("a folder stays as long as a process that was left over has it in its environment", "[attack]") {
  std::string folder = std::filesystem::temp_directory_path() / "instance-XXXXXX";
  REQUIRE(mkdtemp(folder.data()) != nullptr);
  const pid_t gone = fork();
  if (gone == 0) _exit(0);
  REQUIRE(waitpid(gone, nullptr, 0) == gone);
  const std::string left = folder + "/" + name_in_namespace() + std::to_string(gone) + "-x1Y2z3";
  std::filesystem::create_directory(left);
  int ready[2];
  REQUIRE(pipe2(ready, O_CLOEXEC) == 0);
  const pid_t orphan = fork();
  if (orphan == 0) {
    const std::string path = "PYTHONPATH=" + left;
    const char* const variables[] = {path.c_str(), nullptr};
    const char* const words[] = {"sleep", "1000", nullptr};
    execve("/bin/sleep", const_cast<char* const*>(words), const_cast<char* const*>(variables));
    _exit(127);
  }
  close(ready[1]);
  char none;
  REQUIRE(read(ready[0], &none, 1) == 0);  // it has executed sleep
  remove_what_was_left({folder});
  CHECK(std::filesystem::exists(left));
  kill(orphan, SIGKILL);
  REQUIRE(waitpid(orphan, nullptr, 0) == orphan);
  remove_what_was_left({folder});
  CHECK(std::filesystem::is_empty(folder));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace rankshim
