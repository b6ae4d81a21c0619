#include "base/signals.h"

#include <catch2/catch.hpp>
#include <csignal>

namespace rankshim {
namespace {

TEST_CASE("signals are read by name, with and without SIG, and by number") {
  const std::vector<std::pair<const char*, int>> good = {
      {"TERM", SIGTERM}, {"SIGTERM", SIGTERM}, {"sigusr1", SIGUSR1}, {"15", 15},    {"64", 64},
      {"RTMIN", 34},     {"SIGRTMIN+3", 37},   {"rtmin+30", 64},     {"RTMAX", 64}, {"RTMAX-2", 62},
      {"32", 32},        {"WINCH", SIGWINCH},  {"IO", SIGIO}};
  for (const auto& [text, number] : good) {
    INFO(text);
    CHECK(parse_signal(text) == number);
  }
  for (const char* wrong : {"", "0", "65", "-1", "SIG", "TERMS", "1x", "RTMIN+31", "RTMIN-1", "RTMAX+1",
                            "RTMIN+", "RTMAX-31", "signal 3"}) {
    INFO(wrong);
    CHECK_FALSE(parse_signal(wrong));
  }
  for (int number = 34; number <= last_signal; ++number) CHECK(parse_signal(signal_name(number)) == number);
  for (int number = 1; number < 32; ++number) CHECK(parse_signal(signal_name(number)) == number);
}

TEST_CASE("a list of signals is a set, and none is the empty one") {
  CHECK(parse_signals("USR1,12") == (bit(SIGUSR1) | bit(SIGUSR2)));
  CHECK(parse_signals("none") == SignalSet{0});
  CHECK(parse_signals("") == SignalSet{0});
  CHECK_FALSE(parse_signals("USR1,,USR2"));
  CHECK_FALSE(parse_signals("USR1 USR2"));
}

TEST_CASE("a map of signals changes those it names") {
  const auto map = SignalMap::parse("TERM=INT,HUP=none,40=RTMIN+7");
  REQUIRE(map);
  CHECK(map->apply(SIGTERM) == SIGINT);
  CHECK(map->apply(SIGINT) == SIGINT);
  CHECK(map->apply(SIGHUP) == 0);
  CHECK(map->apply(40) == 41);
  CHECK(SignalMap{}.apply(64) == 64);
  for (const char* wrong : {"TERM", "TERM=", "=TERM", "KILL=TERM", "STOP=TERM", "CHLD=none", "TERM=0"})
    CHECK_FALSE(SignalMap::parse(wrong));
}

}  // namespace
}  // namespace rankshim
