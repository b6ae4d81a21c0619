#include "launchers/torchrun/worker_watch.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/steady_timer.hpp>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

using namespace rankshim::supervise;
using namespace rankshim::launchers;
using namespace std::chrono_literals;

namespace {

/// A new folder, removed with the test.
struct Folder {
  std::string path = "/tmp/rankshim-watch-XXXXXX";
  Folder() { REQUIRE(mkdtemp(path.data()) != nullptr); }
  ~Folder() { [[maybe_unused]] const int done = std::system(("rm -rf " + path).c_str()); }
};

/// Does with its workers and their folders what torchrun's agent does: each line of its stdin is a step.
const char* const agent_script = R"(
import os, shutil, subprocess, sys
workers = []

def start(attempt, group_rank, nodes):
    folder = f"{sys.argv[1]}/run_x/attempt_{attempt}"
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    fork(folder, group_rank, nodes)

def fork(folder, group_rank, nodes, names=(0, 1)):
    for rank in range(2):
        own = {"LOCAL_RANK": names[rank], "RANK": 2 * group_rank + rank, "GROUP_RANK": group_rank,
               "GROUP_WORLD_SIZE": nodes, "TORCHELASTIC_ERROR_FILE": f"{folder}/{rank}/error.json"}
        environment = {**os.environ, **{name: str(value) for name, value in own.items()}}
        workers.append(subprocess.Popen(["sleep", "1000"], env=environment))

def end():
    for worker in workers:
        worker.terminate()
    for worker in workers:
        worker.wait()
    workers.clear()

os.write(1, b"!")
for line in sys.stdin:
    exec(line)
)";

class Agent {
 public:
  explicit Agent(const std::string& folder) {
    int ends[2];
    int up[2];
    REQUIRE(pipe(ends) == 0);
    REQUIRE(pipe(up) == 0);
    pid_ = fork();
    if (pid_ == 0) {
      dup2(ends[0], STDIN_FILENO);
      dup2(up[1], STDOUT_FILENO);
      close(ends[1]);
      execlp("python3", "python3", "-c", agent_script, folder.c_str(), nullptr);
      _exit(127);
    }
    close(ends[0]);
    close(up[1]);
    steps_ = ends[1];
    up_ = up[0];
    wait();  // a python3 that is a shell script has children of its own before it becomes Python
  }
  ~Agent() {
    step("end(); sys.exit()");
    close(steps_);
    close(up_);
    waitpid(pid_, nullptr, 0);
  }
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  /// Until it has written a byte.
  void wait() const {
    char byte = 0;
    REQUIRE(read(up_, &byte, 1) == 1);
  }
  void step(const std::string& what) const {
    const std::string line = what + "\n";
    REQUIRE(write(steps_, line.data(), line.size()) == static_cast<ssize_t>(line.size()));
  }

 private:
  pid_t pid_ = -1;
  int steps_ = -1;
  int up_ = -1;
};

void run_until(boost::asio::io_context& context, const std::function<bool()>& happened) {
  const auto end = std::chrono::steady_clock::now() + 30s;
  while (!happened()) {
    REQUIRE(std::chrono::steady_clock::now() < end);
    context.restart();
    context.run_one_for(100ms);
  }
}

/// An agent with two workers, and a watch that begins to follow it when the test says so.
struct Watched {
  Folder folder;
  boost::asio::io_context io;
  WorkerRecord record;
  std::size_t told = 0;  ///< how many workers there were when they were told last
  WorkerWatch watch{
      io, folder.path, 2, record, [](const WorkerEnd*) {}, [this] { told = record.states.size(); }};
  Agent agent{folder.path};
};

/// How many inotify watches this process has.
std::size_t watches() {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fdinfo")) {
    std::ifstream info(entry.path());
    for (std::string line; std::getline(info, line);) count += line.starts_with("inotify wd:") ? 1 : 0;
  }
  return count;
}

}  // namespace

TEST_CASE_METHOD(Watched, "workers that started before the watch are followed", "[worker_watch]") {
  agent.step("start(0, 0, 1); os.write(1, b'!')");
  agent.wait();
  watch.follow(agent.pid());
  run_until(io, [&] { return record.states.size() == 2; });
}

TEST_CASE_METHOD(Watched, "a worker has a local rank below their number, whatever its environment says",
                 "[worker_watch][attack]") {
  agent.step("folder = sys.argv[1] + '/run_x/attempt_0'; os.makedirs(folder)");
  agent.step("fork(folder, 0, 1, names=(0, 4294967295)); os.write(1, b'!')");
  agent.wait();
  watch.follow(agent.pid());
  run_until(io, [&] { return record.states.size() == 2; });
  CHECK(record.states[0].local_rank == 0);
  CHECK(record.states[1].local_rank == 1);
}

TEST_CASE_METHOD(Watched, "workers that start long after their folder was made are followed",
                 "[worker_watch]") {
  watch.follow(agent.pid());
  agent.step("folder = sys.argv[1] + '/run_x/attempt_0'; os.makedirs(folder)");
  io.run_for(5100ms);  // in which the looks follow each other closely
  const auto looks = watch.looks();
  run_until(io, [&] { return watch.looks() == looks + 2; });
  agent.step("fork(folder, 0, 1)");
  run_until(io, [&] { return record.states.size() == 2; });
  CHECK(watch.looks() < looks + 30);
  CHECK(told == 2);
}

TEST_CASE_METHOD(Watched,
                 "new workers are followed after a change of membership, in the folder of those before",
                 "[worker_watch]") {
  watch.follow(agent.pid());
  agent.step("start(0, 0, 1)");
  run_until(io, [&] { return record.states.size() == 2; });
  CHECK(record.attempts == 1);
  CHECK(record.numbers.value().nodes == 1);
  const std::vector<WorkerState> before = record.states;

  agent.step("end(); start(0, 1, 2)");
  run_until(io, [&] { return record.numbers.value().nodes == 2 && record.states.size() == 2; });
  CHECK(record.attempts == 1);
  CHECK(record.numbers.value().node_rank == 1);
  CHECK(record.ends.empty());
  CHECK(record.states[0].pid != before[0].pid);
  CHECK(record.states[0].rank == 2U);

  agent.step("end(); start(1, 0, 1)");
  run_until(io, [&] { return record.numbers.value().nodes == 1 && record.states.size() == 2; });
  CHECK(record.attempts == 2);
  CHECK(record.error_folder == folder.path + "/run_x/attempt_1");

  agent.step("end()");
  run_until(io, [&] { return record.ends.size() == 2; });
  CHECK(record.ends[0].status == SIGTERM);
  watch.finish();
}

TEST_CASE_METHOD(Watched, "a flood of attempt folders costs four looks and then one every 10 ms at most",
                 "[worker_watch]") {
  const auto begun = std::chrono::steady_clock::now();
  watch.follow(agent.pid());
  const std::string run = folder.path + "/run_y";
  REQUIRE(mkdir(run.c_str(), 0700) == 0);
  io.run_one();  // it is watched now
  for (int attempt = 0; attempt < 600; ++attempt)
    REQUIRE(mkdir((run + "/attempt_" + std::to_string(attempt)).c_str(), 0700) == 0);

  // Some of them in a piece: others are served in between.
  io.run_one();
  CHECK(record.error_folder != run + "/attempt_599");
  run_until(io, [&] { return record.error_folder == run + "/attempt_599" && watch.looks() >= 1; });
  const auto took = std::chrono::steady_clock::now() - begun;
  CHECK(watch.looks() <= 4 + static_cast<std::uint64_t>(took / 10ms));
  CHECK(record.attempts == 1);

  agent.step("start(0, 0, 1)");  // in a new folder, which its workers name
  run_until(io, [&] { return record.states.size() == 2; });
  CHECK(record.error_folder == folder.path + "/run_x/attempt_0");
  watch.finish();
}

TEST_CASE_METHOD(
    Watched,
    "folders in the log folder are watched in bounded number, and of other launchers no longer than needed",
    "[worker_watch][attack]") {
  watch.follow(agent.pid());
  for (int run = 0; run < 1000; ++run)
    REQUIRE(mkdir((folder.path + "/run_" + std::to_string(run)).c_str(), 0700) == 0);
  run_until(io, [&] { return watches() > 1; });
  for (int step = 0; step < 100; ++step) io.run_one_for(1ms);
  CHECK(watches() > 1);
  CHECK(watches() <= 64);
  agent.step("start(0, 0, 1)");
  run_until(io, [&] { return record.states.size() == 2; });
  CHECK(record.error_folder == folder.path + "/run_x/attempt_0");
  CHECK(watches() == 2);  // the log folder's and run_x's
  watch.finish();
}

TEST_CASE_METHOD(Watched, "a folder of another user is not taken for the launcher's", "[worker_watch]") {
  if (geteuid() != 0) {
    WARN("only root can give a folder away: not tried");
    return;
  }
  watch.follow(agent.pid());
  REQUIRE(mkdir((folder.path + "/other").c_str(), 0700) == 0);
  REQUIRE(chown((folder.path + "/other").c_str(), 65534, 65534) == 0);
  REQUIRE(mkdir((folder.path + "/other/attempt_0").c_str(), 0700) == 0);
  watch.look();
  CHECK(watch.looks() == 0);
  CHECK(record.error_folder.empty());
  agent.step("start(0, 0, 1)");
  run_until(io, [&] { return record.states.size() == 2; });
  watch.finish();
}
