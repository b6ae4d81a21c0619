#include "base/text.h"

#include <array>
#include <catch2/catch.hpp>
#include <cstdint>
#include <vector>

namespace rankshim {
namespace {

TEST_CASE("blanks around a value are trimmed") {
  CHECK(trimmed(" \t3\r\n") == "3");
  CHECK(trimmed("a b") == "a b");
  CHECK(trimmed("\n ").empty());
}

TEST_CASE("a list is taken apart, and put together again") {
  std::string_view list = "a,,b,";
  CHECK(split_next(list, ",") == "a");
  CHECK(split_next(list, ",").empty());
  CHECK(split_next(list, ",") == "b");
  CHECK(list.empty());
  std::string_view sources = "A, B C";
  CHECK(split_next(sources, ", ") == "A");
  CHECK(split_next(sources, ", ") == "B C");
  CHECK(joined(std::vector<std::string>{"a", "", "b"}) == "a, , b");
  CHECK(joined(std::vector<std::string_view>{"a", "b"}, ",") == "a,b");
  CHECK(joined(std::vector<std::string>{}).empty());
}

TEST_CASE("of many texts only the first are shown, and how many more there are") {
  using Texts = std::vector<std::string>;
  CHECK(few(Texts{}, 0).empty());
  CHECK(few(Texts{"a", "b"}, 0) == "a, b");
  CHECK(few(Texts{"a", "b"}, 1) == "a, b, and 1 more");
  CHECK(few(Texts{"a"}, 3, "; ") == "a; and 3 more");
}

TEST_CASE("only ASCII letters have a case") {
  CHECK(upper_case("nproc_per_node é") == "NPROC_PER_NODE é");
  CHECK(lower_case("Job-0 É") == "job-0 É");
  CHECK(same_but_case("Train-3", "tRAIN-3"));
  CHECK_FALSE(same_but_case("a", "ab"));
}

TEST_CASE("what is a number, a shell's name, an address in brackets, a path's last part") {
  CHECK(all_digits("007"));
  CHECK_FALSE(all_digits(""));
  CHECK_FALSE(all_digits("1 "));
  CHECK(is_shell_name("_A1"));
  for (const char* none : {"", "1A", "A-B", "A$(b)", "Ä"}) CHECK_FALSE(is_shell_name(none));
  CHECK(without_brackets("[::1]") == "::1");
  CHECK(without_brackets("[::1") == "[::1");
  CHECK(base_name("/usr/bin/python3") == "python3");
  CHECK(base_name("python3") == "python3");
}

TEST_CASE("a host and its port are taken apart, and put together again") {
  struct Row {
    std::string_view address, host, port;
  };
  const std::vector<Row> rows = {
      {"a", "a", ""},
      {"a:1", "a", "1"},
      {"a:", "a", ""},
      {":1", "", "1"},
      {"10.0.0.1:1", "10.0.0.1", "1"},
      {"::1", "::1", ""},
      {"[::1]", "::1", ""},
      {"[::1]:1", "::1", "1"},
      {"[fe80::1%eth0]:1", "fe80::1%eth0", "1"},
      {"[]:1", "", "1"},
      {"[::1", "", ""},
      {"[::1]1", "", ""},
      {"", "", ""},
  };
  for (const Row& row : rows) {
    CAPTURE(row.address);
    CHECK(split_host_port(row.address) == std::pair(row.host, row.port));
  }
  CHECK(host_port("a", "1") == "a:1");
  CHECK(host_port("fe80::1%eth0", "1") == "[fe80::1%eth0]:1");
  CHECK(host_port("[::1]", "1") == "[::1]:1");
}

TEST_CASE("localhost and all below it is this node") {
  for (const char* name : {"localhost", "LocalHost", "localhost.", "a.localhost", "a.b.localhost."}) {
    CAPTURE(name);
    CHECK(is_localhost(name));
  }
  for (const char* name : {"", "localhost.localdomain", "mylocalhost", "localhos"}) {
    CAPTURE(name);
    CHECK_FALSE(is_localhost(name));
  }
}

TEST_CASE("a range is MIN:MAX, or one text that is both") {
  struct Row {
    std::string_view range, min, max;
  };
  for (const Row& row : {Row{"1:4", "1", "4"}, Row{"2", "2", "2"}, Row{"", "", ""}, Row{"1:", "1", ""},
                         Row{":4", "", "4"}, Row{"1:2:3", "1", "2:3"}}) {
    CAPTURE(row.range);
    CHECK(min_and_max(row.range) == std::pair(row.min, row.max));
  }
}

TEST_CASE("a number is the whole text, or is taken off its start") {
  CHECK(parse_number<unsigned>("42") == 42U);
  CHECK(parse_number<int>("-1") == -1);
  CHECK(parse_number<unsigned>("fF", 16) == 255U);
  CHECK(parse_number<std::uint8_t>("255") == 255);
  for (const char* none : {"", " 1", "1 ", "+1", "-1", "256", "0x1", "1.0"})
    CHECK_FALSE(parse_number<std::uint8_t>(none));
  std::string_view text = "8 cores";
  CHECK(take_number<unsigned>(text) == 8U);
  CHECK(text == " cores");
  CHECK_FALSE(take_number<unsigned>(text));
  CHECK(text == " cores");
}

TEST_CASE("a text is always UTF-8, bytes that are none are Latin-1") {
  CHECK(as_utf8("训练 \xF0\x9F\x9A\x80") == "训练 \xF0\x9F\x9A\x80");
  CHECK(as_utf8("\xff\xc3") == "\xC3\xBF\xC3\x83");
  CHECK(as_utf8("\xed\xa0\x80") == "\xC3\xAD\xC2\xA0\xC2\x80");  // a surrogate is no UTF-8
}

TEST_CASE("a terminal is shown a text and does not obey it", "[attack]") {
  CHECK(printable("训练 ü") == "训练 ü");
  CHECK(printable("a\nb\t\x1b]0;title\x07") == "a\\nb\t\\x1b]0;title\\x07");
  CHECK(printable("\u202Egnp.exe\u2069 \u2028") == "\\xe2\\x80\\xaegnp.exe\\xe2\\x81\\xa9 \\xe2\\x80\\xa8");
  CHECK(printable("a\u200Eb\u200Fc\u061Cd\u200Be\uFEFF") ==
        "a\\xe2\\x80\\x8eb\\xe2\\x80\\x8fc\\xd8\\x9cd\\xe2\\x80\\x8be\\xef\\xbb\\xbf");
  CHECK(printable("\u00AD \U000E0041") == "\\xc2\\xad \\xf3\\xa0\\x81\\x81");
  CHECK(printable("GLHF! \U0001F3D6\uFE0F, \u00A0, \u2027, \u202F") ==
        "GLHF! \U0001F3D6\uFE0F, \u00A0, \u2027, \u202F");
  CHECK(printable("\x7f \xC2\x9B \x9b") == "\\x7f \\xc2\\x9b \\x9b");
}

TEST_CASE("a value in a message has the quotes with which a shell reads it back") {
  CHECK(in_quotes("job-master-0.ns:23456") == "job-master-0.ns:23456");
  CHECK(in_quotes("训练") == "训练");
  CHECK(in_quotes("").append(in_quotes("a b")) == "'''a b'");
  CHECK(in_quotes("it's $HOME") == "'it'\\''s $HOME'");
  CHECK(in_quotes("a\tb") == "$'a\\tb'");
  CHECK(in_quotes("3\n") == "$'3\\n'");
  CHECK(in_quotes("it's \\\x1b") == "$'it\\'s \\\\\\x1b'");
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

TEST_CASE("a glob fits the whole text") {
  CHECK(glob_match("job-master-0", "*-master-0"));
  CHECK(glob_match("job-master-0", "job-*-?"));
  CHECK(glob_match("", "*"));
  CHECK(glob_match("abcabc", "*abc"));
  CHECK(glob_match("a*b", "a*b"));
  CHECK_FALSE(glob_match("job-master-0.job", "*-master-0"));
  CHECK_FALSE(glob_match("", "?"));
  CHECK_FALSE(glob_match("abc", "ab"));
  CHECK_FALSE(glob_match("Abc", "abc"));
  CHECK_FALSE(glob_match(std::string(100'000, 'a'), "*a*a*a*a*b"));
}

namespace {

using namespace std::string_view_literals;

TEST_CASE("the nearest name is the one that the fewest slips turn into what was written") {
  constexpr std::array known = {"rest"sv, "first_host"sv,   "count"sv,
                                "wait"sv, "wait-timeout"sv, "master-addr"sv};
  CHECK(nearest("cuont", known) == "count");
  CHECK(nearest("cont", known) == "count");
  CHECK(nearest("MASTER_ADRD", known) == "master-addr");
  // The first words of a name, but a whole name before them.
  CHECK(nearest("frist", known) == "first_host");
  CHECK(nearest("mastre", known) == "master-addr");
  CHECK(nearest("wiat", known) == "wait");
  CHECK(nearest("waits", known) == "wait");
  // What begins a name, not its letters, decides.
  CHECK(nearest("master", known) == "master-addr");
  CHECK(nearest("wait-t", known) == "wait-timeout");
  CHECK(nearest("colour", known).empty());
  CHECK(nearest("", known).empty());
}

TEST_CASE("a swap of neighbours is one step, where two other slips would be too many") {
  CHECK(nearest("ab", std::array{"ba"sv}) == "ba");
  CHECK(nearest("bacd", std::array{"xxcd"sv, "abcd"sv}) == "abcd");
  CHECK(nearest("badcx", std::array{"abcdx"sv}) == "abcdx");
}

}  // namespace
}  // namespace rankshim
