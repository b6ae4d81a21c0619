#include "supervise/spawn.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <cstdlib>
#include <fstream>

#include "supervise/supervised_for_test.h"

using namespace rankshim::supervise;
using Kind = ExitRecord::Kind;

namespace {

/// Keeps a folder for one test.
struct Folder {
  std::string path = "/tmp/rankshim-test-XXXXXX";
  Folder() { REQUIRE(mkdtemp(path.data()) != nullptr); }
  ~Folder() { [[maybe_unused]] const int done = std::system(("rm -rf " + path).c_str()); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string file(const std::string& name, const std::string& content, mode_t mode) const {
    const std::string full = path + "/" + name;
    std::ofstream(full) << content;
    REQUIRE(chmod(full.c_str(), mode) == 0);
    return full;
  }
};

}  // namespace

TEST_CASE("a failed execution names the file and the reason", "[spawn]") {
  const Folder folder;
  const std::string plain = folder.file("plain", "", 0644);
  const std::string orphaned = folder.file("orphaned", "#!/no/such/interpreter\n", 0755);
  const std::string foreign = folder.file("foreign",
                                          "\x7f"
                                          "ELF of another machine\nexit 3\n",
                                          0755);
  struct Case {
    std::string command;
    int error;
    std::string path;
  };
  const std::vector<Case> cases = {{"no-such-command", ENOENT, "no-such-command"},
                                   {"/no/such/file", ENOENT, "/no/such/file"},
                                   {plain, EACCES, plain},
                                   {folder.path, EACCES, folder.path},
                                   {orphaned, ENOENT, orphaned},
                                   {foreign, ENOEXEC, foreign},
                                   {plain + "/below", ENOENT, plain + "/below"},
                                   {"", ENOENT, ""}};
  for (const Mode mode : modes()) {
    for (const Case& wanted : cases) {
      INFO(name(mode) << ": " << wanted.command);
      const ExitRecord record =
          Supervised(mode, std::vector<std::string>{wanted.command, "argument"}, {}).record();
      CHECK(record.kind == Kind::not_started);
      CHECK(record.failure.call == SpawnFailure::Call::execve);
      CHECK(record.number == wanted.error);
      CHECK(record.failure.path == wanted.path);
      CHECK(record.failure.interpreter == (wanted.command == orphaned));
    }
  }
}

TEST_CASE("a file that is no program is given to the shell, as execvp does", "[spawn]") {
  const Folder folder;
  const std::string script = folder.file("script", "exit $(($# + 40))\n", 0755);
  for (const Mode mode : modes()) {
    const ExitRecord record = Supervised(mode, std::vector<std::string>{script, "a", "b"}, {}).record();
    CHECK(record.kind == Kind::exited);
    CHECK(record.number == 42);
  }
}

TEST_CASE("PATH is searched as execvp does", "[spawn]") {
  const Folder folder;
  folder.file("tool", "#!/bin/sh\nexit 1\n", 0644);
  const Folder second;
  const Mode mode = modes().front();
  const std::vector<std::string> tool = {"tool"};
  const auto path = [](const std::string& value) { return [value] { setenv("PATH", value.c_str(), 1); }; };
  const ExitRecord refused =
      Supervised(mode, tool, {}, path("/no/such:" + folder.path + ":" + second.path)).record();
  CHECK(refused.kind == Kind::not_started);
  CHECK(refused.number == EACCES);
  CHECK(refused.failure.path == folder.path + "/tool");
  second.file("tool", "#!/bin/sh\nexit 9\n", 0755);
  CHECK(Supervised(mode, tool, {}, path("/no/such:" + folder.path + ":" + second.path)).record().number == 9);
}
