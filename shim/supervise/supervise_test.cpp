#include "supervise/supervise.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <new>
#include <thread>
#include <utility>

#include "supervise/kernel.h"
#include "supervise/supervised_for_test.h"

using rankshim::bit;
using rankshim::SignalScope;
using rankshim::SignalSet;
using namespace rankshim::supervise;
using namespace std::chrono_literals;
using Kind = ExitRecord::Kind;

namespace {

constexpr int rtmin = 34;

/// Runs a command to its end.
ExitRecord run(Mode mode, const std::string& script, const Policy& policy = {}) {
  return Supervised(mode, script, policy).record();
}

/// For shells: prints "ready" and waits for signals, without ending and without a child that a signal could
/// end. In short pieces: a trap whose signal comes between two of bash's commands runs only when the second
/// is over.
const std::string quiet_descriptor = "exec 3<> <(:); wait $!; ";  // before any child: $! could be its number
// bash catches all signals that would end it from its first read with a time limit on (its
// initialize_terminating_signals), so that comes first: what it handles must not change after "ready".
const std::string ready_loop = "read -r -t 0.001 -u 3; echo ready; while :; do read -r -t 0.2 -u 3; done";
const std::string wait_ready = quiet_descriptor + ready_loop;

/// A Python command that prints the signals that it gets, in order; real-time signals with their values.
const char* const listener = R"(
import os, signal, sys
numbers = set(signal.valid_signals()) - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}
signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
print("ready", flush=True)
while True:
    info = signal.sigwaitinfo(numbers)
    print(info.si_signo, flush=True)
    if info.si_signo == signal.SIGTERM: sys.exit(5)
)";

}  // namespace

TEST_CASE("the command's exit code and signal are reported unchanged", "[supervise]") {
  for (const Mode mode : modes()) {
    INFO(name(mode));
    for (const int code : {0, 1, 7, 127, 255}) {
      const ExitRecord record = run(mode, "exit " + std::to_string(code));
      CHECK(record.kind == Kind::exited);
      CHECK(record.number == code);
      CHECK_FALSE(record.stop);
    }
    for (const int signal : {SIGTERM, SIGKILL, SIGSEGV, SIGUSR1}) {
      const ExitRecord record = run(mode, "ulimit -c 0; kill -" + std::to_string(signal) + " $$");
      CHECK(record.kind == Kind::signalled);
      CHECK(record.number == signal);
      CHECK_FALSE(record.killed_by_us);
    }
  }
}

TEST_CASE("a command that makes us its tracer runs and ends as any other", "[supervise][attack]") {
  const std::string trace_me = "import ctypes, os; ctypes.CDLL(None).ptrace(0, 0, None, None); ";
  for (const Mode mode : modes()) {
    INFO(name(mode));
    const ExitRecord exits =
        Supervised(mode, {"python3", "-c", trace_me + "os.execvp('sh', ['sh', '-c', 'exit 7'])"}, {})
            .record();
    CHECK(exits.kind == Kind::exited);
    CHECK(exits.number == 7);
    Supervised stopped(
        mode, {"python3", "-c", trace_me + "print('ready', flush=True); import time; time.sleep(3600)"}, {});
    CHECK(stopped.line() == "ready");
    stopped.signal(SIGTERM);
    const ExitRecord record = stopped.record();
    CHECK(record.kind == Kind::signalled);
    CHECK(record.number == SIGTERM);
    const ExitRecord trapped =
        Supervised(mode, {"python3", "-c", trace_me + "import signal; signal.raise_signal(5)"}, {}).record();
    CHECK(trapped.kind == Kind::signalled);
    CHECK(trapped.number == SIGTRAP);
  }
}

TEST_CASE("every signal is passed on once, in its order", "[supervise]") {
  const std::vector<int> wanted = {
      SIGHUP,   SIGINT,  SIGQUIT,   SIGILL,  SIGTRAP, SIGABRT, SIGBUS, SIGFPE,  SIGUSR1, SIGSEGV,   SIGUSR2,
      SIGPIPE,  SIGALRM, SIGSTKFLT, SIGTSTP, SIGTTIN, SIGTTOU, SIGURG, SIGXCPU, SIGXFSZ, SIGVTALRM, SIGPROF,
      SIGWINCH, SIGIO,   SIGPWR,    SIGSYS,  rtmin,   35,      40,     63,      64,      SIGTERM};
  for (const Mode mode : modes()) {
    for (const SignalScope scope : {SignalScope::child, SignalScope::group, SignalScope::tree}) {
      INFO(name(mode) << ", scope " << static_cast<int>(scope));
      Policy policy;
      policy.scope = scope;
      Supervised command(mode, std::vector<std::string>{"python3", "-c", listener}, policy);
      REQUIRE(command.line() == "ready");
      for (const int signal : wanted) {
        command.signal(signal);
        CHECK(command.line() == std::to_string(signal));
      }
      const ExitRecord record = command.record();
      CHECK(record.number == 5);
      CHECK(record.stop.value().signal == SIGHUP);
      CHECK(command.line().empty());
    }
  }
}

TEST_CASE("a signal is passed on even if whom it has reached cannot be found out", "[supervise]") {
  Policy policy;
  policy.sent_to_all = [](const Signal&) -> bool { throw std::bad_alloc(); };
  Supervised command(Mode::subreaper, std::vector<std::string>{"python3", "-c", listener}, policy);
  REQUIRE(command.line() == "ready");
  for (const int signal : {SIGUSR1, SIGTERM}) {
    command.signal(signal);
    CHECK(command.line() == std::to_string(signal));
  }
  CHECK(command.record().stop.value().signal == SIGTERM);
}

TEST_CASE("a real-time signal arrives as often as it was queued, with its values in order", "[supervise]") {
  const std::string counter = R"(
import signal, sys
numbers = {40, 41, signal.SIGTERM}
signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
print("ready", flush=True)
seen = {40: 0, 41: 0}
while True:
    info = signal.sigwaitinfo(numbers)
    if info.si_signo == signal.SIGTERM: break
    seen[info.si_signo] += 1
    if sum(seen.values()) == 6000: print(seen[40], seen[41], flush=True)
)";
  for (const Mode mode : modes()) {
    for (const SignalScope scope : {SignalScope::child, SignalScope::group}) {
      INFO(name(mode) << ", scope " << static_cast<int>(scope));
      Policy policy;
      policy.scope = scope;
      Supervised command(mode, std::vector<std::string>{"python3", "-c", counter}, policy);
      REQUIRE(command.line() == "ready");
      for (int index = 0; index < 3000; ++index) {
        command.queue(40, index);
        command.signal(41);
      }
      CHECK(command.line() == "3000 3000");
      command.signal(SIGTERM);
      CHECK(command.record().number == 0);
    }
  }
}

TEST_CASE("a real-time signal waits for room in the command's queue", "[supervise]") {
  // The command may have 50 signals pending and takes none until it gets USR1. As root the limit counts for
  // it alone.
  const std::string slow = R"(
import resource, signal
resource.setrlimit(resource.RLIMIT_SIGPENDING, (50, 50))
signal.pthread_sigmask(signal.SIG_BLOCK, {40, signal.SIGUSR1})
print("ready", flush=True)
signal.sigwait({signal.SIGUSR1})
for index in range(200): signal.sigwait({40})
print("all", signal.sigtimedwait({40}, 0), flush=True)
)";
  for (const Mode mode : modes()) {
    Policy policy;
    policy.scope = SignalScope::child;
    Supervised command(mode, std::vector<std::string>{"python3", "-c", slow}, policy);
    REQUIRE(command.line() == "ready");
    for (int index = 0; index < 200; ++index) command.queue(40, index);
    command.signal(SIGUSR1);  // passes those that wait
    CHECK(command.line() == "all None");
    CHECK(command.record().number == 0);
  }
}

TEST_CASE("the scope decides which processes get a signal", "[supervise]") {
  // The command, a child in its group and one in another session; each prints that it got the signal, and
  // stays.
  const std::string family = R"(
exec 3<> <(:); wait $!
say() { trap "echo $1" USR1; echo ready; while :; do read -r -t 0.2 -u 3; done; }
export -f say
say member &
setsid bash -c 'say stranger' &
say command
)";
  const std::vector<std::pair<SignalScope, std::vector<std::string>>> cases = {
      {SignalScope::child, {"command"}},
      {SignalScope::group, {"command", "member"}},
      {SignalScope::tree, {"command", "member", "stranger"}}};
  for (const Mode mode : modes()) {
    for (const auto& [scope, wanted] : cases) {
      INFO(name(mode) << ", scope " << static_cast<int>(scope));
      Policy policy;
      policy.scope = scope;
      Supervised command(mode, family, policy);
      for (int ready = 0; ready < 3; ++ready) REQUIRE(command.line() == "ready");
      command.signal(SIGUSR1);
      std::vector<std::string> lines;
      for (std::size_t count = 0; count < wanted.size(); ++count) lines.push_back(command.line());
      std::ranges::sort(lines);
      CHECK(lines == wanted);
      command.signal(SIGTERM);
      CHECK(command.line().empty());  // no more was printed, and no process is left
      const ExitRecord record = command.record();
      CHECK(record.kind == Kind::signalled);
      CHECK(record.number == SIGTERM);
      CHECK(record.leftovers_killed == 0);
    }
  }
}

TEST_CASE("without a grace a stop leaves the command all the time it wants", "[supervise]") {
  for (const Mode mode : modes()) {
    Supervised command(mode, "trap 'echo asked; exit 3' TERM; " + wait_ready, {});
    REQUIRE(command.line() == "ready");
    command.signal(SIGTERM);
    const ExitRecord record = command.record();
    CHECK(command.line() == "asked");
    CHECK(record.kind == Kind::exited);
    CHECK(record.number == 3);
    CHECK(record.stop.value().signal == SIGTERM);
    CHECK_FALSE(record.killed_by_us);
  }
}

TEST_CASE("when the grace period is over everything is killed, in other sessions too", "[supervise]") {
  const std::string deaf = "trap '' TERM; " + quiet_descriptor + "setsid bash -c 'trap \"\" TERM; " +
                           wait_ready + "' & " + ready_loop;
  for (const Mode mode : modes()) {
    INFO(name(mode));
    Policy policy;
    policy.grace = 200ms;
    policy.leftover_grace = 1h;
    Supervised command(mode, deaf, policy);
    for (int ready = 0; ready < 2; ++ready) REQUIRE(command.line() == "ready");
    const auto start = std::chrono::steady_clock::now();
    command.signal(SIGTERM);
    const ExitRecord record = command.record();
    CHECK(std::chrono::steady_clock::now() - start >= 200ms);
    CHECK(record.kind == Kind::signalled);
    CHECK(record.number == SIGKILL);
    CHECK(record.killed_by_us);
    CHECK(record.stop.value().signal == SIGTERM);
    CHECK(command.line().empty());  // no process is left that could write
  }
}

TEST_CASE("the command's leftovers get TERM, then KILL", "[supervise]") {
  // Each starts a process in a new session, waits until it is ready, and ends.
  const auto leave = [](const std::string& child) {
    return "coproc setsid bash -c '" + child + "'; read -r -u ${COPROC[0]}; exit 6";
  };
  struct Case {
    std::string script;
    std::chrono::milliseconds grace;
    unsigned killed;
    std::string output;
  };
  const std::vector<Case> cases = {
      {leave("trap \"echo asked >&2; exit\" TERM; " + wait_ready), 1h, 0, "asked"},
      {leave("trap \"\" TERM; " + wait_ready), 100ms, 1, ""},
      // One that is stopped can follow, too.
      {"setsid sleep 3600 & child=$!; until kill -STOP $child && [[ $(ps -o state= $child) == T ]]; do :; "
       "done; exit 6",
       1h, 0, ""}};
  for (const Mode mode : modes()) {
    for (const Case& wanted : cases) {
      INFO(name(mode) << ": " << wanted.script);
      Policy policy;
      policy.leftover_grace = wanted.grace;
      Supervised command(mode, "exec 2>&1; " + wanted.script, policy);
      CHECK(command.line() == wanted.output);
      const ExitRecord record = command.record();
      CHECK(record.kind == Kind::exited);
      CHECK(record.number == 6);
      CHECK(record.leftovers == 1);
      CHECK(record.leftovers_killed == wanted.killed);
      CHECK_FALSE(record.killed_by_us);
      CHECK(command.line().empty());
    }
  }
}

TEST_CASE("after a stop the leftovers have what remains of the grace", "[supervise]") {
  const std::string script = quiet_descriptor + "coproc setsid bash -c 'trap \"\" TERM; " + wait_ready +
                             "'; read -r -u ${COPROC[0]}; trap 'exit 3' TERM; " + ready_loop;
  for (const Mode mode : modes()) {
    INFO(name(mode));
    Policy policy;
    policy.grace = 300ms;
    policy.leftover_grace = 1h;
    Supervised command(mode, script, policy);
    REQUIRE(command.line() == "ready");
    command.signal(SIGTERM);
    const ExitRecord record = command.record();
    CHECK(record.kind == Kind::exited);
    CHECK(record.number == 3);
    CHECK(record.stop.value().signal == SIGTERM);
    CHECK(record.leftovers == 1);
    CHECK(record.leftovers_killed == 1);
  }
}

TEST_CASE("INT kills what is left, TERM does not hurry it", "[supervise]") {
  const std::string script = "coproc setsid bash -c 'trap \"echo asked >&2\" TERM; " + wait_ready +
                             "'; read -r -u ${COPROC[0]}; exit 2";
  for (const Mode mode : modes()) {
    Policy policy;
    policy.leftover_grace = 1h;
    Supervised command(mode, "exec 2>&1; " + script, policy);
    REQUIRE(command.line() == "asked");
    command.signal(SIGTERM);
    command.signal(SIGINT);
    const ExitRecord record = command.record();
    CHECK(record.number == 2);
    CHECK(record.leftovers_killed == 1);
    CHECK_FALSE(record.stop);
    CHECK(command.line().empty());
  }
}

TEST_CASE("what has got a notice with all others is stopped when it is left behind", "[supervise]") {
  const std::string script =
      "exec 2>&1; " + quiet_descriptor +
      "coproc setsid bash -c 'trap \"echo noted >&2\" USR1; trap \"echo asked >&2; exit\" TERM; " +
      wait_ready + "'; read -r -u ${COPROC[0]}; trap 'exit 6' USR2; " + ready_loop;
  for (const Mode mode : modes()) {
    INFO(name(mode));
    Policy policy;
    policy.worker_signals = bit(SIGUSR1);
    policy.sent_to_all = [](const Signal& signal) { return signal.number == SIGUSR1; };
    Supervised command(mode, script, policy);
    REQUIRE(command.line() == "ready");
    command.signal(SIGUSR1);
    command.signal(SIGUSR2);
    CHECK(command.line() == "asked");
    const ExitRecord record = command.record();
    CHECK(record.number == 6);
    CHECK(record.leftovers_killed == 0);
  }
}

TEST_CASE("a notice to rankshim alone arrives after one to all", "[supervise]") {
  const std::string script =
      "trap 'echo noted' USR1; trap 'echo heard' USR2; trap 'exit 6' TERM; " + wait_ready;
  for (const Mode mode : modes()) {
    INFO(name(mode));
    Policy policy;
    policy.worker_signals = bit(SIGUSR1);
    policy.sent_to_all = [before = false](const Signal& signal) mutable {
      return signal.number == SIGUSR1 && !std::exchange(before, true);
    };
    Supervised command(mode, script, policy);
    REQUIRE(command.line() == "ready");
    command.signal(SIGUSR1);
    command.signal(SIGUSR2);
    CHECK(command.line() == "heard");  // and the first notice was not passed on
    command.signal(SIGUSR1);
    CHECK(command.line() == "noted");
    command.signal(SIGTERM);
    CHECK(command.record().number == 6);
  }
}

TEST_CASE("a stop that was sent to all continues what is stopped, and does not come again at the end",
          "[supervise]") {
  const std::string script = "exec 2>&1; " + quiet_descriptor +
                             "setsid bash -c 'trap \"echo asked\" TERM; trap \"echo continued\" CONT; "
                             "kill -STOP $$; while :; do read -r -t 0.2 -u 3; done' & child=$!; "
                             "until [[ $(ps -o state= $child) == T ]]; do :; done; trap 'exit 6' USR2; " +
                             ready_loop;
  for (const Mode mode : modes()) {
    INFO(name(mode));
    Policy policy;
    policy.grace = 2s;
    policy.sent_to_all = [](const Signal& signal) { return signal.number == SIGTERM; };
    Supervised command(mode, script, policy);
    REQUIRE(command.line() == "ready");
    command.signal(SIGTERM);
    CHECK(command.line() == "continued");
    command.signal(SIGUSR2);
    CHECK(command.line().empty());
    const ExitRecord record = command.record();
    CHECK(record.number == 6);
    CHECK(record.leftovers_killed == 1);
  }
}

TEST_CASE("a command that leaves nothing ends at once", "[supervise]") {
  for (const Mode mode : modes()) {
    const ExitRecord record = run(mode, "true & wait; setsid true & wait; exit 1");
    CHECK(record.leftovers == 0);
    CHECK(record.number == 1);
  }
}

TEST_CASE("a child from before our time is neither waited for nor ended", "[supervise]") {
  for (const Mode mode : modes()) {
    INFO(name(mode));
    Policy policy;
    policy.leftover_grace = 1h;
    // It reads what rankshim writes, as `tee` does after a shell's `exec > >(tee log)`, and so outlives us.
    Supervised command(mode, "exit 3", policy, [] {
      int pipe[2];
      if (pipe2(pipe, O_CLOEXEC) != 0 || fork() != 0) return;
      close(pipe[1]);
      char byte = 0;
      [[maybe_unused]] const auto at_our_end = read(pipe[0], &byte, 1);
      _exit(0);
    });
    const ExitRecord record = command.record();
    CHECK(record.number == 3);
    CHECK(record.leftovers == 0);
  }
}

namespace {

/// Starts a process that ends after its parent, or before it and is not waited for. By vfork, because copies
/// of this program would take most of the time.
int leave_orphan() {
  const pid_t child = vfork();
  if (child == 0) {
    if (vfork() < 0) _exit(1);
    _exit(0);  // both
  }
  int status = 1;
  waitpid(child, &status, 0);
  return status;
}

}  // namespace

TEST_CASE("helper: leaves three thousand orphans", "[.orphans]") {
  for (int index = 0; index < 3'000; ++index) REQUIRE(leave_orphan() == 0);
}

TEST_CASE("three thousand orphans are reaped", "[supervise]") {
  char program[4096] = {};
  REQUIRE(readlink("/proc/self/exe", program, sizeof(program) - 1) > 0);
  for (const Mode mode : modes()) {
    INFO(name(mode));
    const ExitRecord record =
        Supervised(mode, std::vector<std::string>{program, "[.orphans]", "-o", "/dev/null"}, {}).record();
    CHECK(record.kind == Kind::exited);
    CHECK(record.number == 0);
    CHECK(record.leftovers_killed == 0);
  }
}

TEST_CASE("blocked and ignored signals reach the command as they came", "[supervise]") {
  // Of the program itself, whose constructor takes the mask, this is tried in integration/supervise.
  const std::string show = "grep -E 'SigIgn' /proc/self/status";
  for (const Mode mode : modes()) {
    INFO(name(mode));
    Supervised command(mode, show, {}, [] {
      for (const int ignored : {SIGHUP, SIGCHLD, SIGTTOU, 33, 64}) kernel::set_ignored(ignored, true);
    });
    const SignalSet wanted = bit(SIGHUP) | bit(SIGCHLD) | bit(SIGTTOU) | bit(33) | bit(64);
    const std::string line = command.line();
    REQUIRE(line.starts_with("SigIgn:"));
    // bash itself waits for children: it sets SIGCHLD to its default.
    CHECK((std::stoull(line.substr(7), nullptr, 16) | bit(SIGCHLD)) == wanted);
    CHECK(command.record().number == 0);
  }
}

TEST_CASE("an ignored SIGCHLD does not hang us, and the command gets it back", "[supervise]") {
  for (const Mode mode : modes()) {
    INFO(name(mode));
    Supervised command(mode, std::vector<std::string>{"grep", "SigIgn", "/proc/self/status"}, {},
                       [] { kernel::set_ignored(SIGCHLD, true); });
    CHECK(command.line() == "SigIgn:\t0000000000010000");
    CHECK(command.record().number == 0);
  }
}

TEST_CASE("a stop signal that was inherited as ignored stops nothing", "[supervise]") {
  for (const Mode mode : modes()) {
    Policy policy;
    policy.grace = 1ms;
    Supervised command(mode, "trap 'echo asked' USR1; trap 'exit 8' TERM; " + wait_ready, policy,
                       [] { kernel::set_ignored(SIGHUP, true); });
    REQUIRE(command.line() == "ready");
    command.signal(SIGHUP);
    command.signal(SIGUSR1);  // after it
    CHECK(command.line() == "asked");
    command.signal(SIGUSR2);  // ends it, without a grace that a stop would have started
    const ExitRecord record = command.record();
    CHECK(record.number == SIGUSR2);
    CHECK_FALSE(record.stop);
  }
}

TEST_CASE("a deadline that passes while the last process is reaped kills nothing again", "[supervise]") {
  // Longer than what lies between two KILLs.
  struct SlowObserver : Observer {
    void command_ended(const ExitRecord& /*record*/) override { std::this_thread::sleep_for(150ms); }
  } observer;
  Policy policy;
  policy.grace = 0ms;
  policy.observer = &observer;
  for (const Mode mode : modes()) {
    INFO(name(mode));
    Supervised command(mode, "trap '' TERM; " + wait_ready, policy,
                       [] { dup2(STDOUT_FILENO, STDERR_FILENO); });
    REQUIRE(command.line() == "ready");
    command.signal(SIGTERM);
    CHECK(command.record().killed_by_us);
    std::string last;
    for (std::string line = command.line(); !line.empty(); line = command.line()) last = line;
    CHECK(last == "rankshim: warning: the grace period is over: rankshim kills everything");
  }
}

namespace {

/// Two orders in one moment, of which the second one ends the command.
class TwoAtOnce : public Workers {
 public:
  void started(const std::vector<pid_t>& /*processes*/, Clock::time_point /*when*/,
               const std::vector<std::string>& /*environment*/) override {
    give({.kind = Order::Kind::name_hanging, .why = {}});
    give({.kind = Order::Kind::kill, .why = "both were taken"});
  }
};

}  // namespace

TEST_CASE("of two orders in one moment neither is forgotten", "[supervise]") {
  for (const Mode mode : modes()) {
    INFO(name(mode));
    TwoAtOnce launcher;
    Policy policy;
    policy.launcher = &launcher;
    CHECK(run(mode, "exec sleep 1000", policy).killed_by_us);
  }
}

TEST_CASE("an order from outside stops the command as a TERM would, and its reason is known", "[supervise]") {
  /// As the link to the other nodes does.
  struct OtherNode : Observer {
    explicit OtherNode(Workers& of) : launcher(of) {}
    void started(const std::vector<pid_t>& /*processes*/, Clock::time_point /*when*/,
                 const std::vector<std::string>& /*environment*/) override {
      launcher.give({.kind = Order::Kind::stop, .why = "node 3 has failed"});
    }
    Workers& launcher;
  };
  Workers launcher;
  OtherNode other(launcher);
  Policy policy;
  policy.launcher = &launcher;
  policy.observer = &other;
  for (const Mode mode : modes()) {
    INFO(name(mode));
    const ExitRecord record = run(mode, "exec sleep 1000", policy);
    CHECK(record.number == SIGTERM);
    CHECK(record.stop.value().signal == SIGTERM);
    CHECK(record.stop->by == rankshim::outcome::StopRequest::By::order);
  }
}

TEST_CASE("the observer of a stop knows when everything is killed", "[supervise]") {
  /// Prints the grace on the command's stdout, and then ends the command.
  struct Printer : Observer {
    explicit Printer(Workers& of) : launcher(of) {}
    void started(const std::vector<pid_t>& /*processes*/, Clock::time_point /*when*/,
                 const std::vector<std::string>& /*environment*/) override {
      if (orders) launcher.give({.kind = Order::Kind::stop, .why = {}});
    }
    void stop_passed_on(const rankshim::outcome::StopRequest& /*stop*/,
                        std::optional<std::chrono::milliseconds> grace) override {
      const std::string line = (grace ? std::to_string(grace->count()) : "no limit") + "\n";
      [[maybe_unused]] const auto written = write(STDOUT_FILENO, line.data(), line.size());
      launcher.give({.kind = Order::Kind::kill, .why = "the test is over"});
    }
    Workers& launcher;
    bool orders = false;
  };
  struct Row {
    bool orders;
    std::optional<std::chrono::milliseconds> grace;
    const char* told;
  };
  for (const Row& row : {Row{true, std::nullopt, "30000"}, Row{true, 90s, "90000"},
                         Row{false, std::nullopt, "no limit"}, Row{false, 90s, "90000"}}) {
    INFO(row.orders << " " << row.told);
    Workers launcher;
    Printer printer(launcher);
    printer.orders = row.orders;
    Policy policy;
    policy.grace = row.grace;
    policy.launcher = &launcher;
    policy.observer = &printer;
    Supervised command(modes().back(), "trap '' TERM; " + wait_ready, policy);
    if (!row.orders) {
      REQUIRE(command.line() == "ready");
      command.signal(SIGTERM);
    }
    std::string line = command.line();
    if (line == "ready") line = command.line();  // the order may come before it
    CHECK(line == row.told);
    CHECK(command.record().number == SIGKILL);
  }
}
