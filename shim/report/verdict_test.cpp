#include "report/verdict.h"

#include <catch2/catch.hpp>
#include <csignal>

#include "report/evidence.h"

using namespace rankshim;
using supervise::Ending;
using supervise::WorkerEnd;
using namespace std::chrono_literals;

namespace {

const std::chrono::steady_clock::time_point start{1h};

constexpr int exited(int code) { return code << 8; }

/// A torchrun that ended with 1 ten seconds after `start`.
Ending torchrun(std::vector<WorkerEnd> workers) {
  Ending ending;
  ending.number = 1;
  ending.pid = 7;
  ending.started_at = start;
  ending.ended_at = start + 10s;
  ending.ran = 10s;
  ending.workers = std::move(workers);
  ending.workers_seen = 2;
  ending.attempts = 1;
  return ending;
}

LaunchPlan plan(Launcher launcher) {
  LaunchPlan plan;
  plan.launcher = launcher;
  plan.argv = {"train"};
  return plan;
}

WorkerEnd worker(unsigned local_rank, int status, std::chrono::seconds after, bool known = true) {
  return {static_cast<pid_t>(100 + local_rank), local_rank, local_rank + 8, status, known, start + after};
}

Evidence with_error(unsigned local_rank, const std::string& message) {
  Evidence evidence;
  evidence.workers.resize(2);
  evidence.workers[local_rank].message = message;
  return evidence;
}

Evidence with_kills(std::uint64_t kills) {
  Evidence evidence;
  evidence.memory.known = true;
  evidence.memory.oom_kills = kills;
  evidence.memory.limit = 512U << 20U;
  return evidence;
}

}  // namespace

TEST_CASE("the first worker that failed by itself is the cause, with its own code", "[verdict]") {
  const Ending ending = torchrun({worker(0, 0, 1s), worker(1, exited(42), 2s), worker(0, SIGTERM, 3s)});
  const Evidence evidence;
  const Verdict verdict = judge(ending, plan(Launcher::torchrun), evidence);
  CHECK(verdict.code == 42);
  CHECK(verdict.failed);
  REQUIRE(verdict.root);
  CHECK(verdict.root->who == "worker");
  CHECK(verdict.root->local_rank == 1U);
  CHECK(verdict.root->rank == 9U);
  CHECK(verdict.sentence ==
        "worker 1 (rank 9, pid 101) failed first: it ended with code 42; torchrun ended with code 1 after "
        "10.0 s");
  CHECK(judge(ending, plan(Launcher::torchrun), evidence, true).code == 1);
}

TEST_CASE("what ends after the agent or after a stop is no cause", "[verdict]") {
  const Evidence evidence;
  Ending killed = torchrun({worker(0, SIGTERM, 11s), worker(1, SIGTERM, 11s)});
  killed.kind = Ending::Kind::signalled;
  killed.number = SIGKILL;
  killed.leftovers = 2;
  const Verdict verdict = judge(killed, plan(Launcher::torchrun), evidence);
  CHECK(verdict.code == 137);
  REQUIRE(verdict.root);
  CHECK(verdict.root->who == "launcher");
  CHECK(verdict.root->signal == SIGKILL);
  CHECK(verdict.sentence.find("2 processes that it left behind were stopped") != std::string::npos);

  Ending stopped = torchrun({worker(0, exited(3), 6s), worker(1, 0, 6s)});
  stopped.stop_signal = SIGTERM;
  stopped.stopped_at = start + 5s;
  const Verdict after = judge(stopped, plan(Launcher::torchrun), evidence);
  CHECK(after.code == 143);
  CHECK_FALSE(after.failed);
  CHECK_FALSE(after.root);
  CHECK(after.cause == Cause::stopped);
}

TEST_CASE("a KILL is told as out of memory only where the kernel counted one", "[verdict]") {
  const Ending ending = torchrun({worker(1, SIGKILL, 2s)});
  const Evidence none = with_kills(0);
  const Evidence one = with_kills(1);
  CHECK(judge(ending, plan(Launcher::torchrun), none).cause == Cause::none);
  const Verdict verdict = judge(ending, plan(Launcher::torchrun), one);
  CHECK(verdict.cause == Cause::oom);
  CHECK(verdict.code == 137);
  CHECK(verdict.sentence.find("SIGKILL (out of memory: the limit is 512 MiB)") != std::string::npos);

  Ending program;
  program.number = 137;  // a shell that says how its child ended
  CHECK(judge(program, plan(Launcher::none), one).cause == Cause::oom);
  program.number = 1;
  const Verdict other = judge(program, plan(Launcher::none), one);
  CHECK(other.cause == Cause::none);
  CHECK(other.sentence.ends_with(" (the kernel killed a process for want of memory: the limit is 512 MiB)"));
  CHECK(judge(program, plan(Launcher::none), with_kills(2)).sentence.find("killed 2 processes") !=
        std::string::npos);
}

TEST_CASE("a data loader that was killed for its memory is out of memory", "[verdict]") {
  Evidence evidence = with_kills(1);
  evidence.workers.resize(1);
  evidence.workers[0].message =
      "RuntimeError: DataLoader worker (pid 12) is killed by signal: Killed. \nmore";
  const Verdict verdict = judge(torchrun({worker(0, exited(1), 2s)}), plan(Launcher::torchrun), evidence);
  CHECK(verdict.cause == Cause::oom);
  CHECK(verdict.code == 1);
}

TEST_CASE("where the kernel does not tell, the error file does", "[verdict]") {
  const Ending ending = torchrun({worker(0, 0, 1s, false), worker(1, 0, 2s, false)});
  const Evidence evidence = with_error(1, "ValueError: boom\nmore");
  const Verdict verdict = judge(ending, plan(Launcher::torchrun), evidence);
  REQUIRE(verdict.root);
  CHECK(verdict.root->local_rank == 1U);
  CHECK(verdict.root->source == "error file");
  CHECK(verdict.code == 1);
  CHECK(verdict.sentence.find("(ValueError: boom);") != std::string::npos);
}

TEST_CASE("the agent's own error stands where no worker failed", "[verdict]") {
  Evidence evidence;
  evidence.agent.message = "DistStoreError: Timed out";
  const Verdict verdict = judge(torchrun({}), plan(Launcher::torchrun), evidence);
  CHECK(verdict.code == 1);
  CHECK(verdict.sentence == "torchrun ended with code 1 after 10.0 s (DistStoreError: Timed out)");
}

TEST_CASE("a bus error names what is left of /dev/shm", "[verdict]") {
  Evidence evidence;
  evidence.shm = "/dev/shm has 0 MiB of 64 MiB left";
  const Verdict verdict = judge(torchrun({worker(0, SIGBUS, 1s)}), plan(Launcher::torchrun), evidence);
  CHECK(verdict.sentence.find("SIGBUS (/dev/shm has 0 MiB of 64 MiB left)") != std::string::npos);
}
