#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <functional>
#include <new>

#include "base/text.h"
#include "supervise/supervised_for_test.h"

/// Several workers that are started instead of the command.

using namespace rankshim::supervise;
using namespace std::chrono_literals;
using Kind = ExitRecord::Kind;

namespace {

/// Three workers of a shell script, with their number as $0.
class Three : public Workers {
 public:
  [[nodiscard]] std::vector<Command> workers_to_start(const Command& command) override {
    std::vector<Command> workers(3, command);
    for (const char number : {'0', '1', '2'})
      workers[static_cast<std::size_t>(number - '0')].argv.emplace_back(1, number);
    if (!second_.empty()) workers[1].argv = {second_};
    return workers;
  }
  std::string second_;  // what the second worker is instead
};

class Together {
 public:
  Together(Mode mode, const std::string& script, Policy policy = {}, const std::string& second = {},
           const std::function<void()>& before = {})
      : command_((launcher_.second_ = second, mode), script, with(std::move(policy), launcher_), before) {}
  Supervised* operator->() { return &command_; }

  /// So many lines, in the order of the alphabet.
  std::vector<std::string> lines(unsigned number) {
    std::vector<std::string> lines;
    while (number-- != 0) lines.push_back(command_.line());
    std::sort(lines.begin(), lines.end());
    return lines;
  }

 private:
  static Policy with(Policy policy, Three& launcher) {
    policy.launcher = &launcher;
    return policy;
  }
  Three launcher_;
  Supervised command_;
};

/// A named pipe in a new folder.
class Fifo {
 public:
  Fifo() {
    REQUIRE(mkdtemp(folder_.data()) != nullptr);
    REQUIRE(mkfifo(path().c_str(), S_IRUSR | S_IWUSR) == 0);
  }
  ~Fifo() {
    unlink(path().c_str());
    rmdir(folder_.c_str());
  }
  Fifo(const Fifo&) = delete;
  Fifo& operator=(const Fifo&) = delete;
  [[nodiscard]] std::string path() const { return folder_ + "/fifo"; }

 private:
  std::string folder_ = "/tmp/rankshim-fifo-XXXXXX";
};

using Lines = std::vector<std::string>;

const std::string waits = "exec 3<> <(:); echo ready; while :; do read -r -t 0.2 -u 3; done";

}  // namespace

TEST_CASE("workers that are started side by side end well when all have", "[supervise]") {
  for (const Mode mode : modes()) {
    INFO(name(mode));
    Together workers(mode, "echo $0; exit 0");
    CHECK(workers.lines(3) == Lines{"0", "1", "2"});
    const ExitRecord record = workers->record();
    CHECK(record.kind == Kind::exited);
    CHECK(record.number == 0);
    CHECK(record.leftovers == 0);
  }
}

TEST_CASE("each worker runs in its own session", "[supervise]") {
  Together workers(Mode::subreaper,
                   "test $(ps -o sid= -p $$) = $$ && test $(ps -o pgid= -p $$) = $$ && echo own");
  CHECK(workers.lines(3) == Lines{"own", "own", "own"});
}

TEST_CASE("the first worker that fails ends the others, and is how all ended", "[supervise]") {
  for (const Mode mode : modes()) {
    INFO(name(mode));
    // The first has ended before, and the last is ready; it notices, and ends otherwise.
    const Fifo first, last;
    Together workers(mode, "case $0 in 0) exec 4> " + first.path() + "; exit 0;; 1) read -r end < " +
                               first.path() + "; read -r end < " + last.path() +
                               "; exit 42;; 2) trap 'echo asked; exit 7' TERM;; esac; " + waits);
    CHECK(workers->line() == "ready");
    close(open(last.path().c_str(), O_WRONLY | O_CLOEXEC));
    CHECK(workers->line() == "asked");
    const ExitRecord record = workers->record();
    CHECK(record.kind == Kind::exited);
    CHECK(record.number == 42);
    CHECK_FALSE(record.stop);
    CHECK_FALSE(record.killed_by_us);
  }
}

TEST_CASE("a worker that does not stop for another's failure is killed, and the failure counts",
          "[supervise]") {
  for (const Mode mode : modes()) {
    INFO(name(mode));
    Policy policy;
    policy.grace = 100ms;
    Together workers(mode, "trap '' TERM; [ $0 = 1 ] && kill -SEGV $$; while :; do sleep 1000; done", policy);
    const ExitRecord record = workers->record();
    CHECK(record.kind == Kind::signalled);
    CHECK(record.number == SIGSEGV);
    CHECK_FALSE(record.killed_by_us);
  }
}

TEST_CASE("a stop reaches each worker once, and none is asked again when another follows it", "[supervise]") {
  for (const Mode mode : modes()) {
    INFO(name(mode));
    Together workers(
        mode, "trap 'echo asked $0; [ $0 = 1 ] && exit 3; echo saving; sleep 0.3; exit 0' TERM; " + waits);
    CHECK(workers.lines(3) == Lines{"ready", "ready", "ready"});
    workers->signal(SIGTERM);
    CHECK(workers.lines(5) == Lines{"asked 0", "asked 1", "asked 2", "saving", "saving"});
    const ExitRecord record = workers->record();
    CHECK(record.stop.value().signal == SIGTERM);
    CHECK(record.number == 3);
    CHECK(workers->line().empty());
  }
}

TEST_CASE("a signal reaches each worker's group", "[supervise]") {
  for (const Mode mode : modes()) {
    INFO(name(mode));
    Together workers(mode, "trap 'echo noted $0' USR1; trap 'exit 0' TERM; " + waits);
    CHECK(workers.lines(3) == Lines{"ready", "ready", "ready"});
    workers->signal(SIGUSR1);
    CHECK(workers.lines(3) == Lines{"noted 0", "noted 1", "noted 2"});
    workers->signal(SIGTERM);
    CHECK(workers->record().number == 0);
  }
}

TEST_CASE("workers run though rankshim has no number in their PID namespace", "[supervise]") {
  if (!rankshim::contains(modes(), Mode::pid_1)) return;
  Together workers(Mode::subreaper, "trap 'exit 0' TERM; " + waits, {}, {}, [] { unshare(CLONE_NEWPID); });
  CHECK(workers.lines(3) == Lines{"ready", "ready", "ready"});
}

TEST_CASE("a worker that cannot be executed ends those that were started before and after it",
          "[supervise]") {
  for (const Mode mode : modes()) {
    INFO(name(mode));
    Together workers(mode, "trap 'exit 0' TERM; " + waits, {}, "/no/such/program");
    const ExitRecord record = workers->record();
    CHECK(record.kind == Kind::not_started);
    CHECK(record.number == ENOENT);
    CHECK(record.failure.path == "/no/such/program");
  }
}

TEST_CASE("what workers leave behind is ended when all of them have", "[supervise]") {
  for (const Mode mode : modes()) {
    INFO(name(mode));
    Together workers(mode, "setsid sleep 1000 & exit 0");
    CHECK(workers->record().leftovers == 3);
  }
}

/// As if memory were refused at each end of a worker.
class RefusedAtEnds final : public Three {
 public:
  void reaped(pid_t /*process*/, int /*status*/) override { throw std::bad_alloc(); }
};

TEST_CASE("where memory is refused at the failure of a worker, the others are ended and its code counts",
          "[supervise]") {
  for (const Mode mode : modes()) {
    INFO(name(mode));
    RefusedAtEnds launcher;
    Policy policy;
    policy.launcher = &launcher;
    Supervised workers(mode, "trap 'exit 7' TERM; trap 'exit 41' USR1; [ $0 = 1 ] && kill -USR1 $$; " + waits,
                       policy);
    CHECK(workers.record().number == 41);
  }
}
