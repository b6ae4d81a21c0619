#include "base/text.h"

#include <catch2/catch.hpp>

namespace rankshim {
namespace {

TEST_CASE("what stands around a value is trimmed") {
  CHECK(trimmed(" \t3\r\n") == "3");
  CHECK(trimmed("a b") == "a b");
  CHECK(trimmed("\n ").empty());
}

TEST_CASE("a text is always UTF-8, bytes that are none are Latin-1") {
  CHECK(as_utf8("训练 \xF0\x9F\x9A\x80") == "训练 \xF0\x9F\x9A\x80");
  CHECK(as_utf8("\xff\xc3") == "\xC3\xBF\xC3\x83");
  CHECK(as_utf8("\xed\xa0\x80") == "\xC3\xAD\xC2\xA0\xC2\x80");  // a surrogate is no UTF-8
}

TEST_CASE("a terminal is shown a text and does not obey it", "[attack]") {
  CHECK(printable("训练 ü") == "训练 ü");
  CHECK(printable("a\nb\t\x1b]0;title\x07") == "a\\nb\t\\x1b]0;title\\x07");
  CHECK(printable("\x7f \xC2\x9B \x9b") == "\\x7f \\xc2\\x9b \\x9b");
}

TEST_CASE("a value in a message stands in the quotes in which a shell reads it back") {
  CHECK(quoted("job-master-0.ns:23456") == "job-master-0.ns:23456");
  CHECK(quoted("训练") == "训练");
  CHECK(quoted("").append(quoted("a b")) == "'''a b'");
  CHECK(quoted("it's $HOME") == "'it'\\''s $HOME'");
  CHECK(quoted("a\tb") == "$'a\\tb'");
  CHECK(quoted("3\n") == "$'3\\n'");
  CHECK(quoted("it's \\\x1b") == "$'it\\'s \\\\\\x1b'");
}

TEST_CASE("an IPv6 address has brackets in front of its port, and nothing else has") {
  CHECK(host_port("fd00::1", "29500") == "[fd00::1]:29500");
  CHECK(host_port("fe80::1%eth0", "29500") == "[fe80::1%eth0]:29500");
  CHECK(host_port("[fd00::1]", "29500") == "[fd00::1]:29500");
  CHECK(host_port("10.1.2.3", "29500") == "10.1.2.3:29500");
  CHECK(host_port("job-master-0", "29500") == "job-master-0:29500");
  CHECK(host_port("https://etcd", "2379") == "https://etcd:2379");
}

TEST_CASE("a text is cut between characters", "[text][attack]") {
  CHECK(cut("abc", 5) == "abc");
  CHECK(cut("abc", 2) == "ab");
  CHECK(cut("aä", 2) == "a");
  CHECK(cut("€", 2).empty());
}

}  // namespace
}  // namespace rankshim
