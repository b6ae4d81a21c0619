#include "launchers/temporary_folder.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "launchers/torchrun/torchrun_launcher.h"
#include "node/fake_host_for_test.h"

namespace rankshim::launchers {
namespace {

using node::FakeHost;
using node::Variables;

namespace fs = std::filesystem;

/// A folder of the test's own, as TMPDIR.
struct Place {
  fs::path path = fs::temp_directory_path() / ("rankshim-test-" + std::to_string(getpid()));
  FakeHost host{{"TMPDIR=" + path.string()}};
  Place() { fs::create_directory(path); }
  ~Place() { fs::remove_all(path); }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
};

LaunchChoice torchrun_chosen() {
  LaunchChoice choice;
  choice.launcher = std::make_shared<TorchrunLauncher>();
  return choice;
}

PythonSite site_for(std::optional<Variables> job = {}) {
  return {.had_path = true, .job = std::move(job), .master = "10.0.0.1", .records = true};
}

std::string content(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST_CASE("a command's temporary folder holds our part in Python's start, and goes with it") {
  const Place place;
  {
    const TemporaryFolder folder(torchrun_chosen(), site_for(), place.host);
    const std::string path = folder.own().path;
    REQUIRE(fs::is_directory(path));
    CHECK(folder.own().path == path);
    CHECK(folder.own().has_site);
    CHECK(content(path + "/sitecustomize.py")
              .ends_with("\n\nserve(True, None, \"10.0.0.1\", True, " + std::to_string(getpid()) +
                         ", (), 0)\n"));
    CHECK(content(path + "/gate.py").starts_with("\"\"\"The gate where "));
    CHECK((fs::status(path).permissions() & fs::perms::all) == fs::perms::owner_all);
    fs::create_directories(path + "/attempt_0/0");
  }
  CHECK(fs::is_empty(place.path));
}

TEST_CASE("a folder into which nothing was written goes at the command's end, and another stays to be read") {
  const Place place;
  TemporaryFolder unused(torchrun_chosen(), site_for(), place.host);
  CHECK(unused.remove_if_unused());
  CHECK(fs::is_empty(place.path));
  CHECK(unused.remove_if_unused());
  TemporaryFolder used(torchrun_chosen(), site_for(), place.host);
  std::ofstream(used.own().path + "/failure.json") << "{}";
  CHECK_FALSE(used.remove_if_unused());
  CHECK(content(used.own().path + "/failure.json") == "{}");
}

TEST_CASE("without a place for a temporary folder there is none") {
  const FakeHost host({"TMPDIR=/proc/nowhere"});
  const TemporaryFolder folder(torchrun_chosen(), site_for(), host);
  CHECK(folder.own().path.empty());
  CHECK_FALSE(folder.own().has_site);
}

TEST_CASE("a program's files are in memory, a launcher's on disk, and all in TMPDIR if that is set") {
  const Launcher program;
  const TorchrunLauncher torchrun;
  CHECK(temporary_folder_template(program, FakeHost({})) == "/dev/shm/rankshim-XXXXXX");
  CHECK(temporary_folder_template(torchrun, FakeHost({})) == "/tmp/rankshim-XXXXXX");
  for (const Launcher* const launcher : {&program, static_cast<const Launcher*>(&torchrun)})
    CHECK(temporary_folder_template(*launcher, FakeHost({"TMPDIR=/a/"})) == "/a/rankshim-XXXXXX");
}

TEST_CASE("where others could replace the temporary folder it is made in /tmp") {
  const Place place;
  fs::permissions(place.path, fs::perms::all);
  CHECK(TemporaryFolder(torchrun_chosen(), site_for(), place.host).own().path.starts_with("/tmp/rankshim-"));
  fs::permissions(place.path, fs::perms::all | fs::perms::sticky_bit);
  CHECK(
      TemporaryFolder(torchrun_chosen(), site_for(), place.host).own().path.starts_with(place.path.string()));
}

TEST_CASE("a rendezvous' configuration is shown to no other user") {
  const Place place;
  const TemporaryFolder folder(torchrun_chosen(),
                               site_for(Variables{{"PET_RDZV_CONF", "is_host=true,password=x"}}), place.host);
  CHECK((fs::status(folder.own().path).permissions() & fs::perms::all) == fs::perms::owner_all);
}

TEST_CASE("a torchrun that another user's process may start can read our part") {
  const Place place;
  PythonSite site = site_for(Variables{{"PET_NNODES", "2"}, {"PET_RDZV_ID", "a\"b\\\n"}});
  site.ignored = bit(SIGUSR1) | bit(SIGUSR2);
  site.exit_after = 225;
  const TemporaryFolder folder(torchrun_chosen(), site, place.host);
  const std::string path = folder.own().path;
  CHECK(content(path + "/sitecustomize.py")
            .ends_with("serve(True, {\"PET_NNODES\": \"2\", \"PET_RDZV_ID\": \"a\\x22b\\x5c\\x0a\", }, "
                       "\"10.0.0.1\", True, " +
                       std::to_string(getpid()) + ", (10, 12, ), 225)\n"));
  const auto others = [](const std::string& name) {
    return fs::status(name).permissions() & fs::perms::others_all;
  };
  if (geteuid() == 0) {
    CHECK(others(path) == (fs::perms::others_read | fs::perms::others_exec));
    for (const char* name : {"/sitecustomize.py", "/gate.py", "/rankshim_store.py", "/rankshim_numbers.py"})
      CHECK(others(path + name) == fs::perms::others_read);
  }
}

}  // namespace
}  // namespace rankshim::launchers
