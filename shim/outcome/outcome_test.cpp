#include "outcome/outcome.h"
#include "outcome/wording.h"

#include <catch2/catch.hpp>

namespace rankshim::outcome {

TEST_CASE("a cause is read back by its name") {
  for (int number = 0; number <= static_cast<int>(Cause::system); ++number) {
    const auto cause = static_cast<Cause>(number);
    CHECK(cause_named(name(cause)) == cause);
  }
  CHECK(cause_named("") == std::nullopt);
  CHECK(cause_named("oom") == std::nullopt);
}

TEST_CASE("ranks are named by their ranges") {
  struct Row {
    std::vector<unsigned> ranks;
    std::string words;
  };
  const auto row = GENERATE(values<Row>({
      {{1}, "rank 1"},
      {{2, 0}, "ranks 0 and 2"},
      {{1, 1}, "rank 1"},
      {{0, 1}, "ranks 0-1"},
      {{5, 3, 4, 0}, "ranks 0 and 3-5"},
      {{0, 2, 4, 6}, "ranks 0, 2, 4 and 6"},
      {{0, 2, 4, 6, 8, 10, 12, 14, 16}, "ranks 0, 2, 4, 6, 8, 10, 12, 14 and more"},
  }));
  CHECK(in_words(to_ranges(row.ranks)) == row.words);
}

TEST_CASE("a culprit is told with its node, what failed, how and why") {
  struct Row {
    Culprit culprit;
    std::string words;
  };
  const auto row = GENERATE(values<Row>({
      {{.rank = 5, .cause = Cause::exception, .code = 1, .text = "ValueError: x", .node = 2, .host = "e"},
       "node 2 (e) failed: rank 5 exited with code 1: ValueError: x"},
      {{.rank = 5, .cause = Cause::signalled, .code = 137, .signal = 9, .node = 2},
       "node 2 failed: rank 5 was killed by SIGKILL"},
      {{.program = "sh", .cause = Cause::exited, .code = 3, .node = 1, .after = 2500},
       "node 1 failed: sh exited with code 3 after 2.5 s"},
      {{.cause = Cause::exited, .code = 3}, "node 0 failed: its command exited with code 3"},
      {{.cause = Cause::system, .code = 127, .text = "x was not found"}, "node 0 failed: x was not found"},
      {{.rank = 1, .cause = Cause::peer_lost, .code = 1, .text = "E", .peer = "10.0.0.9"},
       "node 0 lost its peer 10.0.0.9: rank 1 exited with code 1: E"},
      {{.rank = 1, .cause = Cause::timed_out, .code = 1},
       "node 0 timed out waiting for its peers: rank 1 exited with code 1"},
      {{.cause = Cause::stop_requested, .code = 143, .signal = 15}, "node 0 was stopped (SIGTERM)"},
      {{.cause = Cause::stop_requested, .code = 143}, "node 0 was stopped"},
      {{.cause = Cause::node_lost}, "node 0 was lost: its connection ended"},
      {{.cause = Cause::signalled, .code = 1, .signal = 300},
       "node 0 failed: its command was killed by signal 300"},
  }));
  CHECK(in_words(row.culprit) == row.words);
}

TEST_CASE("a lost node is told with what showed the loss, and what has become of it since") {
  using Sign = Loss::Sign;
  using Then = Loss::Then;
  using std::chrono::seconds;
  struct Row {
    Loss loss;
    std::string words;
  };
  const auto row = GENERATE(values<Row>({
      {{.then = Then::restarted}, "its connection ended, and it was restarted"},
      {{.then = Then::not_listening}, "its connection ended, and its rankshim no longer listens"},
      {{.then = Then::not_back, .within = seconds(2)},
       "its connection ended, and it did not reconnect within 2 s"},
      {{.then = Then::not_reached}, "its connection ended, and it could not be made again"},
      {{.sign = Sign::silent, .then = Then::not_reached, .time = seconds(30), .within = seconds(10)},
       "its rankshim has not answered for 30 s, and the connection could not be made again within 10 s"},
      {{.sign = Sign::unanswered}, "its rankshim does not answer"},
      {{.sign = Sign::suspended, .then = Then::not_reached, .time = seconds(62)},
       "its rankshim was suspended for 1 min 2 s, and the connection could not be made again"},
      {{.sign = Sign::cut_off, .others = 7},
       "the connections to all 7 other nodes ended: look at this node's own network"},
      {{.sign = Sign::outvoted},
       "the connections to more than half of all nodes ended: look at this node's own network"},
  }));
  Culprit culprit{.cause = Cause::node_lost, .loss = row.loss};
  CHECK(what_happened(culprit) == row.words);
  culprit.victims = {{0, 0}};
  CHECK(what_happened(culprit) == row.words + ", and rank 0 lost its peer");
  culprit.victims = {{0, 0}, {2, 2}};
  CHECK(what_happened(culprit) == row.words + ", and ranks 0 and 2 lost their peer");
}

}  // namespace rankshim::outcome
