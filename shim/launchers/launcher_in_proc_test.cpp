#include "launchers/launcher_in_proc.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>

#include "supervise/child_for_test.h"
#include "supervise/kernel.h"

using namespace rankshim;
using namespace rankshim::supervise;
using namespace rankshim::launchers;

TEST_CASE("a worker is a descendant with the LOCAL_RANK that the agent does not have", "[workers]") {
  const Child child;  // has our own environment
  CHECK(find_worker(child.pid, {"PATH=/bin"}) == Presence::none);
  // The environment that a process was started with is what /proc shows.
  int ready[2];
  REQUIRE(pipe(ready) == 0);
  const pid_t worker = fork();
  if (worker == 0) {
    dup2(ready[1], STDOUT_FILENO);
    execlp("env", "env", "A=1", "LOCAL_RANK=3", "sh", "-c", "echo ready; kill -STOP $$", nullptr);
    _exit(127);
  }
  char byte = 0;
  REQUIRE(read(ready[0], &byte, 1) == 1);
  CHECK(find_worker(getpid(), {"PATH=/bin"}) == Presence::some);
  CHECK(find_worker(getpid(), {"LOCAL_RANK=0"}) == Presence::some);
  kernel::send(worker, SIGKILL);
  waitpid(worker, nullptr, 0);
  close(ready[0]);
  close(ready[1]);
  CHECK(find_worker(getpid(), {"PATH=/bin"}) == Presence::none);
}

TEST_CASE("the agent is the command, or the first torchrun below it", "[workers]") {
  const Child child;
  CHECK(find_agent(child.pid).pid == child.pid);
  int ready[2];
  REQUIRE(pipe(ready) == 0);
  const pid_t agent = fork();
  if (agent == 0) {
    dup2(ready[1], STDOUT_FILENO);
    // The second process has torchrun's words, as a worker that was just forked.
    execlp("bash", "torchrun", "-c", "(echo ready; kill -STOP $BASHPID); true", nullptr);
    _exit(127);
  }
  char byte = 0;
  REQUIRE(read(ready[0], &byte, 1) == 1);
  CHECK(find_agent(getpid()).pid == agent);
  CHECK(find_agent(agent).pid == agent);
  const auto workers = node::descendants(agent).value();
  for (const node::Process& process : workers) kernel::send(process.pid, SIGKILL);
  waitpid(agent, nullptr, 0);
  close(ready[0]);
  close(ready[1]);
}

TEST_CASE("the sockets at a port are those that listen there and those connected to it", "[rendezvous]") {
  constexpr std::string_view table =
      "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
      "   0: 00000000:5BA0 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 11 1 0\n"
      "   1: 0100007F:A3D2 0100007F:5BA0 01 00000000:00000000 00:00000000 00000000     0        0 12 1 0\n"
      "   2: 0100007F:5BA0 0100007F:A3D2 01 00000000:00000000 00:00000000 00000000     0        0 13 1 0\n"
      "   3: 0100007F:A3D4 0100007F:5BA0 02 00000000:00000000 00:00000000 00000000     0        0 14 1 0\n"
      "   4: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 15 1 0\n";
  CHECK(sockets_at(table, 0x5BA0) == std::set<std::string>{"socket:[11]", "socket:[12]"});
  CHECK(sockets_at(table, 0x5BA1).empty());
  CHECK(sockets_at("", 1).empty());
}

TEST_CASE("a process is in the rendezvous as soon as it listens at the store's port", "[rendezvous]") {
  const int socket_here = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  REQUIRE(socket_here >= 0);
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_addr = in6addr_loopback;
  REQUIRE(bind(socket_here, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  socklen_t size = sizeof address;
  REQUIRE(getsockname(socket_here, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  const std::uint16_t port = ntohs(address.sin6_port);
  CHECK_FALSE(is_in_rendezvous(getpid(), port));
  REQUIRE(listen(socket_here, 1) == 0);
  CHECK(is_in_rendezvous(getpid(), port));
  CHECK_FALSE(is_in_rendezvous(getpid(), static_cast<std::uint16_t>(port ^ 1U)));
  close(socket_here);
}
