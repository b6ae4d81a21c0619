#include "launch/temporary_folder.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "node/fake_node.h"

namespace rankshim {
namespace {

namespace fs = std::filesystem;

/// A folder of the test's own, as TMPDIR.
struct Place {
  fs::path path = fs::temp_directory_path() / ("rankshim-test-" + std::to_string(getpid()));
  FakeNode node{{"TMPDIR=" + path.string()}};
  Place() { fs::create_directory(path); }
  ~Place() { fs::remove_all(path); }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
};

LaunchPlan plan_of_launcher(const Node& node) {
  const std::string folder = temporary_folder_template(node, Launcher::torchrun);
  LaunchPlan plan;
  plan.launcher = Launcher::torchrun;
  plan.argv = {"python3", "--log_dir=" + folder, "train.py"};
  plan.environment.set = {{"TORCHELASTIC_ERROR_FILE", agent_error_file(folder)},
                          {"PYTHONPATH", folder + ":/a"}};
  plan.site = PythonSite{.had_path = true, .job = {}, .records = true};
  return plan;
}

std::string content(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST_CASE("a command's temporary folder holds our part in Python's start, and goes with it") {
  const Place place;
  LaunchPlan plan = plan_of_launcher(place.node);
  {
    const TemporaryFolder folder(plan, place.node);
    const std::string path = folder.log_folder();
    REQUIRE(fs::is_directory(path));
    CHECK(plan.argv[1] == "--log_dir=" + path);
    CHECK(plan.environment.set ==
          Variables{{"TORCHELASTIC_ERROR_FILE", path + "/error.json"}, {"PYTHONPATH", path + ":/a"}});
    CHECK(content(path + "/sitecustomize.py").ends_with("\n\nserve(True, None, True)\n"));
    CHECK((fs::status(path).permissions() & fs::perms::all) == fs::perms::owner_all);
    fs::create_directories(path + "/attempt_0/0");
  }
  CHECK(fs::is_empty(place.path));
}

TEST_CASE("without a place for a temporary folder the plan does without it") {
  const FakeNode node({"TMPDIR=/proc/nowhere"});
  LaunchPlan plan = plan_of_launcher(node);
  const TemporaryFolder folder(plan, node);
  CHECK(folder.log_folder().empty());
  CHECK(plan.argv == std::vector<std::string>{"python3", "train.py"});
  CHECK(plan.environment.set.empty());
  CHECK_FALSE(plan.site);
}

TEST_CASE("a program's files are in memory, a launcher's on disk, and all where TMPDIR says") {
  CHECK(temporary_folder_template(FakeNode({}), Launcher::none) == "/dev/shm/rankshim-XXXXXX");
  CHECK(temporary_folder_template(FakeNode({}), Launcher::torchrun) == "/tmp/rankshim-XXXXXX");
  for (const Launcher launcher : {Launcher::none, Launcher::torchrun})
    CHECK(temporary_folder_template(FakeNode({"TMPDIR=/a/"}), launcher) == "/a/rankshim-XXXXXX");
}

TEST_CASE("where others could replace the temporary folder it is made in /tmp") {
  const Place place;
  fs::permissions(place.path, fs::perms::all);
  LaunchPlan plan = plan_of_launcher(place.node);
  CHECK(TemporaryFolder(plan, place.node).log_folder().starts_with("/tmp/rankshim-"));
  fs::permissions(place.path, fs::perms::all | fs::perms::sticky_bit);
  LaunchPlan sticky = plan_of_launcher(place.node);
  CHECK(TemporaryFolder(sticky, place.node).log_folder().starts_with(place.path.string()));
}

TEST_CASE("a rendezvous' configuration is shown to no other user") {
  const Place place;
  LaunchPlan plan = plan_of_launcher(place.node);
  plan.site->job = Variables{{"PET_RDZV_CONF", "is_host=true,password=x"}};
  const TemporaryFolder folder(plan, place.node);
  CHECK((fs::status(folder.log_folder()).permissions() & fs::perms::all) == fs::perms::owner_all);
}

TEST_CASE("a torchrun that another user's process may start can read our part") {
  const Place place;
  LaunchPlan plan = plan_of_launcher(place.node);
  plan.site->job = Variables{{"PET_NNODES", "2"}, {"PET_RDZV_ID", "a\"b\\\n"}};
  const TemporaryFolder folder(plan, place.node);
  const std::string path = folder.log_folder();
  CHECK(content(path + "/sitecustomize.py")
            .ends_with(
                "serve(True, {\"PET_NNODES\": \"2\", \"PET_RDZV_ID\": \"a\\x22b\\x5c\\x0a\", }, True)\n"));
  const auto others = [](const std::string& name) {
    return fs::status(name).permissions() & fs::perms::others_all;
  };
  if (geteuid() == 0) {
    CHECK(others(path) == (fs::perms::others_read | fs::perms::others_exec));
    CHECK(others(path + "/sitecustomize.py") == fs::perms::others_read);
  }
}

}  // namespace
}  // namespace rankshim
