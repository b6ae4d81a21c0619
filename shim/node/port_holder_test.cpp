#include "node/port_holder.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "base/files.h"

using namespace rankshim;
using namespace rankshim::node;

namespace {

constexpr std::string_view table_of_ports =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
    "   0: 0100007F:733C 0100007F:C001 06 00000000:00000000 03:00000C5A 00000000     0        0 0 3 0000\n"
    "   1: 0100007F:733C 0100007F:C001 01 00000000:00000000 00:00000000 00000000  1000        0 77 1 0000\n"
    "   2: 00000000:733C 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1001        0 78 1 0000\n"
    "   3: 0100007F:733D 0100007F:C001 06 00000000:00000000 03:00000C5A 00000000     0        0 0 3 0000\n"
    "   4: 00000000000000000000000000000000:733E 00000000000000000000000000000000:0000 0A "
    "00000000:00000000 00:00000000 00000000     5        0 79 1 0000\n"
    "   5: 0100007F:733F 0100007F:C001 01 00000000:00000000 00:00000000 00000000  1000        0 80 1 0000\n"
    "   6: broken\n";

}  // namespace

TEST_CASE("the socket that holds a port is a listener, else a connection that a process owns") {
  const auto of = [](std::uint16_t port) { return find_port_socket(table_of_ports, port); };
  REQUIRE(of(29500));  // 0x733C
  CHECK(of(29500)->user == 1001);
  CHECK(of(29500)->inode == 78);
  CHECK(of(29500)->listens);
  CHECK_FALSE(of(29501));  // TIME_WAIT
  REQUIRE(of(29502));
  CHECK(of(29502)->inode == 79);
  REQUIRE(of(29503));
  CHECK(of(29503)->inode == 80);
  CHECK_FALSE(of(29503)->listens);
  CHECK_FALSE(of(1));
  CHECK_FALSE(find_port_socket("", 29500));
}

TEST_CASE("the process that holds a port is named with its pid, and a free port has none") {
  const UniqueFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  REQUIRE(bind(listener.number(), reinterpret_cast<sockaddr*>(&address), size) == 0);
  REQUIRE(getsockname(listener.number(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
  const std::uint16_t port = ntohs(address.sin_port);
  CHECK(holder_of_port(port).empty());  // bound, but it neither listens nor is connected: /proc shows no such
  REQUIRE(listen(listener.number(), 1) == 0);
  CHECK(holder_of_port(port) == "rankshim_test (pid " + std::to_string(getpid()) + ")");
}
