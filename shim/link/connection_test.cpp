#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <catch2/catch.hpp>
#include <memory>
#include <string>

#include "link/connection.h"

namespace rankshim::link {
namespace {

/// The hub's end of a connection on loopback, and the other one.
struct Pair {
  Pair() {
    tcp::acceptor acceptor(io, {boost::asio::ip::make_address("127.0.0.1"), 0});
    other.connect(acceptor.local_endpoint());
    hub = std::make_shared<Connection>(acceptor.accept(), Connection::Side::hub, std::chrono::seconds(30));
  }
  void say(const std::string& text) { boost::asio::write(other, boost::asio::buffer(text)); }
  /// As a firewall, or the kernel for a process that had not read everything.
  void reset() {
    other.set_option(tcp::socket::linger(true, 0));
    other.close();
  }

  boost::asio::io_context io;
  tcp::socket other{io};
  std::shared_ptr<Connection> hub;
};

TEST_CASE("a connection tells FIN from RST, even if it notices that when it writes", "[link]") {
  Pair pair;
  pair.say(std::string(greeting) + to_text(Ping{}) + "\n");
  SECTION("FIN") {
    pair.other.close();
    REQUIRE(pair.hub->take());
    CHECK_FALSE(pair.hub->take());
    CHECK(pair.hub->ended_by() == EndedBy::fin);
  }
  SECTION("RST") {
    pair.reset();
    REQUIRE(pair.hub->take());
    CHECK_FALSE(pair.hub->take());
    CHECK(pair.hub->ended_by() == EndedBy::rst);
  }
  SECTION("RST behind a message that is answered") {
    pair.reset();
    REQUIRE(pair.hub->take());
    pair.hub->send(Ping{});  // the kernel says it here, and to the next read no more than EOF
    CHECK_FALSE(pair.hub->take());
    CHECK(pair.hub->ended_by() == EndedBy::rst);
  }
  SECTION("this side") {
    pair.hub->close(Closed::over);
    CHECK(pair.hub->ended_by() == EndedBy::nothing);
  }
}

}  // namespace
}  // namespace rankshim::link
