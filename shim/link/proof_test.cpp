#include "link/connection.h"

#include <catch2/catch.hpp>

namespace rankshim::link {
namespace {

// hashlib.blake2b(b"hello", digest_size=32, key=hashlib.blake2b(b"a token of a job",
// digest_size=32).digest())
TEST_CASE("a tag is keyed BLAKE2b, as another implementation computes it", "[link]") {
  const Key key("a token of a job");
  CHECK(key.tag("hello") == "72b75f348012942c5831e8b887a88632345e9f15a7a1f3f52ddffb7107635a78");
  CHECK(key.tag("hello") != Key("another token of a job").tag("hello"));
}

TEST_CASE("a tag stands for one message, of one direction, at one place, of one connection", "[link]") {
  const Key key = Key("a token of a job").for_connection("hello", "welcome");
  const std::string tag = key.of_message('p', 1, "text");
  CHECK(same_tag(tag, key.of_message('p', 1, "text")));
  CHECK_FALSE(same_tag(tag, key.of_message('h', 1, "text")));
  CHECK_FALSE(same_tag(tag, key.of_message('p', 2, "text")));
  CHECK_FALSE(same_tag(tag, key.of_message('p', 1, "texts")));
  CHECK_FALSE(
      same_tag(tag, Key("a token of a job").for_connection("hello", "welcomf").of_message('p', 1, "text")));
  CHECK_FALSE(same_tag(tag, tag.substr(1)));
  CHECK_FALSE(same_tag("", ""));
}

TEST_CASE("a side that does not read loses the connection, and what is kept for it is bounded",
          "[link][attack]") {
  boost::asio::io_context io(1);
  tcp::acceptor listener(io);
  REQUIRE_FALSE(open_listener(listener, 0, 1));
  tcp::socket reads_nothing(io);
  reads_nothing.connect({boost::asio::ip::address_v4::loopback(), listener.local_endpoint().port()});
  const auto connection = std::make_shared<Connection>(listener.accept(), Connection::Side::hub,
                                                       std::chrono::milliseconds(30'000));
  const Unlinked longest{{.detail = std::string(1000, 'x')}};
  for (int i = 0; i < 100'000 && connection->is_open(); ++i) connection->send(longest);
  CHECK_FALSE(connection->is_open());
  CHECK(connection->why() == Closed::unread);
}

TEST_CASE("random numbers differ", "[link]") {
  CHECK(random_number().size() == 32);
  CHECK(random_number() != random_number());
}

}  // namespace
}  // namespace rankshim::link
