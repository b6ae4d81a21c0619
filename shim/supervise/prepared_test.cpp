#include "supervise/prepared.h"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <fstream>
#include <string>
#include <vector>

#include "loop/loop.h"
#include "supervise/supervised_for_test.h"

namespace rankshim::supervise {
namespace {

using State = Prepared::State;

/// A shell that keeps to the gate's messages as our part in Python does, and then prints what it was given. A
/// shell that was not prepared prints "plain".
std::string gate(const std::string& at_gate) {
  return "if [[ -z $RANKSHIM_GATE ]]; then echo plain; exit 5; fi; gate=${RANKSHIM_GATE%% *}; "
         "read_go() { go=$(dd bs=4096 count=1 <&$gate 2>/dev/null | tr '\\0' ' '); [[ -n $go ]] || exit 9; "
         "}; " +
         at_gate;
}

std::string good() {
  return gate("printf h >&$gate; printf r >&$gate; read_go; echo \"$go, ${RANKSHIM_GATE#* }\"; exit 7");
}

/// Starts the command early, and waits until it is ready, or unusable.
void prepare(boost::asio::io_context& io, Command& command, std::string_view modules = "auto,numpy") {
  bool over = false;
  const auto process = Prepared::start(io, command, {}, modules, [&] {
    over = command.prepared->state() == State::ready || command.prepared->state() == State::unusable;
  });
  command.prepared = process;
  loop::run_until(io, over);
  io.restart();  // it may have had nothing left to do
}

std::vector<std::string> bash(const std::string& script) { return {"/bin/bash", "-c", script}; }

}  // namespace

TEST_CASE("a prepared command goes on as the command when it may, with the variables that came late",
          "[prepared]") {
  for (const Mode mode : modes()) {
    INFO(name(mode));
    Supervised command(mode, bash(good()), {}, {}, [](boost::asio::io_context& io, Command& early, Policy&) {
      prepare(io, early);
      early.prepared->add("GLOO_SOCKET_IFNAME=eth1");
      early.prepared->add("B=2");
    });
    CHECK(command.line() == "gGLOO_SOCKET_IFNAME=eth1 B=2 , auto,numpy");
    CHECK(command.record().number == 7);
  }
}

TEST_CASE("a prepared command that cannot be used is ended, and the command starts in the ordinary way",
          "[prepared]") {
  struct Row {
    const char* what;
    std::string at_gate;
    std::string why;
  };
  const std::vector<Row> rows = {
      {"it ends before the gate", "exit 0", "it has ended"},
      {"it ends at the gate", "printf h >&$gate; exit 0", "it has ended"},
      {"a module is missing", "printf h >&$gate; printf 'x ImportError: no \\e[1m' >&$gate; read_go",
       "ImportError: no \\x1b[1m"},
      {"another message", "printf h >&$gate; printf q >&$gate; read_go",
       "it does not keep to the gate's messages"},
      {"ready without having been there", "printf r >&$gate; read_go",
       "it does not keep to the gate's messages"},
  };
  for (const Mode mode : modes()) {
    for (const Row& row : rows) {
      INFO(name(mode) << ": " << row.what);
      Supervised command(
          mode, bash(gate(row.at_gate)), {}, {}, [&](boost::asio::io_context& io, Command& early, Policy&) {
            prepare(io, early);
            const std::string& why = early.prepared->why();
            [[maybe_unused]] const auto written = write(1, (why + "\n").data(), why.size() + 1);
          });
      CHECK(command.line() == row.why);
      CHECK(command.line() == "plain");
      CHECK(command.record().number == 5);
    }
  }
}

TEST_CASE("a prepared command that was killed or stopped in the meantime is not let go", "[prepared]") {
  for (const Mode mode : modes()) {
    for (const int signal : {SIGKILL, SIGTERM, SIGSTOP}) {
      INFO(name(mode) << ", signal " << signal);
      Supervised command(mode, bash(good()), {}, {},
                         [&](boost::asio::io_context& io, Command& early, Policy&) {
                           prepare(io, early);
                           siginfo_t info{};
                           kill(early.prepared->process().pid, signal);
                           if (signal == SIGKILL) return;  // it may still be on its way
                           waitid(P_PID, static_cast<id_t>(early.prepared->process().pid), &info,
                                  WEXITED | WSTOPPED | WNOWAIT);
                         });
      CHECK(command.line() == "plain");
      CHECK(command.record().number == 5);
    }
  }
}

TEST_CASE("a command that has not come to the gate when it may go is started in the ordinary way",
          "[prepared]") {
  for (const Mode mode : modes()) {
    INFO(name(mode));
    Supervised command(mode, bash(gate("sleep 1000")), {}, {},
                       [](boost::asio::io_context& io, Command& early, Policy&) {
                         early.prepared = Prepared::start(io, early, {}, "auto", [] {});
                       });
    CHECK(command.line() == "plain");
    CHECK(command.record().number == 5);
  }
}

TEST_CASE("one that still imports when it may go is the command all the same", "[prepared]") {
  const std::string slow = gate("printf h >&$gate; read_go; echo went; exit 7");
  for (const Mode mode : modes()) {
    INFO(name(mode));
    Supervised command(mode, bash(slow), {}, {}, [](boost::asio::io_context& io, Command& early, Policy&) {
      bool over = false;
      early.prepared = Prepared::start(io, early, {}, "auto", [&] { over = early.prepared->has_answered(); });
      loop::run_until(io, over);
    });
    CHECK(command.line() == "went");
    CHECK(command.record().number == 7);
  }
}

TEST_CASE("what is prepared for later gets no signal, is no leftover, and is not waited for", "[prepared]") {
  // What it has started is in its tree, and what it prints would come before the end of the output.
  const std::string later =
      gate("trap 'echo signalled' TERM USR1; sleep 1000 & printf h >&$gate; printf r >&$gate; read_go");
  for (const Mode mode : modes()) {
    for (const SignalScope scope : {SignalScope::handlers, SignalScope::tree, SignalScope::group}) {
      INFO(name(mode));
      Policy policy;
      policy.scope = scope;
      Supervised command(
          mode,
          bash("exec 3<> <(:); wait $!; trap 'echo asked; exit 3' TERM; trap 'echo noted' USR1; read -r -t "
               "0.001 -u 3; echo ready; while :; do read -r -t 0.2 -u 3; done"),
          policy, {}, [&later](boost::asio::io_context& io, Command& command, Policy& here) {
            Command early{bash(later), command.environment};
            prepare(io, early);
            here.apart = [process = early.prepared] {
              return std::vector<node::Process>{process->process()};
            };
          });
      REQUIRE(command.line() == "ready");
      command.signal(SIGUSR1);
      CHECK(command.line() == "noted");
      command.signal(SIGTERM);
      CHECK(command.line() == "asked");
      const ExitRecord record = command.record();
      CHECK(record.number == 3);
      CHECK(record.leftovers == 0);
      CHECK(record.leftovers_killed == 0);
    }
  }
}

TEST_CASE("a prepared command that nobody wants is ended with what it has started", "[prepared]") {
  boost::asio::io_context io;
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const std::string script = gate("sleep 1000 & printf h >&$gate; printf r >&$gate; read_go");
  Command early{bash(script), {"PATH=/usr/bin:/bin"}};
  early.output = {ends[1], ends[1]};
  prepare(io, early);
  CHECK(early.prepared->state() == State::ready);
  const pid_t pid = early.prepared->process().pid;
  early.prepared.reset();
  close(ends[1]);
  char none = 0;
  CHECK(read(ends[0], &none, 1) == 0);  // nobody is left who could write
  int status = 0;
  CHECK(waitpid(pid, &status, 0) == pid);
  CHECK(WIFSIGNALED(status));
  close(ends[0]);
}

TEST_CASE("a prepared command begins in the folder that it is given, or not at all", "[prepared]") {
  boost::asio::io_context io;
  Command early{bash(gate("printf h >&$gate; [[ $PWD == /usr ]] && printf r >&$gate; read_go")),
                {"PATH=/usr/bin:/bin"}};
  early.working_directory = "/usr";
  prepare(io, early);
  CHECK(early.prepared->state() == State::ready);
  const pid_t first = early.prepared->process().pid;
  early.working_directory = "/nowhere";
  early.prepared = Prepared::start(io, early, {}, "auto", [] {});
  CHECK(early.prepared->why() == "execve: No such file or directory");
  CHECK_FALSE(early.prepared->go());
  const pid_t second = early.prepared->process().pid;
  early.prepared.reset();
  for (const pid_t pid : {first, second}) CHECK(waitpid(pid, nullptr, 0) == pid);
}

}  // namespace rankshim::supervise
