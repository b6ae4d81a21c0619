#include "link/frame.h"

#include <catch2/catch.hpp>

#include "link/message.h"

namespace rankshim::link {
namespace {

using namespace std::string_literals;

TEST_CASE("a frame is its length, its type and its body", "[link]") {
  CHECK(greeting == "\0\xce\xf7\x85\x3c\7RSHM\1"s);
  CHECK(Frame{11, false, R"({"code":0})"}.bytes() == "\0\x0A\x0B{\"code\":0}"s);
}

TEST_CASE("frames come out as they went in, however the stream is cut", "[link]") {
  const std::string stream =
      std::string(greeting) + Frame{1, false, "{}"}.bytes() + Frame{2, false, std::string(300, 'x')}.bytes();
  for (std::size_t step = 1; step <= stream.size(); ++step) {
    Decoder decoder;
    std::vector<Frame> frames;
    for (std::size_t at = 0; at < stream.size(); at += step) {
      REQUIRE(decoder.feed(std::string_view(stream).substr(at, step)));
      while (auto frame = decoder.next()) frames.push_back(std::move(*frame));
    }
    REQUIRE(frames.size() == 2);
    CHECK(frames[0].type == 1);
    CHECK(frames[0].body == "{}");
    CHECK(frames[1].body == std::string(300, 'x'));
  }
}

TEST_CASE("a frame with a tag waits for it", "[link]") {
  Decoder decoder;
  decoder.feed(std::string(greeting) + Frame{3, true, "{}"}.bytes() + std::string(31, 't'));
  CHECK_FALSE(decoder.next());
  decoder.feed("t");
  const auto frame = decoder.next();
  REQUIRE(frame);
  CHECK(frame->type == 3);
  CHECK(frame->bytes() == "\0\2\x83{}"s);
  CHECK(frame->tag == std::string(32, 't'));
}

TEST_CASE("what is no peer is known by its first bytes", "[link]") {
  struct Case {
    std::string bytes;
    Broken broken;
  };
  const Case cases[] = {
      {"\0\xce\xf7\x85\x3c\x0d"s, Broken::store_client},
      {"\0\xce\xf7\x85\x3c"s, Broken::store_client},  // one that says nothing more
      {"\0"s, Broken::no},
      {"\0\xce\xf7\x85\x3c\7"s, Broken::no},
      {"\1\0\0\0\0\0\0\0"s, Broken::store},
      {"\0\0\0\0\0\0\0\0"s, Broken::store},
      {"\1\0\0"s, Broken::other},
      {"GET / HTTP/1.1\r\n", Broken::other},
      {"HTTP/1.1", Broken::other},
      {"\0\xce\xf7\x85\x3c\7RSHX"s, Broken::other},
      {"\0\xce\xf7\x85\x3c\7RS"s, Broken::no},
      {"\0\xce\xf7\x85\x3c\7RSHM\2"s, Broken::version},
      {std::string(greeting) + "\x10\x01\1"s, Broken::other},
      {std::string(greeting) + "\x10\0\1"s, Broken::no},
  };
  for (const Case& c : cases) {
    CAPTURE(c.bytes);
    Decoder decoder;
    decoder.feed(c.bytes);
    CHECK_FALSE(decoder.next());
    CHECK(decoder.broken() == c.broken);
  }
}

}  // namespace
}  // namespace rankshim::link
