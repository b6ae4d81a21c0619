#include "report/verdict.h"
#include "outcome/wording.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <csignal>

#include "launchers/native/native_launcher.h"
#include "launchers/torchrun/torchrun_launcher.h"
#include "report/exit_report.h"
#include "report/wording.h"

using namespace rankshim;
using namespace rankshim::report;
using launchers::Launcher;
using launchers::LaunchPlan;
using launchers::TorchrunLauncher;
using outcome::Cause;
using supervise::ExitRecord;
using supervise::WorkerEnd;
using namespace std::chrono_literals;

namespace {

const std::chrono::steady_clock::time_point start{1h};

constexpr int exited(int code) { return code << 8; }

/// A torchrun that ended with 1 ten seconds after `start`.
ExitRecord torchrun(std::vector<WorkerEnd> workers) {
  ExitRecord record;
  record.number = 1;
  record.pid = 7;
  record.started_at = start;
  record.ended_at = start + 10s;
  record.ran = 10s;
  record.workers.ends = std::move(workers);
  record.workers.states.resize(2, {.ended = true});
  record.workers.attempts = 1;
  return record;
}

outcome::StopRequest stop_at(std::chrono::steady_clock::time_point when) {
  return {.signal = SIGTERM, .when = when};
}

template <class Kind>
launchers::LaunchChoice chosen() {
  launchers::LaunchChoice choice;
  choice.launcher = std::make_shared<Kind>();
  return choice;
}

const LaunchPlan train = {.argv = {"train"}, .environment = {}, .workers = {}};

WorkerEnd worker(unsigned local_rank, int status, std::chrono::seconds after, bool known = true) {
  return {static_cast<pid_t>(100 + local_rank), local_rank, local_rank + 8, status, known, start + after};
}

Details with_error(unsigned local_rank, const std::string& message) {
  Details details;
  details.workers[local_rank].message = message;
  return details;
}

/// With so many kills at the memory limit, which are what the evidence says for each process.
Details with_kills(std::uint64_t kills, node::OomEvidence evidence = {.own = true, .of_child = true}) {
  Details details;
  for (const pid_t process : {0, 100, 101})
    if (kills != 0) details.oom[process] = evidence;
  details.memory.known = true;
  details.memory.oom_kills = kills;
  details.memory.limit = 512U << 20U;
  return details;
}

}  // namespace

TEST_CASE("a node that --strict ended because it trains alone is 78, whatever the command's end",
          "[verdict]") {
  supervise::ExitRecord record;
  record.kind = supervise::ExitRecord::Kind::signalled;
  record.number = SIGTERM;
  record.stop = stop_at(start + 5s);
  record.workers.lone_training = {.who = "worker 12 (torchrun)", .world = 8, .expected = 16};
  record.workers.stopped_for_it = true;
  LaunchPlan plan;
  plan.argv = {"bash", "run.sh"};
  const Details details;
  const Verdict verdict = judge(record, {}, plan, details);
  CHECK(verdict.code == 78);
  CHECK(verdict.failed());
  CHECK(verdict.cause == Cause::configuration);
  CHECK(wording::message(verdict) ==
        "this node trains alone: worker 12 (torchrun) has WORLD_SIZE=8, but the job has 16, and --strict "
        "does not "
        "allow that [R36]");
}

TEST_CASE("the first worker that failed by itself is the cause, with its own code", "[verdict]") {
  const ExitRecord record = torchrun({worker(0, 0, 1s), worker(1, exited(42), 2s), worker(0, SIGTERM, 3s)});
  const Details details;
  const Verdict verdict = judge(record, chosen<TorchrunLauncher>(), train, details);
  CHECK(verdict.code == 42);
  CHECK(verdict.failed());
  REQUIRE(verdict.root);
  CHECK(verdict.root->who == RootCause::Who::worker);
  CHECK(verdict.root->local_rank == 1U);
  CHECK(verdict.root->culprit.rank == 9U);
  CHECK(wording::message(verdict) == "rank 9 exited with code 42");
}

TEST_CASE("each of several nodes reports only on itself, and names another that it probably lost",
          "[verdict]") {
  const std::optional<supervise::NodeNumbers> numbers{{.node_rank = 1, .nodes = 2}};
  const Verdict own =
      judge(torchrun({worker(1, exited(42), 2s)}), chosen<TorchrunLauncher>(), train, {}, numbers);
  CHECK(wording::message(own) == "node 1 failed: rank 9 exited with code 42");
  CHECK(own.root.value().culprit.cause == Cause::exited);

  const Details gloo = with_error(
      1, "RuntimeError: [../gloo/transport/tcp/pair.cc:547] Connection closed by peer [10.0.0.1]:4711");
  const ExitRecord raised = torchrun({worker(1, exited(1), 2s)});
  const Verdict lost = judge(raised, chosen<TorchrunLauncher>(), train, gloo, numbers);
  CHECK(lost.root.value().culprit.cause == Cause::peer_lost);
  CHECK(lost.cause == Cause::peer_lost);
  CHECK(wording::message(lost) ==
        "node 1 lost its peer 10.0.0.1: rank 9 exited with code 1: RuntimeError: Connection closed by peer "
        "[10.0.0.1]:4711; see that node's report");
  CHECK(judge(raised, chosen<TorchrunLauncher>(), train, gloo).cause == Cause::exception);  // a node alone

  const Verdict watchdog =
      judge(torchrun({worker(0, SIGABRT, 2s)}), chosen<TorchrunLauncher>(), train, {}, numbers);
  CHECK(wording::message(watchdog) ==
        "node 1 lost a peer: rank 8 was killed by SIGABRT: it aborted itself, or NCCL's watchdog did because "
        "another node failed; see the other nodes' reports");
  Details without;  // without an accelerator there is no NCCL
  without.has_accelerators = false;
  CHECK(
      judge(torchrun({worker(0, SIGABRT, 2s)}), chosen<TorchrunLauncher>(), train, without, numbers).cause ==
      Cause::signalled);
}

TEST_CASE("an exception of a worker that a signal ended is told in order", "[verdict]") {
  const Details details = with_error(1, "RuntimeError: boom");
  CHECK(wording::message(judge(torchrun({worker(1, SIGTERM, 2s)}), chosen<TorchrunLauncher>(), train,
                               details)) == "rank 9 was killed by SIGTERM: it had raised RuntimeError: boom");
}

TEST_CASE("a program in front of torchrun is what ended, as far as no worker is known to have failed",
          "[verdict]") {
  LaunchPlan behind = train;
  behind.argv = {"timeout", "4", "torchrun", "train.py"};
  ExitRecord record = torchrun({});
  record.number = 124;
  launchers::LaunchChoice wrapped;
  launchers::TorchrunCommand own;
  own.begins_at = 1;
  wrapped.launcher = std::make_shared<TorchrunLauncher>(std::make_shared<launchers::TorchrunCommand>(own));
  CHECK(wording::message(judge(record, wrapped, behind, {})) == "timeout exited with code 124 after 10.0 s");
}

TEST_CASE("workers of the native launcher are several", "[verdict]") {
  ExitRecord record = torchrun({worker(0, 0, 6s), worker(1, 0, 7s)});
  record.number = 0;
  CHECK(wording::message(judge(record, chosen<launchers::NativeLauncher>(), train, {})) ==
        "the workers exited with code 0 after 10.0 s");
  record.stop = stop_at(start + 5s);
  CHECK(wording::message(judge(record, chosen<launchers::NativeLauncher>(), train, {})) ==
        "stopped (SIGTERM): the workers exited with code 0 after 10.0 s");
  const ExitRecord failed = torchrun({worker(1, exited(1), 2s)});
  CHECK(wording::message(judge(failed, chosen<launchers::NativeLauncher>(), train, {})) ==
        "rank 9 exited with code 1");
}

TEST_CASE("what ends after the agent or after a stop is no cause", "[verdict]") {
  const Details details;
  ExitRecord killed = torchrun({worker(0, SIGTERM, 11s), worker(1, SIGTERM, 11s)});
  killed.kind = ExitRecord::Kind::signalled;
  killed.number = SIGKILL;
  killed.leftovers = 2;
  const Verdict verdict = judge(killed, chosen<TorchrunLauncher>(), train, details);
  CHECK(verdict.code == 137);
  REQUIRE(verdict.root);
  CHECK(verdict.root->who == RootCause::Who::launcher);
  CHECK(verdict.root->culprit.signal == SIGKILL);
  CHECK(wording::message(verdict).find("; 2 leftover processes were stopped") != std::string::npos);

  ExitRecord stopped = torchrun({worker(0, exited(3), 6s), worker(1, 0, 6s)});
  stopped.stop = stop_at(start + 5s);
  const Verdict after = judge(stopped, chosen<TorchrunLauncher>(), train, details);
  CHECK(after.code == 143);
  CHECK_FALSE(after.failed());
  CHECK_FALSE(after.root);
  CHECK(after.cause == Cause::stop_requested);
}

TEST_CASE("a launcher that was stopped counts as stopped, whatever its workers made of it", "[verdict]") {
  const Details details;
  ExitRecord saved = torchrun({worker(0, 0, 6s), worker(1, 0, 7s)});  // checkpoints, and an end with 0
  saved.stop = stop_at(start + 5s);
  for (const int code : {0, 1}) {  // 0: the signal was --worker-signals'
    saved.number = code;
    const Verdict verdict = judge(saved, chosen<TorchrunLauncher>(), train, details);
    CHECK(verdict.code == 143);
    CHECK(verdict.cause == Cause::stop_requested);
    CHECK_FALSE(verdict.failed());
    CHECK(wording::message(verdict).starts_with(
        "stopped (SIGTERM): all workers then exited with code 0; torchrun exited with code "));
  }

  ExitRecord failed = torchrun({worker(0, exited(3), 4s), worker(1, 0, 6s)});
  failed.stop = stop_at(start + 5s);
  CHECK(judge(failed, chosen<TorchrunLauncher>(), train, details).code == 3);

  ExitRecord done = torchrun({worker(0, 0, 3s), worker(1, 0, 4s)});  // while torchrun waited for other nodes
  done.stop = stop_at(start + 5s);
  const Verdict verdict = judge(done, chosen<TorchrunLauncher>(), train, details);
  CHECK(verdict.code == 0);
  CHECK(verdict.cause == Cause::none);

  ExitRecord program;
  program.stop = stop_at(start + 5s);
  CHECK(judge(program, chosen<Launcher>(), train, details).code == 0);
}

TEST_CASE("a worker that failed because the rendezvous' host was lost is reported with that", "[verdict]") {
  const std::optional<supervise::NodeNumbers> numbers{{.node_rank = 1, .nodes = 2}};
  Details details = with_error(1, "ConnectionError: a peer is gone");
  details.agent_writes_error = true;
  details.agent.message = "RendezvousConnectionError: The connection to the C10d store has failed.";
  const Verdict verdict =
      judge(torchrun({worker(1, exited(1), 2s)}), chosen<TorchrunLauncher>(), train, details, numbers);
  CHECK(verdict.root.value().culprit.cause == Cause::peer_lost);
  CHECK(wording::message(verdict) ==
        "node 1 lost a peer: rank 9 exited with code 1: ConnectionError: a peer is gone; see the other "
        "nodes' reports; the node that hosts the rendezvous is gone");
}

TEST_CASE("a launcher that failed itself and ended its workers is the cause", "[verdict]") {
  const std::optional<supervise::NodeNumbers> numbers{{.node_rank = 1, .nodes = 2}};
  const ExitRecord ended = torchrun({worker(0, SIGTERM, 9s), worker(1, SIGKILL, 9s)});
  Details store;
  store.agent_writes_error = true;
  store.agent.message = "RendezvousConnectionError: The connection to the C10d store has failed.";
  const Verdict verdict = judge(ended, chosen<TorchrunLauncher>(), train, store, numbers);
  CHECK(verdict.code == 1);
  REQUIRE(verdict.root);
  CHECK(verdict.root->who == RootCause::Who::launcher);
  CHECK(verdict.root->error == &store.agent);
  CHECK(wording::message(verdict) ==
        "node 1 lost a peer: torchrun exited with code 1 after 10.0 s: RendezvousConnectionError: The "
        "connection to the C10d store has failed.; see the other nodes' reports; it stopped its workers "
        "itself");

  // A worker that failed before torchrun did, over the same.
  CHECK(judge(torchrun({worker(1, exited(42), 2s), worker(0, SIGTERM, 9s)}), chosen<TorchrunLauncher>(),
              train, store)
            .code == 42);
  // A copy of a worker's exception.
  Details copied = with_error(0, "SystemExit: 143");
  copied.agent_writes_error = true;
  copied.agent.message = "SystemExit: 143";
  CHECK(judge(torchrun({worker(0, exited(143), 2s)}), chosen<TorchrunLauncher>(), train, copied)
            .root.value()
            .who == RootCause::Who::worker);

  // If torchrun would have written an error and did not, another process sent the TERM.
  const ExitRecord terminated = torchrun({worker(0, SIGTERM, 9s), worker(1, SIGTERM, 9s)});
  Details silent;
  CHECK(judge(terminated, chosen<TorchrunLauncher>(), train, silent).code == 1);
  silent.agent_writes_error = true;
  CHECK(judge(terminated, chosen<TorchrunLauncher>(), train, silent).code == 143);
}

TEST_CASE("a node that trained alone says so in its last line", "[verdict]") {
  ExitRecord record;
  record.ran = 10s;
  record.workers.lone_training = {.who = "worker 12", .world = 1, .expected = 2};
  const Verdict well = judge(record, chosen<Launcher>(), train, {});
  CHECK(
      wording::message(well).ends_with(" exited with code 0 after 10.0 s, but trained alone (world 1 of 2)"));
  CHECK((well.code == 0 && !well.failed()));
  record.number = 3;
  CHECK(wording::message(judge(record, chosen<Launcher>(), train, {}))
            .ends_with(" exited with code 3 after 10.0 s; it trained alone (world 1 of 2)"));
}

TEST_CASE("a KILL is reported as out of memory only if the kernel counted one", "[verdict]") {
  const ExitRecord record = torchrun({worker(1, SIGKILL, 2s)});
  const Details none = with_kills(0);
  const Details one = with_kills(1);
  CHECK(judge(record, chosen<TorchrunLauncher>(), train, none).cause == Cause::signalled);
  const Verdict verdict = judge(record, chosen<TorchrunLauncher>(), train, one);
  CHECK(verdict.cause == Cause::out_of_memory);
  CHECK(verdict.code == 137);
  CHECK(wording::message(verdict).find("SIGKILL: out of memory: the limit is 512 MiB") != std::string::npos);

  // An earlier one, that this worker outlived.
  const Details earlier = with_kills(1, {.own = false, .of_child = true});
  const Verdict later = judge(record, chosen<TorchrunLauncher>(), train, earlier);
  CHECK(later.cause == Cause::signalled);
  CHECK_THAT(wording::message(later), Catch::Contains("SIGKILL: earlier, the kernel killed a process because "
                                                      "the memory limit was reached: the limit is 512 MiB"));

  ExitRecord program;
  program.number = 137;  // a shell that reports how its child ended
  CHECK(judge(program, chosen<Launcher>(), train, one).cause == Cause::out_of_memory);
  CHECK(judge(program, chosen<Launcher>(), train, with_kills(1, {.own = true, .of_child = false})).cause ==
        Cause::exited);
  program.number = 1;
  const Verdict other = judge(program, chosen<Launcher>(), train, one);
  CHECK(other.cause == Cause::exited);
  CHECK(wording::message(other).ends_with(
      ": the kernel killed a process because the memory limit was reached: the limit is 512 MiB"));
  CHECK(
      wording::message(judge(program, chosen<Launcher>(), train, with_kills(2))).find("killed 2 processes") !=
      std::string::npos);
}

TEST_CASE("a worker whose child was killed for its memory, by its own words, is out of memory", "[verdict]") {
  for (const auto& [message, is_oom] : std::vector<std::pair<std::string, bool>>{
           {"RuntimeError: DataLoader worker (pid 12) is killed by signal: Killed. \nmore", true},
           {"CalledProcessError: Command '['prepare']' died with <Signals.SIGKILL: 9>.", true},
           {"CalledProcessError: Command 'prepare | tee' returned non-zero exit status 137.", true},
           {"BrokenProcessPool: A process in the process pool was terminated abruptly while the future was "
            "running or pending.",
            true},
           {"ProcessExitedException: process 0 terminated with signal SIGKILL", true},
           {"ValueError: boom", false},
           {"CalledProcessError: Command '['prepare']' returned non-zero exit status 1.", false}}) {
    CAPTURE(message);
    const auto verdict_with = [&](const node::OomEvidence& evidence) {
      Details details = with_kills(1, evidence);
      details.workers[0].message = message;
      return judge(torchrun({worker(0, exited(1), 2s)}), chosen<TorchrunLauncher>(), train, details);
    };
    const Verdict verdict = verdict_with({.own = false, .of_child = true});
    CHECK((verdict.cause == Cause::out_of_memory) == is_oom);
    CHECK(verdict.code == 1);
    CHECK(verdict_with({.own = false, .of_child = false}).cause != Cause::out_of_memory);
  }
}

TEST_CASE("where the kernel does not tell, the error file does", "[verdict]") {
  const ExitRecord record = torchrun({worker(0, 0, 1s, false), worker(1, 0, 2s, false)});
  const Details details = with_error(1, "ValueError: boom\nmore");
  const Verdict verdict = judge(record, chosen<TorchrunLauncher>(), train, details);
  REQUIRE(verdict.root);
  CHECK(verdict.root->local_rank == 1U);
  CHECK(verdict.root->source == "error file");
  CHECK(verdict.code == 1);
  CHECK(wording::message(verdict).ends_with(": ValueError: boom"));
}

TEST_CASE("the agent's error is reported if no worker failed", "[verdict]") {
  Details details;
  details.agent.message = "DistStoreError: Timed out";
  const Verdict verdict = judge(torchrun({}), chosen<TorchrunLauncher>(), train, details);
  CHECK(verdict.code == 1);
  CHECK(wording::message(verdict) == "torchrun exited with code 1 after 10.0 s: DistStoreError: Timed out");
}

TEST_CASE("a bus error, or shared memory that cannot be had, names what is left of /dev/shm", "[verdict]") {
  Details details;
  details.shm = "/dev/shm has 0 MiB of 64 MiB left";
  const Verdict verdict =
      judge(torchrun({worker(0, SIGBUS, 1s)}), chosen<TorchrunLauncher>(), train, details);
  CHECK(wording::message(verdict).find("SIGBUS: /dev/shm has 0 MiB of 64 MiB left") != std::string::npos);
  details.workers[0].message =
      "RuntimeError: unable to allocate shared memory(shm) for file </torch_1>: No space";
  CHECK(wording::message(
            judge(torchrun({worker(0, exited(1), 1s)}), chosen<TorchrunLauncher>(), train, details))
            .find("No space; /dev/shm has 0 MiB of 64 MiB left") != std::string::npos);
  details.workers = {{0, {"OSError: [Errno 28] No space left on device: '/psm_f00'", ""}}};
  CHECK(wording::message(
            judge(torchrun({worker(0, exited(1), 1s)}), chosen<TorchrunLauncher>(), train, details))
            .find("/psm_f00'; /dev/shm has 0 MiB of 64 MiB left") != std::string::npos);
}

TEST_CASE("a port that another process holds is told with its holder, only where that is the reason",
          "[verdict]") {
  Details details = with_error(0, "DistNetworkError: The server socket has failed, name: EADDRINUSE");
  details.port_holder = "port 29500 is held by python3 (pid 17)";
  const auto told = [&] {
    return wording::message(
        judge(torchrun({worker(0, exited(1), 2s)}), chosen<TorchrunLauncher>(), train, details));
  };
  CHECK_THAT(told(), Catch::Contains("name: EADDRINUSE; port 29500 is held by python3 (pid 17)"));
  details.workers[0].message = "OSError: [Errno 98] Address already in use";
  CHECK_THAT(told(), Catch::Contains("in use; port 29500 is held by python3 (pid 17)"));
  details.workers[0].message = "ValueError: boom";
  CHECK_THAT(told(), Catch::EndsWith("code 1: ValueError: boom"));
}

TEST_CASE("the code with which a shell tells of a signal is explained", "[verdict]") {
  ExitRecord record;
  const auto told = [&](int code, const Details& details) {
    record.number = code;
    return wording::message(judge(record, chosen<Launcher>(), train, details));
  };
  CHECK(told(137, {}) ==
        "train exited with code 137 after 0.0 s: 128 + 9: SIGKILL killed one of its processes; check its "
        "memory "
        "limit");
  CHECK(told(139, {}) ==
        "train exited with code 139 after 0.0 s: 128 + 11: SIGSEGV killed one of its processes");
  for (const int code : {3, 128, 129, 143, 255})
    CHECK(told(code, {}) == fmt::format("train exited with code {} after 0.0 s", code));
  CHECK_THAT(told(137, with_kills(1)), Catch::Contains(": out of memory") && !Catch::Contains("128 +"));
}

TEST_CASE("where a script called sys.exit is told, and is neither an exception nor a launcher's failure",
          "[verdict]") {
  Details details = with_error(0, "sys.exit(3) at train.py, line 7");
  details.agent.message = "sys.exit(3) at train.py, line 7";
  const Verdict verdict =
      judge(torchrun({worker(0, exited(3), 2s)}), chosen<TorchrunLauncher>(), train, details);
  CHECK(wording::message(verdict) == "rank 8 exited with code 3: sys.exit(3) at train.py, line 7");
  CHECK(verdict.root->culprit.cause == Cause::exited);
}

TEST_CASE("a sys.exit that was caught does not explain another end", "[verdict]") {
  const struct {
    const char* call;
    int status;
    bool explains;
  } cases[] = {
      {"sys.exit(3) at train.py, line 7", exited(3), true},
      {"sys.exit(3) at train.py, line 7", exited(5), false},
      {"sys.exit(-1) at train.py, line 7", exited(255), true},
      {"sys.exit(259) at train.py, line 7", exited(3), true},
      {"sys.exit(139) at train.py, line 7", SIGSEGV, false},
      {"sys.exit(99999999999999999999) at train.py, line 7", exited(255), false},
  };
  for (const auto& one : cases) {
    INFO(one.call << ", status " << one.status);
    const Details details = with_error(0, one.call);
    const Verdict verdict =
        judge(torchrun({worker(0, one.status, 2s)}), chosen<TorchrunLauncher>(), train, details);
    REQUIRE(verdict.root);
    CHECK((verdict.root->error != nullptr) == one.explains);
    CHECK((wording::message(verdict).find(one.call) != std::string::npos) == one.explains);
  }
}

TEST_CASE("a sys.exit gives the code where the kernel does not show it", "[verdict]") {
  const Details details = with_error(0, "sys.exit(3) at train.py, line 7");
  supervise::WorkerEnd unknown = worker(0, 0, 2s);
  unknown.status_known = false;
  const Verdict verdict = judge(torchrun({unknown}), chosen<TorchrunLauncher>(), train, details);
  REQUIRE(verdict.root);
  CHECK(verdict.code == 3);
  CHECK(verdict.root->error != nullptr);
}

TEST_CASE("nodes that never came give 75, whichever program gave up", "[verdict]") {
  Details details;
  for (const char* const given_up :
       {"DistNetworkError: Failed to recv, got 0 bytes. Connection was likely closed. Did the remote server "
        "shutdown or crash?",
        "RendezvousTimeoutError: ",
        "DistStoreError: Timed out after 901 seconds waiting for clients. 1/2 clients joined."}) {
    details.agent.message = given_up;
    ExitRecord record = torchrun({});
    record.workers.attempts = 0;
    const Verdict verdict = judge(record, chosen<TorchrunLauncher>(), train, details);
    CHECK(verdict.code == 75);
    CHECK(verdict.cause == Cause::unreachable);
    CHECK(wording::message(verdict) == "the other nodes did not join in time [R35]");
    CHECK(judge(torchrun({}), chosen<TorchrunLauncher>(), train, details).code ==
          1);  // later, for its next workers
  }

  ExitRecord killed = torchrun({});
  killed.kind = ExitRecord::Kind::signalled;
  killed.number = SIGKILL;
  killed.killed_by_us = true;
  killed.workers.never_met = true;
  const Verdict verdict = judge(killed, chosen<TorchrunLauncher>(), train, {});
  CHECK(verdict.code == 75);
  CHECK(verdict.failed());
  CHECK(verdict.cause == Cause::unreachable);
  CHECK(wording::message(verdict) == "the other nodes did not join in time [R35]");

  killed.workers.unreached = {.master = "m:1", .limit = 10s};
  const Verdict alone = judge(killed, chosen<TorchrunLauncher>(), train, {});
  CHECK(alone.code == 75);
  CHECK(alone.error_code == ErrorCode::port_closed);
  CHECK(wording::message(alone) ==
        "torchrun could not reach m:1 within 10 s: port closed (connection refused) [R28]");
}

TEST_CASE("the verdict names what did not stop", "[verdict]") {
  ExitRecord record = torchrun({});
  record.stop = stop_at(start + 5s);
  record.not_stopped = {
      .processes = {{.local_rank = 0, .rank = 8, .pid = 17, .state = 'S', .kernel = "futex_do_wait"}},
      .after = 1600ms};
  CHECK(wording::message(judge(record, chosen<TorchrunLauncher>(), train, {}))
            .ends_with("; worker 0 (rank 8, pid 17, state S, in futex_do_wait) did not stop in 1.6 s"));
}

TEST_CASE("a failure of torchrun that the command hides is told, and counts with --strict", "[verdict]") {
  ExitRecord record;
  record.ran = 10s;
  record.ended_at = start + 10s;
  Details details;
  details.told_by_torchrun = WorkerEnd{.pid = 71, .local_rank = 1, .rank = 9, .status = exited(3)};
  LaunchPlan plan;
  plan.argv = {"bash", "run.sh"};
  const Verdict told = judge(record, {}, plan, details);
  CHECK(told.code == 0);
  CHECK_FALSE(told.failed());
  CHECK(told.root.value().source == "torchrun");
  CHECK(wording::message(told) == "bash exited with code 0 after 10.0 s, although rank 9 exited with code 3");
  const Verdict strict = judge(record, {}, plan, details, std::nullopt, true);
  CHECK(strict.code == 3);
  CHECK(strict.failed());
}

TEST_CASE("a torchrun's worker is named although the command that has the torchrun fails too", "[verdict]") {
  const std::optional<supervise::NodeNumbers> numbers{{.node_rank = 1, .nodes = 2}};
  struct Row {
    int status;
    std::string error, words;
    Cause cause;
  };
  const auto row = GENERATE(values<Row>({
      {SIGKILL, "", "failed: rank 9 was killed by SIGKILL", Cause::signalled},
      {exited(1), "ValueError: boom\nmore", "failed: rank 9 exited with code 1: ValueError: boom",
       Cause::exception},
      {exited(42), "CalledProcessError: Command returned non-zero exit status 1.",
       "failed: rank 9 exited with code 42", Cause::exited},
      {exited(1), "RuntimeError: [gloo/transport/tcp/pair.cc:538] Connection closed by peer [10.0.0.1]:1",
       "lost its peer 10.0.0.1: rank 9 exited with code 1: RuntimeError: Connection closed by peer "
       "[10.0.0.1]:1; "
       "see that node's report",
       Cause::peer_lost},
  }));
  ExitRecord record;
  record.ran = 10s;
  record.number = 5;
  Details details;
  details.told_by_torchrun = WorkerEnd{.pid = 71, .local_rank = 1, .rank = 9, .status = row.status};
  details.agent.message = row.error;
  LaunchPlan plan;
  plan.argv = {"bash", "run.sh"};
  const Verdict verdict = judge(record, {}, plan, details, numbers, true);
  CHECK(verdict.code == 5);  // its own
  CHECK(verdict.failed());
  CHECK(verdict.cause == row.cause);
  CHECK(wording::message(verdict) == "node 1 " + row.words + "; bash exited with code 5 after 10.0 s");
  record.stop = stop_at(start + 5s);
  CHECK_FALSE(judge(record, {}, plan, details, numbers).root);
}

TEST_CASE("a worker whose end no kernel shows is known from torchrun", "[verdict]") {
  Details details;
  details.told_by_torchrun = WorkerEnd{.pid = 101, .local_rank = 1, .rank = 9, .status = SIGKILL};
  for (const ExitRecord& record :
       {torchrun({worker(0, 0, 1s, false), worker(1, 0, 2s, false)}), torchrun({})}) {
    const Verdict verdict = judge(record, chosen<TorchrunLauncher>(), train, details);
    CHECK(verdict.code == 137);
    CHECK(verdict.root.value().culprit.signal == SIGKILL);
    CHECK(wording::message(verdict).starts_with("rank 9 was killed by SIGKILL"));
  }
  // What the kernel shows is better.
  CHECK(judge(torchrun({worker(1, exited(42), 2s)}), chosen<TorchrunLauncher>(), train, details).code == 42);
}

TEST_CASE("what ended a node is told to the others in one line, and an exception only if it is its own",
          "[verdict]") {
  struct Row {
    int status;
    launchers::PythonError error;
    Cause cause;
    std::string words;
  };
  const auto row = GENERATE(values<Row>({
      {SIGKILL, {}, Cause::signalled, "rank 9 was killed by SIGKILL"},
      {exited(1),
       {.message = "ValueError: boom\nand more",
        .traceback = "Traceback (most recent call last):\n  File \"a.py\", line 2, in <module>\n    f()\n  "
                     "File \"b.py\", line 7, in f\n    raise\n"},
       Cause::exception,
       "rank 9 exited with code 1: ValueError: boom"},
      {exited(1),
       {.message = "CalledProcessError: Command returned non-zero exit status 1.", .traceback = ""},
       Cause::exited,
       "rank 9 exited with code 1: CalledProcessError: Command returned non-zero exit status 1."},
      {exited(1),
       {.message = "RuntimeError: [../gloo/transport/tcp/pair.cc:1] Connection closed by peer [10.0.0.2]:1",
        .traceback = ""},
       Cause::peer_lost,
       "rank 9 exited with code 1: RuntimeError: Connection closed by peer [10.0.0.2]:1"},
  }));
  Details details;
  details.workers[1] = row.error;
  const supervise::NodeNumbers numbers{.node_rank = 1, .nodes = 2};
  const auto told = culprit_of(
      judge(torchrun({worker(1, row.status, 2s)}), chosen<TorchrunLauncher>(), train, details, numbers));
  CHECK(told.cause == row.cause);
  CHECK(what_happened(told) == row.words);
  CHECK(told.peer == (row.cause == Cause::peer_lost ? "10.0.0.2" : ""));
  CHECK(told.frame == (row.cause == Cause::exception ? "File \"b.py\", line 7, in f" : ""));
}

TEST_CASE("on a lone node the worker that the others waited for is named, not its victim", "[verdict]") {
  const Details timed_out = with_error(
      0, "RuntimeError: [../gloo/transport/tcp/unbound_buffer.cc:1] Timed out waiting 20000ms for recv");
  const Verdict hung = judge(torchrun({worker(0, exited(1), 5s), worker(1, SIGTERM, 6s)}),
                             chosen<TorchrunLauncher>(), train, timed_out);
  CHECK(wording::message(hung) == "rank 9 was still running; rank 8 timed out waiting for it [R42]");
  CHECK(hung.code == 124);
  CHECK(settings::word_of_exit_map(hung.cause) == "hang");
  const Details closed = with_error(
      0, "RuntimeError: [../gloo/transport/tcp/pair.cc:1] Connection closed by peer [127.0.0.1]:1");
  const Verdict early = judge(torchrun({worker(1, 0, 3s), worker(0, exited(1), 5s)}),
                              chosen<TorchrunLauncher>(), train, closed);
  CHECK(wording::message(early) ==
        "rank 9 exited 0 after 3.0 s while rank 8 still waited for it: it ran fewer iterations");
  CHECK(early.code == 1);
  CHECK(settings::word_of_exit_map(early.cause) != "peer");
  for (const Verdict& verdict : {hung, early}) CHECK_FALSE(is_victim(verdict.root->culprit.cause));
}

TEST_CASE("one rank of several that lost a peer is not to blame", "[verdict]") {
  ExitRecord record;
  record.number = 1;
  record.ran = 10s;
  Details details;
  details.agent = {"RuntimeError: [../gloo/transport/tcp/unbound_buffer.cc:1] Timed out waiting 6000ms", ""};
  LaunchPlan plan;
  plan.argv = {"python3", "train.py"};
  const std::string words = "python3 exited with code 1 after 10.0 s: RuntimeError: Timed out waiting 6000ms";
  CHECK(wording::message(judge(record, {}, plan, details)) == words);
  details.is_one_of_several = true;
  CHECK(wording::message(judge(record, {}, plan, details)) ==
        words + "; another rank is to blame: run rankshim once per node to learn which");
}

TEST_CASE("a worker that hung is named also where the command has started the torchrun, or is not linked",
          "[verdict]") {
  const auto look = [](unsigned rank, std::uint64_t entered, unsigned line) {
    return outcome::WorkerLook{.rank = rank,
                               .state = 'S',
                               .stack = {{"/app/train.py", line, "step"}},
                               .groups = {{.name = "0",
                                           .description = "default_pg",
                                           .members = {{8, 10}},
                                           .entered = entered,
                                           .ended = 20,
                                           .operation = "all_reduce"}}};
  };
  ExitRecord record;
  record.number = 1;
  record.ran = 10s;
  Details details;
  details.host = "b";
  details.told_by_torchrun = WorkerEnd{.pid = 71, .local_rank = 0, .rank = 8, .status = exited(1)};
  details.agent = {
      "RuntimeError: [../gloo/transport/tcp/unbound_buffer.cc:1] Timed out waiting 20000ms for recv",
      "  File \"/app/train.py\", line 7, in <module>\n"};
  details.looks = {{0, look(8, 21, 300)}, {1, look(9, 20, 5)}, {2, look(10, 21, 7)}};
  details.suffered = {0, 2};
  LaunchPlan plan;
  plan.argv = {"bash", "run.sh"};
  const std::string words =
      "rank 9 was in step (train.py:5); ranks 8 and 10 waited in all_reduce (train.py:7) until their timeout "
      "of 20.0 s [R42]";
  const Verdict alone = judge(record, {}, plan, details);
  CHECK(wording::message(alone) == words);
  CHECK(alone.code == 124);
  const std::optional<supervise::NodeNumbers> numbers{{.node_rank = 1, .nodes = 2}};
  CHECK(wording::message(judge(record, {}, plan, details, numbers)) == "node 1 (b) hung: " + words);
  // Linked nodes know more than one alone, and this one only if its workers' numbers show it.
  launchers::LaunchChoice linked;
  linked.links = true;
  CHECK_FALSE(judge(record, linked, plan, details, numbers).culprit);
  for (auto& [local_rank, seen] : details.looks) seen.groups.clear();
  CHECK_FALSE(judge(record, {}, plan, details, numbers).culprit);
  record.number = 0;
  CHECK_FALSE(judge(record, {}, plan, details).culprit);  // the command hides it
}

TEST_CASE("the cause of a node is its own failure also where a victim of it has ended before", "[verdict]") {
  const std::optional<supervise::NodeNumbers> two_nodes{{.node_rank = 1, .nodes = 2}};
  Details details = with_error(
      0, "RuntimeError: [../gloo/transport/tcp/pair.cc:1] Connection closed by peer [127.0.0.1]:1");
  details.workers[1].message = "ValueError: boom";
  const std::vector<WorkerEnd> ends = {worker(0, exited(1), 5s), worker(1, SIGTERM, 6s)};
  for (const auto& numbers : {std::optional<supervise::NodeNumbers>(), two_nodes}) {
    const Verdict verdict = judge(torchrun(ends), chosen<TorchrunLauncher>(), train, details, numbers);
    CHECK(verdict.root->culprit.rank == 9U);
    CHECK(verdict.cause == Cause::exception);
    CHECK(verdict.code == 143);
  }
  // What ends when it is stopped tells nothing.
  details.workers.erase(1);
  for (const int status : {SIGTERM, SIGKILL, exited(3)}) {
    const std::vector<WorkerEnd> stopped = {worker(0, exited(1), 5s), worker(1, status, 6s)};
    CHECK(
        judge(torchrun(stopped), chosen<TorchrunLauncher>(), train, details, two_nodes).root->culprit.rank ==
        8U);
  }
}

TEST_CASE("what NCCL's watchdog says of a collective is in the report, by each version of torch",
          "[verdict]") {
  struct Row {
    std::string text;  ///< as public reports have it
    std::string number, operation, seconds, words;
  };
  const std::string at_line = "\nException raised from checkTimeout at ../ProcessGroupNCCL.cpp:525";
  for (const auto& [text, number, operation, seconds, words] : {
           // 1.8 to 1.10, with the shape or without
           Row{"RuntimeError: [Rank 0] Watchdog caught collective operation timeout: "
               "WorkNCCL(OpType=BROADCAST, "
               "TensorShape=[1, 2], Timeout(ms)=1800000) ran for 1800995 milliseconds before timing out.",
               "", "broadcast", "1800", "broadcast (train.py:7) until its timeout of 30 min"},
           Row{"RuntimeError: [Rank 0] Watchdog caught collective operation timeout: "
               "WorkNCCL(OpType=ALLREDUCE, "
               "Timeout(ms)=1800000) ran for 1800995 milliseconds before timing out.",
               "", "all_reduce", "1800", "all_reduce (train.py:7) until its timeout of 30 min"},
           // 1.11 to 2.0
           Row{"RuntimeError: [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=96120, "
               "OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 25624887 milliseconds before timing out.",
               "96120", "all_reduce", "1800", "all_reduce (train.py:7) until its timeout of 30 min"},
           // 2.1 and later
           Row{"DistBackendError: [Rank 0] Watchdog caught collective operation timeout: "
               "WorkNCCL(SeqNum=880, "
               "OpType=_ALLGATHER_BASE, NumelIn=19008, NumelOut=152064, Timeout(ms)=600000) ran for 600020 "
               "milliseconds before timing out." +
                   at_line,
               "880", "all_gather_into_tensor", "600",
               "all_gather_into_tensor (train.py:7) until its timeout of 10 min"},
           Row{"DistBackendError: [PG ID 0 PG GUID 0(default_pg) Rank 0] Process group watchdog thread "
               "terminated "
               "with exception: [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7753, "
               "OpType=_REDUCE_SCATTER_BASE, NumelIn=544997376, NumelOut=68124672, Timeout(ms)=600000) ran "
               "for "
               "600061 milliseconds before timing out." +
                   at_line,
               "7753", "reduce_scatter_tensor", "600",
               "reduce_scatter_tensor (train.py:7) until its timeout of 10 min"},
       }) {
    CAPTURE(text);
    Details details = with_error(0, text);
    details.workers[0].traceback = "  File \"/app/train.py\", line 7, in <module>\n";
    details.looks[1] = {.rank = 9, .state = 'S', .stack = {{"/app/train.py", 5, "load"}}};
    const Verdict verdict = judge(torchrun({worker(0, exited(1), 5s), worker(1, SIGTERM, 6s)}),
                                  chosen<TorchrunLauncher>(), train, details);
    CHECK(wording::message(verdict) ==
          "rank 9 was in load (train.py:5); rank 8 waited in " + words + " [R42]");
    const std::string json = as_json({.verdict = &verdict, .exit_code = verdict.code, .details = &details});
    const auto field = [&](std::string_view path) { return json::field(json, path).value_or(""); };
    CHECK(field("hang.number") == number);
    CHECK(field("hang.operation") == operation);
    CHECK(field("hang.seconds").starts_with(seconds));
    CHECK(field("hang.waits_at.line") == "7");
    CHECK(field("hang.place.line") == "5");
  }
}

TEST_CASE("only a stop from outside counts as one, at any time", "[verdict]") {
  ExitRecord signalled = torchrun({});
  signalled.stop = stop_at(start + 5s);
  ExitRecord ordered = signalled;
  ordered.stop->by = outcome::StopRequest::By::order;
  ExitRecord both = ordered;
  both.signal_after_order = SIGINT;
  ExitRecord late = torchrun({});
  late.signal_for_rankshim = SIGHUP;
  ExitRecord noticed = torchrun({});
  noticed.signal_for_rankshim = SIGUSR1;
  struct Row {
    const char* name;
    ExitRecord record;
    std::optional<int> command, anytime;
  };
  for (const Row& row :
       {Row{"a signal", signalled, SIGTERM, SIGTERM}, Row{"an order", ordered, {}, {}},
        Row{"a signal after an order", both, SIGINT, SIGINT}, Row{"a signal after the end", late, {}, SIGHUP},
        Row{"a notice after the end", noticed, {}, {}}}) {
    INFO(row.name);
    CHECK(row.record.stopped_from_outside(ExitRecord::During::command) == row.command);
    CHECK(row.record.stopped_from_outside(ExitRecord::During::anytime) == row.anytime);
    const Details details;
    CHECK(judge(row.record, chosen<TorchrunLauncher>(), train, details).stopped_by == row.anytime);
  }
}

namespace {

link::Stop stopped_for(unsigned node, Cause cause) {
  return {.culprit = {.rank = 8 * node, .cause = cause, .code = 3, .node = node, .host = "trainer"}};
}

/// Of node 1, whose worker failed.
Verdict own_failure() {
  return {.code = 7, .cause = Cause::exited, .root = RootCause{.culprit = {.rank = 8, .code = 7}}};
}

}  // namespace

TEST_CASE("what ended the job replaces a victim's verdict, and never a failure of this node", "[verdict]") {
  Verdict victim = own_failure();
  set_job_end(victim, stopped_for(0, Cause::exited), 1, false);
  CHECK(victim.stopped_for_culprit);
  CHECK(victim.code == exit_code::peer);
  CHECK(victim.cause == Cause::peer_lost);
  CHECK(victim.error_code == ErrorCode::node_failed);
  CHECK_FALSE(victim.root);
  CHECK(wording::sentence(victim) == "stopped: node 0 (trainer) failed: rank 0 exited with code 3");

  Verdict here = own_failure();
  set_job_end(here, stopped_for(1, Cause::exited), 1, false);
  CHECK_FALSE(here.stopped_for_culprit);
  CHECK(here.code == 7);
  CHECK(here.root);
  CHECK(wording::sentence(here) == "node 1 (trainer) failed: rank 8 exited with code 3");

  // The other nodes saw more of this than this node.
  Verdict hung = own_failure();
  set_job_end(hung, stopped_for(1, Cause::hang), 1, false);
  CHECK(hung.code == exit_code::hang);
  CHECK(hung.cause == Cause::hang);
  CHECK_FALSE(hung.root);
  Verdict early = own_failure();
  set_job_end(early, stopped_for(1, Cause::exited_early), 1, false);
  CHECK(early.code == exit_code::peer);
  CHECK(early.cause == Cause::exited_early);
}

TEST_CASE("a check keeps its own result on each node", "[verdict]") {
  Verdict failed = own_failure(), passed;
  set_job_end(failed, stopped_for(0, Cause::exited), 1, true);
  CHECK(failed.code == 7);
  CHECK(failed.root);
  set_job_end(passed, stopped_for(0, Cause::exited), 1, true);
  CHECK(passed.code == exit_code::peer);
  CHECK_FALSE(passed.stopped_for_culprit);
}

TEST_CASE("a node that has left keeps the job from being restarted, and is named", "[verdict]") {
  using outcome::NotRestarted;
  NotRestarted refusal{
      .why = NotRestarted::Why::node_gone,
      .gone = outcome::Culprit{
          .cause = Cause::stop_requested, .code = 143, .signal = SIGTERM, .node = 2, .host = "e"}};
  CHECK(wording::in_words(refusal) == "node 2 (e) was stopped (SIGTERM)");
  refusal.was_spare = true;
  CHECK(wording::in_words(refusal) == "node 2 (e), a spare, was stopped");
  refusal.gone->cause = Cause::node_lost;
  CHECK(wording::in_words(refusal) == "node 2 (e), a spare, was lost");
}

TEST_CASE("a node that waited in vain says where, unless the hub may have moved", "[verdict]") {
  reason::NotMet unmet{.why = {.cause = Cause::unreachable, .roll_call = {}, .culprit = {}, .hub = {}},
                       .own = {},
                       .waited = std::chrono::seconds(20),
                       .master = "job-0:29500"};
  unmet.why.roll_call.nodes = 3;
  unmet.why.roll_call.missing.add(2);
  const std::string missing = "1 of 3 nodes did not join in time: node 2; waited 20s";
  CHECK(wording::in_words(unmet) == missing + " at job-0:29500");
  unmet.master.clear();
  CHECK(wording::in_words(unmet) == missing);
}

TEST_CASE("a signal during the wait for the others stops a node whose part was done", "[verdict]") {
  Verdict done{.reason = reason::SpareNotNeeded{}};
  CHECK(set_signal_while_waiting(done, SIGTERM, std::nullopt));
  CHECK(done.code == 143);
  CHECK(done.cause == Cause::stop_requested);
  CHECK(done.stopped_by == SIGTERM);
  CHECK(wording::sentence(done) ==
        "the job has succeeded while this node waited as a spare; SIGTERM arrived while this node waited for "
        "the "
        "others");

  Verdict failed = own_failure();
  CHECK_FALSE(set_signal_while_waiting(failed, SIGTERM, std::nullopt));
  CHECK(failed.code == 7);
  CHECK(failed.stopped_by == SIGTERM);

  const link::Stop over = stopped_for(0, Cause::exited);
  Verdict stopped = own_failure();
  set_stopped_for(stopped, over);
  CHECK_FALSE(set_signal_while_waiting(stopped, SIGTERM, over));
  CHECK(stopped.code == exit_code::peer);
  CHECK(stopped.notes.empty());

  // It would have started again with the others.
  link::Stop again = over;
  again.again = true;
  CHECK(set_signal_while_waiting(stopped, SIGTERM, again));
  CHECK(stopped.code == 143);
  CHECK(stopped.cause == Cause::stop_requested);
}
