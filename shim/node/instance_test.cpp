#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
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

}  // namespace
}  // namespace rankshim
