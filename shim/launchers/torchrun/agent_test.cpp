#include "launchers/torchrun/agent.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <thread>

#include "base/files.h"
#include "supervise/supervised_for_test.h"

using rankshim::SignalScope;
using namespace rankshim::supervise;
using namespace rankshim::launchers;
using namespace std::chrono_literals;
using Kind = ExitRecord::Kind;

namespace {

/// For shells: prints "ready" and waits for signals, as in supervise_test.cpp.
const std::string quiet_descriptor = "exec 3<> <(:); wait $!; ";
const std::string ready_loop = "echo ready; while :; do read -r -t 0.2 -u 3; done";

/// For shells: waits until the last child, `setsid sleep 3600`, has come to sleep(1), environment and all.
const std::string until_asleep =
    "until [[ $(< /proc/$!/comm) == sleep ]] && grep -q . /proc/$!/environ; do :; done; ";

Policy policy_for(Agent& agent) {
  Policy policy;
  policy.scope = SignalScope::child;
  policy.launcher = &agent;
  return policy;
}

}  // namespace

TEST_CASE("an agent without workers ends within two seconds of a stop", "[torchrun]") {
  Agent torchrun({}, {}, false);
  const Policy policy = policy_for(torchrun);
  for (const Mode mode : modes()) {
    INFO(name(mode));
    // Its helper, a child that has the agent's own environment, is no worker.
    Supervised command(
        mode, "trap '' INT; " + quiet_descriptor + "setsid sleep 3600 & " + until_asleep + ready_loop, policy,
        [] { unsetenv("LOCAL_RANK"); });
    REQUIRE(command.line() == "ready");
    const auto start = std::chrono::steady_clock::now();
    command.signal(SIGINT);
    const ExitRecord record = command.record();
    CHECK(std::chrono::steady_clock::now() - start < 10s);  // else: never
    CHECK(record.killed_by_us);
    CHECK(record.stop.value().signal == SIGINT);
    CHECK(command.line().empty());
  }
}

TEST_CASE("an agent with a worker has its time, and gets each stop signal once", "[torchrun]") {
  Agent torchrun({}, {}, false);
  const Policy policy = policy_for(torchrun);
  // It notes each TERM and ends with USR1, long after an agent without workers would have been killed.
  const std::string agent =
      "terms=0; trap 'terms=$((terms + 1)); echo asked' TERM; trap 'echo noted' USR2; "
      "trap 'exit $terms' USR1; " +
      quiet_descriptor + "LOCAL_RANK=0 setsid sleep 3600 & " + until_asleep + ready_loop;
  for (const Mode mode : modes()) {
    INFO(name(mode));
    Supervised command(mode, agent, policy, [] { unsetenv("LOCAL_RANK"); });
    REQUIRE(command.line() == "ready");
    command.signal(SIGTERM);
    REQUIRE(command.line() == "asked");
    command.signal(SIGTERM);
    command.signal(SIGUSR2);
    REQUIRE(command.line() == "noted");
    // The one sleep here: that nothing happens takes time to see.
    std::this_thread::sleep_for(1300ms);
    command.signal(SIGUSR1);
    const ExitRecord record = command.record();
    CHECK(record.kind == Kind::exited);
    CHECK(record.number == 1);
    CHECK_FALSE(record.killed_by_us);
  }
}

TEST_CASE("an agent that waits for other nodes is logged, and ended when its time is over", "[torchrun]") {
  for (const Mode mode : modes()) {
    INFO(name(mode));
    // It stays bound, so that no other process gets the port before the agent listens there.
    const rankshim::UniqueFd kept(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int reuse = 1;
    REQUIRE(setsockopt(kept.number(), SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof reuse) == 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    socklen_t size = sizeof address;
    REQUIRE(bind(kept.number(), reinterpret_cast<const sockaddr*>(&address), size) == 0);
    REQUIRE(getsockname(kept.number(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
    const std::uint16_t port = ntohs(address.sin_port);
    // It imports until USR1 comes; then it is in the rendezvous. It prints "ready" when USR1 can no longer
    // end it.
    const std::string agent = R"(
import os, signal, socket, sys
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
os.write(1, b"ready\n")  # in one piece: the messages come through the same pipe
signal.sigwait({signal.SIGUSR1})
store = socket.create_server(("", int(sys.argv[1])))
while True: signal.pause()
)";
    AgentPlan plan;
    plan.meets_at = rankshim::topology::Master{"m", port};
    plan.limit = 100ms;
    plan.log_interval = 40ms;
    Agent torchrun(plan, {}, false);
    Supervised command(mode, std::vector<std::string>{"python3", "-c", agent, std::to_string(port)},
                       policy_for(torchrun), [] { dup2(STDOUT_FILENO, STDERR_FILENO); });
    constexpr std::string_view still_imports = "rankshim: torchrun is still importing, ";
    // Lines of more than two intervals: the limit is over, and it is left alone while it imports.
    std::string line;
    bool ready = false;
    for (unsigned lines = 0; lines < 4 || !ready;) {
      line = command.line();
      if (line == "ready") {
        ready = true;
      } else {
        REQUIRE(line.starts_with(still_imports));
        REQUIRE(line.ends_with(" after its start"));
        ++lines;
      }
    }
    command.signal(SIGUSR1);
    do line = command.line();
    while (line.find("still importing") != std::string::npos);
    if (line.find("has no worker yet") != std::string::npos) {  // not on its first look after the limit
      CHECK(line.starts_with("rankshim: waiting for the other nodes: torchrun has no worker yet, "));
      CHECK(line.ends_with(" after its start; at most 100 ms"));
      line = command.line();
    }
    CHECK(line.find("the other nodes did not join within 100 ms: rankshim kills everything") !=
          std::string::npos);
    const ExitRecord record = command.record();
    CHECK(record.workers.never_met);
    CHECK(record.killed_by_us);
  }
}

TEST_CASE("an agent that has imported torch and cannot reach the store is ended when its time is over",
          "[torchrun]") {
  // Nothing listens at the port. torch's library is any file of that name.
  const std::string agent = R"(
import mmap, os, signal, sys, tempfile
with tempfile.TemporaryDirectory() as folder:
    library = open(folder + "/libtorch_python.so", "w+b")
    library.write(b"x")
    library.flush()
    mapped = mmap.mmap(library.fileno(), 1)
while True: signal.pause()
)";
  AgentPlan plan;
  plan.meets_at = rankshim::topology::Master{"m", 1};
  plan.limit = 100ms;
  plan.log_interval = 40ms;
  Agent torchrun(plan, {}, false);
  Supervised command(Mode::subreaper, std::vector<std::string>{"python3", "-c", agent}, policy_for(torchrun),
                     [] { dup2(STDOUT_FILENO, STDERR_FILENO); });
  std::string line;
  do line = command.line();
  while (line.find("still importing") != std::string::npos);
  if (line.find("cannot reach") != std::string::npos) {  // not on its first look after the limit
    CHECK(line.starts_with("rankshim: torchrun cannot reach m:1, "));
    CHECK(line.ends_with(" after its start; at most 100 ms"));
    line = command.line();
  }
  CHECK(line.find(
            "torchrun could not reach m:1 within 100 ms: port closed (connection refused): rankshim kills") !=
        std::string::npos);
  const ExitRecord record = command.record();
  CHECK(record.workers.never_met);
  CHECK(record.killed_by_us);
}
