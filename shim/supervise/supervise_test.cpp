#include "supervise/supervise.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <fstream>

#include "supervise/kernel.h"
#include "supervise/trial.h"

using namespace rankshim::supervise;
using namespace std::chrono_literals;
using Kind = Ending::Kind;

namespace {

constexpr int rtmin = 34;

/// Runs a command to its end.
Ending run(Mode mode, const std::string& script, const Policy& policy = {}) {
  return Trial(mode, script, policy).ending();
}

/// For shells: waits for signals without ending, and without a child that a signal to the group would end.
const std::string forever = "exec 3<> <(:); while :; do read -r -t 3600 -u 3; done";

/// A Python command that says what it gets, in order; real-time signals with their values.
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

/// Keeps a folder for one test.
struct Folder {
  std::string path = [] {
    std::string name = "/tmp/rankshim-test-XXXXXX";
    REQUIRE(mkdtemp(name.data()) != nullptr);
    return name;
  }();
  ~Folder() { [[maybe_unused]] const int done = std::system(("rm -rf " + path).c_str()); }
  std::string file(const std::string& name, const std::string& content, mode_t mode) const {
    const std::string full = path + "/" + name;
    std::ofstream(full) << content;
    REQUIRE(chmod(full.c_str(), mode) == 0);
    return full;
  }
};

}  // namespace

TEST_CASE("the command's exit code and signal are told as they are", "[supervise]") {
  for (const Mode mode : modes()) {
    INFO(name(mode));
    for (const int code : {0, 1, 7, 127, 255}) {
      const Ending ending = run(mode, "exit " + std::to_string(code));
      CHECK(ending.kind == Kind::exited);
      CHECK(ending.number == code);
      CHECK_FALSE(ending.stop_signal);
    }
    for (const int signal : {SIGTERM, SIGKILL, SIGSEGV, SIGUSR1}) {
      const Ending ending = run(mode, "ulimit -c 0; kill -" + std::to_string(signal) + " $$");
      CHECK(ending.kind == Kind::signalled);
      CHECK(ending.number == signal);
      CHECK_FALSE(ending.killed_by_us);
    }
  }
}

TEST_CASE("what cannot be executed says which file and why", "[supervise]") {
  const Folder folder;
  const std::string plain = folder.file("plain", "", 0644);
  const std::string orphaned = folder.file("orphaned", "#!/no/such/interpreter\n", 0755);
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
                                   {plain + "/below", ENOENT, plain + "/below"},
                                   {"", ENOENT, ""}};
  for (const Mode mode : modes()) {
    for (const Case& wanted : cases) {
      INFO(name(mode) << ": " << wanted.command);
      const Ending ending = Trial(mode, std::vector<std::string>{wanted.command, "argument"}, {}).ending();
      CHECK(ending.kind == Kind::not_started);
      CHECK(ending.failed_call == "execve");
      CHECK(ending.number == wanted.error);
      CHECK(ending.failed_path == wanted.path);
    }
  }
}

TEST_CASE("a file that is no program is given to the shell, as execvp does", "[supervise]") {
  const Folder folder;
  const std::string script = folder.file("script", "exit $(($# + 40))\n", 0755);
  for (const Mode mode : modes()) {
    const Ending ending = Trial(mode, std::vector<std::string>{script, "a", "b"}, {}).ending();
    CHECK(ending.kind == Kind::exited);
    CHECK(ending.number == 42);
  }
}

TEST_CASE("PATH is searched as execvp does", "[supervise]") {
  using Names = std::vector<std::string>;
  CHECK(executable_candidates("x", {"A=1", "PATH=/a:/b"}) == Names{"/a/x", "/b/x"});
  CHECK(executable_candidates("x", {"PATH=:/b:"}) == Names{"x", "/b/x", "x"});
  CHECK(executable_candidates("x", {}) == Names{"/usr/local/bin/x", "/bin/x", "/usr/bin/x"});
  CHECK(executable_candidates("./x", {"PATH=/a"}) == Names{"./x"});
  const Folder folder;
  folder.file("tool", "#!/bin/sh\nexit 1\n", 0644);
  const Folder second;
  const Mode mode = modes().front();
  const std::vector<std::string> tool = {"tool"};
  const auto path = [](const std::string& value) { return [value] { setenv("PATH", value.c_str(), 1); }; };
  const Ending refused = Trial(mode, tool, {}, path("/no/such:" + folder.path + ":" + second.path)).ending();
  CHECK(refused.kind == Kind::not_started);
  CHECK(refused.number == EACCES);
  CHECK(refused.failed_path == folder.path + "/tool");
  second.file("tool", "#!/bin/sh\nexit 9\n", 0755);
  CHECK(Trial(mode, tool, {}, path("/no/such:" + folder.path + ":" + second.path)).ending().number == 9);
}

TEST_CASE("every signal is passed on once, in its order", "[supervise]") {
  const std::vector<int> wanted = {SIGHUP,  SIGINT,    SIGQUIT, SIGILL,    SIGTRAP,   SIGABRT, SIGBUS,    SIGFPE, SIGUSR1,
                                   SIGSEGV, SIGUSR2,   SIGPIPE, SIGALRM,   SIGSTKFLT, SIGTSTP, SIGTTIN,   SIGTTOU, SIGURG,
                                   SIGXCPU, SIGXFSZ,   SIGVTALRM, SIGPROF, SIGWINCH,  SIGIO,   SIGPWR,    SIGSYS, rtmin,
                                   35,      40,        63,      64,        SIGTERM};
  for (const Mode mode : modes()) {
    for (const SignalScope scope : {SignalScope::child, SignalScope::group, SignalScope::tree}) {
      INFO(name(mode) << ", scope " << static_cast<int>(scope));
      Policy policy;
      policy.scope = scope;
      Trial trial(mode, std::vector<std::string>{"python3", "-c", listener}, policy);
      REQUIRE(trial.line() == "ready");
      for (const int signal : wanted) {
        trial.signal(signal);
        CHECK(trial.line() == std::to_string(signal));
      }
      const Ending ending = trial.ending();
      CHECK(ending.number == 5);
      CHECK(ending.stop_signal == SIGHUP);
      CHECK(trial.line().empty());
    }
  }
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
      Trial trial(mode, std::vector<std::string>{"python3", "-c", counter}, policy);
      REQUIRE(trial.line() == "ready");
      for (int index = 0; index < 3000; ++index) {
        trial.queue(40, index);
        trial.signal(41);
      }
      CHECK(trial.line() == "3000 3000");
      trial.signal(SIGTERM);
      CHECK(trial.ending().number == 0);
    }
  }
}

TEST_CASE("a real-time signal waits for room in the command's queue", "[supervise]") {
  // The command may have 50 signals pending and takes none until it gets USR1. As root the limit counts for it alone.
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
    Trial trial(mode, std::vector<std::string>{"python3", "-c", slow}, policy);
    REQUIRE(trial.line() == "ready");
    for (int index = 0; index < 200; ++index) trial.queue(40, index);
    trial.signal(SIGUSR1);  // passes those that wait
    CHECK(trial.line() == "all None");
    CHECK(trial.ending().number == 0);
  }
}

TEST_CASE("the scope says who gets a signal", "[supervise]") {
  // The command, a child in its group and one in a session of its own; each says that it got the signal. The pipe holds
  // the command back until both are ready.
  const std::string family = R"(
say() { trap "echo $1; exit 0" USR1; echo ready; exec 3<> <(:); while :; do read -r -t 3600 -u 3; done; }
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
      Trial trial(mode, family, policy);
      for (int ready = 0; ready < 3; ++ready) REQUIRE(trial.line() == "ready");
      trial.signal(SIGUSR1);
      std::vector<std::string> said;
      for (std::string line = trial.line(); !line.empty(); line = trial.line()) said.push_back(line);
      std::ranges::sort(said);
      CHECK(said == wanted);
      const Ending ending = trial.ending();
      CHECK(ending.number == 0);
      CHECK(ending.leftovers_killed == 0);
    }
  }
}

TEST_CASE("without a grace a stop leaves the command all the time it wants", "[supervise]") {
  for (const Mode mode : modes()) {
    Trial trial(mode, "trap 'echo asked' TERM; echo ready; for i in 1 2; do read -r; done < <(exec sleep 0.3); exit 3", {});
    REQUIRE(trial.line() == "ready");
    trial.signal(SIGTERM);
    const Ending ending = trial.ending();
    CHECK(trial.line() == "asked");
    CHECK(ending.kind == Kind::exited);
    CHECK(ending.number == 3);
    CHECK(ending.stop_signal == SIGTERM);
    CHECK_FALSE(ending.killed_by_us);
  }
}

TEST_CASE("when the grace is over everything is killed, sessions of their own too", "[supervise]") {
  const std::string deaf = "trap '' TERM; setsid bash -c 'trap \"\" TERM; echo ready; " + forever + "' & " + forever;
  for (const Mode mode : modes()) {
    INFO(name(mode));
    Policy policy;
    policy.grace = 200ms;
    policy.leftover_grace = 1h;
    Trial trial(mode, deaf, policy);
    REQUIRE(trial.line() == "ready");
    const auto start = std::chrono::steady_clock::now();
    trial.signal(SIGTERM);
    const Ending ending = trial.ending();
    CHECK(std::chrono::steady_clock::now() - start >= 200ms);
    CHECK(ending.kind == Kind::signalled);
    CHECK(ending.number == SIGKILL);
    CHECK(ending.killed_by_us);
    CHECK(ending.stop_signal == SIGTERM);
    CHECK(trial.line().empty());  // nobody is left who could write
  }
}

TEST_CASE("what the command leaves behind gets TERM, then KILL", "[supervise]") {
  for (const Mode mode : modes()) {
    INFO(name(mode));
    Policy patient;
    patient.leftover_grace = 1h;
    {
      Trial trial(mode, "setsid bash -c 'trap \"echo asked; exit\" TERM; echo ready; " + forever + "' & read -r < <(:); exit 4",
                  patient);
      // It may be asked before it listens: then it ends without a word.
      std::vector<std::string> said;
      for (std::string line = trial.line(); !line.empty(); line = trial.line()) said.push_back(line);
      const Ending ending = trial.ending();
      CHECK(ending.number == 4);
      CHECK(ending.leftovers == 1);
      CHECK(ending.leftovers_killed == 0);
    }
    {  // one that is stopped can follow, too
      Trial trial(mode, "bash -c 'echo $$; kill -STOP $$' & read -r < <(:); until [[ $(ps -o state= $!) == T ]]; do :; done",
                  patient);
      const Ending ending = trial.ending();
      CHECK(ending.number == 0);
      CHECK(ending.leftovers == 1);
      CHECK(ending.leftovers_killed == 0);
    }
    Policy short_grace;
    short_grace.leftover_grace = 100ms;
    {
      Trial trial(mode, "mkfifo $$.x 2>/dev/null; coproc { trap '' TERM; echo ready; " + forever + "; }; read -r -u ${COPROC[0]}; exit 6",
                  short_grace, [] { REQUIRE(chdir("/tmp") == 0); });
      const Ending ending = trial.ending();
      CHECK(ending.number == 6);
      CHECK(ending.leftovers == 1);
      CHECK(ending.leftovers_killed == 1);
      CHECK_FALSE(ending.killed_by_us);
      CHECK(trial.line().empty());
    }
  }
}
