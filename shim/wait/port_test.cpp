#include "wait/port.h"

#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstring>
#include <vector>

#include "wait/test_network.h"

namespace rankshim::wait {
namespace {

using namespace test;
using asio::ip::make_address;
using asio::ip::tcp;
using Addresses = std::vector<asio::ip::address>;

PortProbe look(asio::io_context& context, const Addresses& addresses, std::uint16_t port,
               std::chrono::milliseconds limit = std::chrono::seconds(10), Timing timing = quick()) {
  return run(context, probe_port(addresses, port, timing, Clock::now() + limit));
}

/// A port that is bound without a listener: connections are refused, and no other process gets it.
struct ClosedPort {
  explicit ClosedPort(asio::io_context& context) : acceptor(context, tcp::v4()) {
    acceptor.bind({asio::ip::address_v4::loopback(), 0});
  }
  [[nodiscard]] std::uint16_t number() const { return acceptor.local_endpoint().port(); }
  tcp::acceptor acceptor;
};

TEST_CASE("a port that accepts and keeps the connection is open") {
  asio::io_context context;
  tcp::acceptor acceptor(context, {asio::ip::address_v4::loopback(), 0});
  const PortProbe seen = look(context, {make_address("127.0.0.1")}, acceptor.local_endpoint().port());
  CHECK(seen.state == PortState::open);
  CHECK(seen.address == make_address("127.0.0.1"));
}

TEST_CASE("a port is open on IPv6 too") {
  asio::io_context context;
  tcp::acceptor acceptor(context, tcp::v6());
  boost::system::error_code error;
  acceptor.bind({asio::ip::address_v6::loopback(), 0}, error);
  if (error) {
    WARN("skipped: this machine has no ::1");
    return;
  }
  acceptor.listen();
  CHECK(look(context, {make_address("::1")}, acceptor.local_endpoint().port()).state == PortState::open);
}

TEST_CASE("a port without listener is closed") {
  asio::io_context context;
  const ClosedPort port(context);
  const PortProbe seen = look(context, {make_address("127.0.0.1")}, port.number());
  CHECK(seen.state == PortState::closed);
  CHECK(seen.reason() == "port closed (connection refused)");
}

TEST_CASE("a connection that the other side closes at once is not open") {
  for (const bool reset : {false, true}) {
    CAPTURE(reset);
    asio::io_context context;
    tcp::acceptor acceptor(context, {asio::ip::address_v4::loopback(), 0});
    acceptor.async_accept([&](boost::system::error_code, tcp::socket peer) {
      if (reset) peer.set_option(asio::socket_base::linger(true, 0));
      peer.close();
    });
    Timing timing = quick();
    timing.settle_time = std::chrono::hours(1);  // the event ends it, not the time
    const PortProbe seen = look(context, {make_address("127.0.0.1")}, acceptor.local_endpoint().port(),
                                std::chrono::seconds(10), timing);
    CHECK(seen.state == PortState::hung_up);
    CHECK_THAT(seen.reason(), Catch::Contains("closes the connection"));
  }
}

TEST_CASE("a server that speaks first is open without more waiting") {
  asio::io_context context;
  tcp::acceptor acceptor(context, {asio::ip::address_v4::loopback(), 0});
  tcp::socket peer(context);
  acceptor.async_accept(peer,
                        [&](boost::system::error_code) { asio::write(peer, asio::buffer("hello", 5)); });
  Timing timing = quick();
  timing.settle_time = std::chrono::hours(1);
  CHECK(look(context, {make_address("127.0.0.1")}, acceptor.local_endpoint().port(), std::chrono::seconds(10),
             timing)
            .state == PortState::open);
}

TEST_CASE("the probe sends nothing and closes") {
  asio::io_context context;
  tcp::acceptor acceptor(context, {asio::ip::address_v4::loopback(), 0});
  CHECK(look(context, {make_address("127.0.0.1")}, acceptor.local_endpoint().port()).state ==
        PortState::open);
  tcp::socket peer = acceptor.accept();
  std::array<char, 1> byte{};
  boost::system::error_code error;
  CHECK(peer.read_some(asio::buffer(byte), error) == 0);
  CHECK(error == asio::error::eof);
}

TEST_CASE("the address that answers is found among those that don't") {
  asio::io_context context;
  tcp::acceptor acceptor(context, {make_address("127.0.0.3"), 0});
  const PortProbe seen =
      look(context, {make_address("127.0.0.2"), make_address("127.0.0.3")}, acceptor.local_endpoint().port());
  CHECK(seen.state == PortState::open);
  CHECK(seen.address == make_address("127.0.0.3"));
}

TEST_CASE("a dropped SYN is no answer in time") {
  asio::io_context context;
  tcp::acceptor acceptor(context, tcp::v4());
  acceptor.bind({asio::ip::address_v4::loopback(), 0});
  acceptor.listen(0);
  std::vector<tcp::socket> fillers;  // with the queue full Linux drops what comes
  for (int i = 0; i < 4; ++i) {
    tcp::socket& filler = fillers.emplace_back(context, tcp::v4());
    filler.native_non_blocking(true);
    const tcp::endpoint peer = acceptor.local_endpoint();
    connect(filler.native_handle(), peer.data(), static_cast<socklen_t>(peer.size()));
  }
  const PortProbe seen = look(context, {make_address("127.0.0.1")}, acceptor.local_endpoint().port());
  CHECK(seen.state == PortState::silent);
  CHECK(seen.reason() == "no answer from the port (connection timed out)");
  Timing patient = quick();
  patient.connect_timeout = std::chrono::hours(1);
  CHECK(look(context, {make_address("127.0.0.1")}, acceptor.local_endpoint().port(),
             std::chrono::milliseconds(5), patient)
            .state == PortState::silent);
}

TEST_CASE("a socket connected to itself is not a master") {
  // If nothing listens on a port that the kernel may also assign to a connecting socket, the two can be the
  // same. In a network namespace with a single such port they always are.
  constexpr std::uint16_t port = 40000;
  constexpr int no_namespace = 99;
  const pid_t child = fork();
  if (child == 0) {
    const int control = unshare(CLONE_NEWNET) == 0 ? socket(AF_INET, SOCK_DGRAM, 0) : -1;
    ifreq loopback{};
    std::strcpy(loopback.ifr_name, "lo");
    loopback.ifr_flags = IFF_UP;
    FILE* range = std::fopen("/proc/sys/net/ipv4/ip_local_port_range", "w");
    if (control < 0 || ioctl(control, SIOCSIFFLAGS, &loopback) != 0 || range == nullptr) _exit(no_namespace);
    std::fprintf(range, "%d %d", port, port);
    if (std::fclose(range) != 0) _exit(no_namespace);
    asio::io_context context;
    _exit(static_cast<int>(look(context, {make_address("127.0.0.1")}, port).state));
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  if (WEXITSTATUS(status) == no_namespace) {
    WARN("skipped: no network namespace without root");
    return;
  }
  CHECK(WEXITSTATUS(status) == static_cast<int>(PortState::closed));
}

}  // namespace

TEST_CASE("a mesh's proxy is seen by the port where it takes what leaves the pod") {
  const std::string header = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt\n";
  const auto line = [&](const std::string& local, const char* state) {
    return header + "   0: " + local + " 00000000:0000 " + state +
           " 00000000:00000000 00:00000000 00000000\n";
  };
  CHECK(sidecar_port(line("00000000:3A99", "0A")) == 15001);  // Istio's Envoy
  CHECK(sidecar_port(line("00000000000000000000000000000000:3A99", "0A")) == 15001);
  CHECK(sidecar_port(line("0100007F:102C", "0A")) == 4140);  // Linkerd's
  CHECK(sidecar_port(line("0100007F:3A99", "01")) == 0);     // a connection from that port
  CHECK(sidecar_port(line("00000000:1F90", "0A")) == 0);
  CHECK(sidecar_port("") == 0);
}

}  // namespace rankshim::wait
