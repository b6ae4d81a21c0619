#include "plan/launch.h"

#include <fmt/format.h>
#include <catch2/catch.hpp>
#include <filesystem>

#include "run/plan_for_test.h"

namespace rankshim::plan {
namespace {

using node::FakeHost;

using namespace run::for_test;

TEST_CASE("rankshim wait without a command waits for the master's port, on the master for its name") {
  const FakeHost worker(kubeflow);
  CHECK(planned(worker, {"wait"}).wait == wait::Until::port);
  CHECK(planned(worker, {"wait", "--wait=dns"}).wait == wait::Until::name);
  CHECK(planned(worker, {"wait", "--node-rank=0"}).wait == wait::Until::name);
}

TEST_CASE("the interpreter is the option's, else python3 or python, whichever PATH has first") {
  FakeHost host({"PATH=/env/bin:/usr/bin"});
  host.programs = {"/usr/bin/python3", "/env/bin/python"};
  CHECK(planned(host, {"train.py"}).argv[0] == "python");
  host.programs = {"/usr/bin/python3", "/usr/bin/python"};
  CHECK(planned(host, {"train.py"}).argv[0] == "python3");
  host.programs = {"/usr/bin/python"};
  CHECK(planned(host, {"train.py"}).argv[0] == "python");
  CHECK(planned(host, {"--python=/usr/bin/python", "train.py"}).argv[0] == "/usr/bin/python");
  FakeHost similar({"PATH=/opt/usr/bin:/env/bin:/usr/bin"});
  similar.programs = {"/env/bin/python3", "/usr/bin/python"};
  CHECK(planned(similar, {"train.py"}).argv[0] == "python3");
  FakeHost working_directory({"PATH=:/usr/bin"});
  working_directory.programs = {"/usr/bin/python3", "python"};
  CHECK(planned(working_directory, {"train.py"}).argv[0] == "python");
  host.programs = {};
  const ShownPlan nothing = planned(host, {"train.py"});
  CHECK_THAT(nothing.missing, Catch::Contains("neither python3 nor python is in PATH"));
}

/// What is said of a script that is not below the working directory.
std::string unreadable(std::string_view script) {
  return fmt::format("the script {} cannot be read (No such file or directory); the working directory is {}",
                     script, std::filesystem::current_path().string());
}

TEST_CASE("what is not there is found before anything is waited for") {
  FakeHost host(kubeflow);
  host.programs = {"/usr/bin/python3", "/usr/bin/torchrun", "/usr/bin/bash"};
  host.files["train.py"] = "";
  const auto missing = [&](Words line) { return planned(host, std::move(line)).missing; };
  CHECK(missing({"bash"}).empty());
  CHECK(missing({"train.py"}).empty());
  CHECK(missing({"torchrun", "--nnodes", "3", "train.py"}).empty());
  CHECK(missing({"torchrun", "--no_python", "none.py"}).empty());
  CHECK(missing({"no-such"}) == "no-such was not found in PATH");
  CHECK(missing({"none.py"}) == unreadable("none.py"));
  CHECK(missing({"torchrun", "none.py"}) == unreadable("none.py"));
  for (const Words& line : {Words{"python3", "-u", "none.py"}, {"bash", "none.py"}})
    CHECK(missing(line).empty() == (line[0] == "bash"));
  CHECK(missing({"python3", "train.py"}).empty());
  CHECK(missing({"python3", "-m", "none"}).empty());
  CHECK(missing({"bash", "./none"}) == unreadable("./none"));
  CHECK(missing({"bash", "none.sh"}) == unreadable("none.sh"));
  CHECK(missing({"bash", "-c", "./none"}).empty());
  CHECK(missing({"--python=/no/python", "train.py"}) == "--python=/no/python was not found");
  CHECK(missing({"--", "status"}) ==
        "status was not found in PATH; a subcommand is the first word: rankshim status [OPTIONS]");
  host.programs = {"/usr/bin/python3"};
  CHECK(
      missing({"torchrun", "train.py"}) ==
      "torchrun was not found in PATH; it is beside torch's Python: install torch in this image, or add that "
      "folder to PATH");
}

TEST_CASE("on a lone node a script that is not there is found too, and a program is just executed") {
  FakeHost host({});
  host.programs = {"/usr/bin/python3", "/usr/bin/torchrun"};
  host.files["folder.py/__main__.py"] = "";
  const auto missing = [&](Words line) { return planned(host, std::move(line)).missing; };
  CHECK(missing({"none.py"}) == unreadable("none.py"));
  CHECK(missing({"--launcher=none", "none.py"}) == unreadable("none.py"));
  CHECK(missing({"folder.py"}).empty());
  CHECK(missing({"torchrun", "/dev/fd/63"}).empty());
  CHECK(missing({"no-such"}).empty());
}

}  // namespace
}  // namespace rankshim::plan
