#include "link/roster.h"

#include <catch2/catch.hpp>

#include <map>

#include "base/fault.h"

namespace rankshim::link {
namespace {

using namespace std::chrono_literals;

Hello hello_of(unsigned rank, unsigned nnodes = 3) {
  return {.run = "job",
          .instance = "instance-" + std::to_string(rank),
          .rank = rank,
          .nnodes = nnodes,
          .workers = 2,
          .launcher = "torchrun",
          .master = "host-0",
          .port = 29500,
          .host = "host-" + std::to_string(rank)};
}

const Failure stopped{.cause = "stopped", .code = 143, .text = "SIGTERM"};

/// A roster of three nodes, its clock, and what it last said to each connection.
struct Story {
  explicit Story(Hello own = hello_of(0), Roster::Rules rules = {}) : roster(std::move(own), rules, now) {}

  void arrive(ConnectionId id, const Hello& hello) {
    Hello seen = hello;
    seen.seen = "10.0.0." + std::to_string(id);
    roster.arrived(id, seen, now);
    collect();
  }
  void arrive(unsigned rank) { arrive(rank, hello_of(rank)); }
  void say(ConnectionId id, const Message& message) { roster.said(id, message, now), collect(); }
  void leave(ConnectionId id) { roster.gone(id, now), collect(); }
  /// Lets time pass, as the hub does: each tick at its moment.
  void pass(std::chrono::milliseconds time) {
    const Time end = now + time;
    for (Time next = roster.tick(now); next <= end && next > now; next = roster.tick(now)) {
      collect();
      now = next;
    }
    collect();
    now = end;
  }
  [[nodiscard]] bool ready() const { return roster.ready(now); }
  void all_launch() {
    arrive(1), arrive(2);
    REQUIRE(ready());
    roster.launch();
    collect();
  }
  void collect() {
    for (Outgoing& outgoing : roster.take_outgoing()) {
      for (const ConnectionId to : outgoing.to) {
        if (outgoing.message) last[to] = *outgoing.message;
        if (outgoing.closes()) closed[to] = true;
      }
    }
  }
  template <class Type>
  const Type* told(ConnectionId id) {
    const auto found = last.find(id);
    return found == last.end() ? nullptr : std::get_if<Type>(&found->second);
  }
  std::string refusal(ConnectionId id) {
    const auto* refuse = told<Refuse>(id);
    return refuse == nullptr ? "" : refuse->sentence;
  }

  Time now = Time(1000s);
  Roster roster;
  std::map<ConnectionId, Message> last;
  std::map<ConnectionId, bool> closed;
};

TEST_CASE("all come, and each is told its ranks", "[link]") {
  Hello own = hello_of(0);
  own.workers = 4;
  Story story(own);
  CHECK_FALSE(story.ready());
  story.arrive(2);
  CHECK(story.roster.waiting().line == "waiting for 1 of 3 nodes: rank 1");
  story.all_launch();
  CHECK(story.told<Go>(0)->offset == 0);
  CHECK(story.told<Go>(1)->offset == 4);
  CHECK(story.told<Go>(2)->offset == 6);
  CHECK(story.told<Go>(2)->world == 8);
}

TEST_CASE("of many missing nodes the first ten are named", "[link]") {
  const Story story(hello_of(0, 64));
  CHECK(story.roster.waiting().line ==
        "waiting for 63 of 64 nodes: ranks 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, and 53 more");
}

TEST_CASE("who is missing is told to all who wait, every 30 s", "[link]") {
  Story story;
  story.arrive(2);
  story.pass(4900ms);
  CHECK(story.last.empty());
  story.pass(200ms);
  REQUIRE(story.told<Waiting>(2));
  CHECK(story.told<Waiting>(2)->line == "waiting for 1 of 3 nodes: rank 1");
  CHECK(story.told<Waiting>(0));
  story.last.clear();
  story.pass(29s);
  CHECK(story.last.empty());
  story.pass(1s);
  CHECK(story.told<Waiting>(2));
  story.roster.give_up_at(story.now);
  story.pass(0ms);
  CHECK(story.told<Refuse>(2)->code == exit_code::unreachable);
  CHECK(story.refusal(2) == "1 of 3 nodes did not come in time: rank 1");
  CHECK(story.refusal(0) == story.refusal(2));
}

TEST_CASE("what cannot be one job is refused on all nodes within a second, with both hosts' names",
          "[link]") {
  struct Case {
    const char* name;
    void (*change)(Hello&);
    const char* sentence;
  };
  const Case cases[] = {
      {"rank out of range", [](Hello& hello) { hello.rank = 3; },
       "node 3 (host host-2, 10.0.0.2) is out of range: 3 nodes have the ranks 0 to 2; set "
       "RANKSHIM_NODE_RANK"},
      {"node 0 twice", [](Hello& hello) { hello.rank = 0; },
       "two nodes have the rank 0: node 0 (host host-0) and node 0 (host host-2, 10.0.0.2); set a "
       "different RANKSHIM_NODE_RANK on "
       "each"},
      {"nnodes", [](Hello& hello) { hello.nnodes = 2; },
       "node 2 (host host-2, 10.0.0.2) has nnodes 2, node 0 (host host-0) has 3; set RANKSHIM_NNODES to the "
       "same on all "
       "nodes"},
      {"more nnodes", [](Hello& hello) { hello.nnodes = 8; },
       "node 2 (host host-2, 10.0.0.2) has nnodes 8, node 0 (host host-0) has 3; set RANKSHIM_NNODES to the "
       "same on all "
       "nodes"},
      {"port", [](Hello& hello) { hello.port = 1; },
       "node 2 (host host-2, 10.0.0.2) has master port 1, node 0 (host host-0) has 29500; set "
       "RANKSHIM_MASTER_PORT to "
       "the same on all nodes"},
      {"launcher", [](Hello& hello) { hello.launcher = "native"; },
       "node 2 (host host-2, 10.0.0.2) has launcher native, node 0 (host host-0) has torchrun; set "
       "RANKSHIM_LAUNCHER to "
       "the same on all nodes"},
      {"job restarts", [](Hello& hello) { hello.job_restarts = "3/1h"; },
       "node 2 (host host-2, 10.0.0.2) has --job-restarts 3/1h, node 0 (host host-0) has none; set "
       "RANKSHIM_JOB_RESTARTS to the same on all nodes"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.name);
    Story story;
    Hello wrong = hello_of(2);
    c.change(wrong);
    story.arrive(1);
    story.arrive(2, wrong);
    CHECK_FALSE(story.ready());
    story.pass(1s);
    for (const ConnectionId id : {0U, 1U, 2U}) CHECK(story.refusal(id) == c.sentence);
    CHECK(story.told<Refuse>(1)->code == exit_code::configuration);
    CHECK(story.closed[1]);
  }
}

TEST_CASE("different numbers of workers are refused only where the launcher needs them equal", "[link]") {
  for (const bool equal : {false, true}) {
    Story story(hello_of(0), {.equal_workers = equal});
    Hello other = hello_of(2);
    other.workers = 1;
    story.arrive(1);
    story.arrive(2, other);
    CHECK(story.ready() == !equal);
  }
}

TEST_CASE("a rank twice is refused when the older node shows that it lives, by coming back", "[link]") {
  Story story;
  Hello second = hello_of(1);
  second.instance = "another", second.host = "impostor";
  story.arrive(1);
  story.arrive(2, second);
  CHECK(story.closed[1]);
  story.arrive(3, hello_of(1));
  story.pass(500ms);
  const std::string sentence =
      "two nodes have the rank 1: node 1 (host impostor, 10.0.0.2) and node 1 (host host-1, 10.0.0.3); set a "
      "different RANKSHIM_NODE_RANK on each";
  for (const ConnectionId id : {0U, 2U, 3U}) CHECK(story.refusal(id) == sentence);
}

TEST_CASE("a rank twice waits until all who can come are here", "[link]") {
  Story story(hello_of(0, 4));
  Hello second = hello_of(1, 4);
  second.instance = "another";
  story.arrive(1, hello_of(1, 4));
  story.arrive(2, second);
  story.arrive(5, hello_of(1, 4));
  story.pass(5s);
  CHECK(story.refusal(0).empty());
  CHECK(story.roster.waiting().line.starts_with(
      "waiting for 2 of 4 nodes: ranks 2, 3; two nodes have the rank 1"));
  story.arrive(3, hello_of(3, 4));
  story.pass(0ms);
  CHECK_FALSE(story.refusal(3).empty());
}

TEST_CASE("a node that was started again takes the place of the one that does not come back", "[link]") {
  Story story;
  Hello again = hello_of(1);
  again.instance = "restarted";
  story.arrive(1);
  story.arrive(7, again);
  story.arrive(2);
  CHECK_FALSE(story.ready());
  story.pass(600ms);
  CHECK(story.closed[1]);
  CHECK(story.ready());
}

TEST_CASE("the other of two nodes with one rank can come once one has gone", "[link]") {
  Story story(hello_of(0, 4));
  Hello second = hello_of(1, 4);
  second.instance = "another";
  story.arrive(1, hello_of(1, 4));
  story.arrive(7, second);
  story.arrive(8, hello_of(1, 4));
  story.leave(7);
  CHECK(story.closed[8]);
  story.leave(8);
  story.arrive(9, hello_of(1, 4));
  story.pass(0ms);
  CHECK(story.roster.waiting().line == "waiting for 2 of 4 nodes: ranks 2, 3");
}

TEST_CASE("three nodes with one rank do not displace each other for ever", "[link]") {
  Story story(hello_of(0, 4));
  for (ConnectionId id = 1; id <= 5; ++id) {
    Hello hello = hello_of(1, 4);
    hello.instance = std::to_string(id % 3);
    story.arrive(id, hello);
  }
  CHECK(story.roster.waiting().line.find("two nodes have the rank 1") != std::string::npos);
  CHECK_FALSE(story.closed[3]);
  story.pass(11s);
  CHECK_FALSE(story.refusal(3).empty());
}

TEST_CASE("the same instance again replaces its connection", "[link]") {
  Story story;
  story.arrive(1);
  story.arrive(5, hello_of(1));
  CHECK(story.closed[1]);
  story.leave(1);  // the closed one: no longer anybody's
  story.arrive(2);
  CHECK(story.ready());
}

TEST_CASE("an earlier attempt's node is turned away, and harms nobody", "[link]") {
  Hello own = hello_of(0);
  own.attempt = "2";
  Story story(own);
  Hello stale = hello_of(1), first = hello_of(1), second = hello_of(2);
  stale.attempt = "1", first.attempt = "2", second.attempt = "2";
  story.arrive(9, stale);
  CHECK(story.refusal(9) ==
        "node 1 (host host-1, 10.0.0.9) has attempt 1, node 0 (host host-0) has 2; one of them belongs to "
        "another "
        "attempt of the job");
  CHECK(story.closed[9]);
  story.arrive(1, first);
  story.pass(60s);
  CHECK(story.refusal(1).empty());
  story.arrive(2, second);
  CHECK(story.ready());
}

TEST_CASE(
    "nodes of another job, or of a later attempt, neither start nor end a job of which nodes are missing",
    "[link][attack]") {
  Hello own = hello_of(0);
  own.run = "4711";
  for (const bool later : {false, true}) {
    Story story(own);
    const auto of_the_job = [&](unsigned rank) {
      Hello hello = hello_of(rank);
      hello.run = own.run;
      return hello;
    };
    Hello stranger = of_the_job(2);
    (later ? stranger.attempt : stranger.run) = "8";
    story.arrive(9, stranger);
    CHECK(story.told<Waiting>(9)->line.find("4711") == std::string::npos);
    const std::string sentence =
        later ? "node 2 (host host-2, 10.0.0.9) has attempt 8, node 0 (host host-0) has none; one of them "
                "belongs to another attempt of the job"
              : "node 2 (host host-2, 10.0.0.9) has run id 8, node 0 (host host-0) has another; the master's "
                "name host-0 leads to another job, or set RANKSHIM_RUN_ID to the same on all nodes";
    CHECK(story.told<Waiting>(9)->line == sentence);
    story.pass(60s);
    CHECK(story.roster.waiting().line.ends_with(sentence));
    CHECK(story.refusal(0).empty());
    story.arrive(1, of_the_job(1)), story.arrive(2, of_the_job(2));
    REQUIRE(story.ready());
    story.roster.launch();
    story.collect();
    CHECK(story.told<Go>(1));
    CHECK(story.refusal(9) == sentence);
    CHECK(story.closed[9]);
  }
}

TEST_CASE("where all nodes have come, one of them with another run id, all are refused within a second",
          "[link]") {
  Story story;
  story.arrive(1, hello_of(1));
  Hello other = hello_of(2);
  other.run = "other";
  story.arrive(2, other);
  story.pass(1s);
  const std::string says =
      "node 2 (host host-2, 10.0.0.2) has run id other, node 0 (host host-0) has another";
  for (const ConnectionId id : {0U, 1U, 2U}) CHECK_THAT(story.refusal(id), Catch::StartsWith(says));
}

TEST_CASE("of any number of strangers the newest are kept, and the job's own nodes come in",
          "[link][attack]") {
  Story story;
  Hello stranger = hello_of(1);
  stranger.run = "other";
  for (ConnectionId id = 10; id < 110; ++id) story.arrive(id, stranger);
  CHECK(story.closed[10]);
  CHECK_FALSE(story.closed[109]);
  CHECK(story.roster.waiting().line.size() < 1000);
  story.all_launch();
  CHECK(story.closed[109]);
}

TEST_CASE("node 0 learns what is wrong at most once a second", "[link][attack]") {
  Story story;
  Hello stranger = hello_of(1);
  stranger.run = "other";
  unsigned lines = 0;
  for (ConnectionId id = 10; id < 100; ++id) {
    story.arrive(id, stranger);
    story.pass(20ms);
    lines += story.last.erase(myself);
  }
  CHECK(lines == 2);
}

TEST_CASE("why a node was not let in is known until it comes, or the time is over", "[link]") {
  Story story;
  story.arrive(1);
  story.roster.doubt(hello_of(2), "node 2 has no token");
  story.pass(0ms);
  CHECK(story.told<Waiting>(0)->line == "waiting for 1 of 3 nodes: rank 2; node 2 has no token");
  CHECK(story.told<Waiting>(0)->wrong);
  story.roster.give_up_at(story.now);
  story.pass(0ms);
  CHECK(story.refusal(1) == "1 of 3 nodes did not come in time: rank 2; node 2 has no token");
  Story other;
  other.roster.doubt(hello_of(2), "node 2 has no token");
  other.arrive(2);
  other.roster.doubt(hello_of(2), "node 2 has no token");  // of an older connection
  CHECK(other.roster.waiting().line == "waiting for 1 of 3 nodes: rank 1");
}

TEST_CASE("a node that was here and went away is named among the missing", "[link]") {
  Story story;
  story.arrive(1);
  story.leave(1);
  CHECK(story.roster.waiting().line ==
        "waiting for 2 of 3 nodes: ranks 1, 2; node 1 (host host-1) was here, and went away");
  story.arrive(1);
  CHECK(story.roster.waiting().line == "waiting for 1 of 3 nodes: rank 2");
}

TEST_CASE("a store's client in the place of a node means a job without a link", "[link]") {
  Story story;
  story.roster.store_client("10.0.0.2", story.now);
  story.arrive(1);
  story.pass(1s);
  REQUIRE(story.told<Refuse>(1));
  CHECK(story.told<Refuse>(1)->code == 0);
  CHECK(story.refusal(0) ==
        "a node without rankshim, or without its link, came to the master's port: 10.0.0.2");
}

TEST_CASE("a store's client does not matter when all are here", "[link]") {
  Story story;
  story.roster.store_client("10.0.0.9", story.now);
  story.all_launch();
  story.pass(60s);
  CHECK(story.told<Go>(1));
}

TEST_CASE("a failure ends all nodes, and is told to the culprit's own too", "[link]") {
  for (const ConnectionId culprit : {0U, 1U, 2U}) {
    Story story;
    story.all_launch();
    story.say(
        culprit,
        Failure{.rank = 3, .cause = "signal", .code = 137, .text = "was killed by SIGKILL", .node = 77});
    for (const ConnectionId id : {0U, 1U, 2U}) {
      REQUIRE(story.told<Stop>(id));
      CHECK(story.told<Stop>(id)->culprit.node == culprit);
      CHECK(story.told<Stop>(id)->culprit.host == "host-" + std::to_string(culprit));
      CHECK(story.told<Stop>(id)->failed());
      CHECK_FALSE(story.told<Stop>(id)->again);
    }
  }
}

TEST_CASE("whether the job is started again is decided once, and told with the stop", "[link]") {
  unsigned decided = 0;
  Story story(hello_of(0), {.decide = [&decided](Stop& stop) {
                ++decided;
                stop.again = stop.culprit.code == 137;
              }});
  story.all_launch();
  story.say(1, Failure{.code = 137});
  story.say(2, Failure{.code = 1});
  CHECK(decided == 1);
  for (const ConnectionId id : {0U, 1U, 2U}) CHECK(story.told<Stop>(id)->again);
}

TEST_CASE("a node that is asked to stop while all end to start again keeps them from it", "[link]") {
  Story story(hello_of(0), {.decide = [](Stop& stop) { stop.again = true; }});
  story.all_launch();
  story.say(1, Failure{.code = 137});
  story.say(2, stopped);
  for (const ConnectionId id : {0U, 1U, 2U}) {
    CHECK_FALSE(story.told<Stop>(id)->again);
    CHECK(story.told<Stop>(id)->culprit.node == 1);
    CHECK(story.told<Stop>(id)->note == "node 2 (host host-2) was asked to stop (SIGTERM)");
  }
}

TEST_CASE("a node that is asked to stop while the others still come ends the meeting", "[link]") {
  Story story;
  story.arrive(1);
  story.say(1, stopped);
  for (const ConnectionId id : {0U, 1U}) {
    CHECK(story.refusal(id) == "node 1 (host host-1) was asked to stop (SIGTERM)");
    CHECK(story.told<Refuse>(id)->code == exit_code::peer);
  }
}

TEST_CASE("a node that comes after the meeting has ended is told how it ended", "[link]") {
  Story story;
  story.arrive(1);
  story.say(myself, stopped);
  CHECK_FALSE(story.roster.all_came());
  story.arrive(2);
  CHECK(story.refusal(2) == "node 0 (host host-0) was asked to stop (SIGTERM)");
  CHECK(story.closed[2]);
  CHECK(story.roster.all_came());
}

TEST_CASE("another job's node 0, whose master's name leads here for a while, is sent away and harms nothing",
          "[link]") {
  Story story;
  story.arrive(1);
  Hello other = hello_of(0);
  other.run = "another", other.instance = "another";
  story.arrive(7, other);
  REQUIRE(story.told<Refuse>(7));
  CHECK(story.told<Refuse>(7)->code == 0);
  CHECK(story.closed[7]);
  story.pass(60s);
  CHECK(story.refusal(1).empty());
  story.arrive(2);
  CHECK(story.ready());
}

TEST_CASE("node 0 knows the end of each worker", "[link]") {
  Story story;
  story.all_launch();
  story.say(2, Done{1, {{0, 143, 20}, {1, 1, 500}}});
  const Node& node = story.roster.nodes()[2];
  REQUIRE(node.done);
  const auto& workers = node.done->workers;
  REQUIRE(workers.size() == 2);
  CHECK(workers[1].local_rank == 1);
  CHECK(workers[1].code == 1);
  CHECK(workers[1].age == 500);
  CHECK(node.done_at == story.now);
}

TEST_CASE("a node that comes back says its end again, and its time is that of the first", "[link]") {
  Story story;
  story.all_launch();
  const Time ended = story.now;
  story.say(1, Done{0, {{0, 0, 20}}});
  story.leave(1);
  story.pass(60s);
  story.arrive(8, hello_of(1));
  story.say(8, Done{0, {{0, 0, 20}}});
  CHECK(story.roster.nodes()[1].done_at == ended);
}

TEST_CASE("where failures are gathered, all are told when each node has ended", "[link]") {
  Story story(hello_of(0), {.gathers = true});
  story.all_launch();
  story.say(2, Failure{.code = 6, .text = "ended with code 6"});
  story.say(2, Done{6});
  story.now += 1ms;
  story.say(1, Failure{.code = 3, .text = "ended with code 3"});
  story.say(1, Done{3});
  CHECK_FALSE(story.told<Stop>(1));
  story.say(0, Done{0});
  for (const ConnectionId id : {0U, 1U, 2U}) {
    REQUIRE(story.told<Stop>(id));
    CHECK(story.told<Stop>(id)->sentence() ==
          "node 2 (host host-2) failed: ended with code 6; node 1 (host host-1) too: ended with code 3");
  }
}

TEST_CASE("all nodes make the attempt that the one which knows of most restarts makes", "[link]") {
  Story story;
  Hello second = hello_of(1);
  second.restarts = 4;
  story.arrive(1, second), story.arrive(2);
  story.roster.launch();
  story.collect();
  for (const ConnectionId id : {0U, 1U, 2U}) CHECK(story.told<Go>(id)->attempt == 4);
}

TEST_CASE("of two failures the first that node 0 hears of is the cause, and both are known", "[link]") {
  Story story;
  story.all_launch();
  story.say(1, Failure{.rank = 2, .code = 1, .text = "one"});
  story.now += 5ms;
  story.say(2, Failure{.rank = 4, .code = 1, .text = "two"});
  CHECK(story.told<Stop>(2)->culprit.node == 1);
  CHECK(story.roster.nodes()[1].failure == "one");
  CHECK(story.roster.nodes()[2].failure == "two");
}

Failure lost_peer(const std::string& address) {
  return {.rank = 2,
          .cause = "peer",
          .code = 1,
          .text = "ended with code 1 (Connection closed by peer [" + address + "]:1)"};
}

TEST_CASE("a worker that only lost its peer is not the cause: another failure is, if one comes in 5 s",
          "[link]") {
  Story story;
  story.all_launch();
  story.say(1, lost_peer("10.0.0.2"));
  story.say(1, Done{1});
  story.pass(4900ms);
  story.say(0, lost_peer("10.0.0.2"));
  CHECK_FALSE(story.told<Stop>(2));
  story.say(2, Failure{.rank = 4, .cause = "exception", .code = 1, .text = "ended with code 1 (ValueError)"});
  for (const ConnectionId id : {0U, 1U, 2U}) {
    REQUIRE(story.told<Stop>(id));
    CHECK(story.told<Stop>(id)->sentence() ==
          "node 2 (host host-2) failed: rank 4 ended with code 1 (ValueError)");
  }
}

TEST_CASE("a worker that only lost its peer is the cause when no other comes, first one on the peer's node",
          "[link]") {
  struct Row {
    std::string of_node_2;
    unsigned culprit;
  };
  for (const auto& [of_node_2, culprit] : {Row{"10.0.0.1", 1}, Row{"10.0.0.2", 2}}) {
    Story story;
    story.all_launch();
    story.say(1, lost_peer("10.0.0.2"));
    story.say(2, lost_peer(of_node_2));
    story.pass(5s);
    REQUIRE(story.told<Stop>(0));
    CHECK(story.told<Stop>(0)->culprit.node == culprit);
  }
}

TEST_CASE("who lost its peer is told which nodes had ended well", "[link]") {
  Story story;
  story.all_launch();
  story.say(2, Done{0});
  story.say(1, lost_peer("10.0.0.2"));
  story.pass(5s);
  REQUIRE(story.told<Stop>(0));
  CHECK(story.told<Stop>(0)->culprit.text.ends_with("; node 2 (host host-2) had ended with code 0"));
}

TEST_CASE("a node that goes away while a worker has lost its peer is lost at once", "[link]") {
  for (const bool goes_first : {true, false}) {
    Story story;
    story.all_launch();
    if (goes_first) story.leave(2);
    story.pass(100ms);
    story.say(1, lost_peer("10.0.0.2"));
    story.pass(100ms);
    if (!goes_first) story.leave(2);
    story.pass(0ms);
    REQUIRE(story.told<Stop>(1));
    CHECK(story.told<Stop>(1)->sentence() ==
          "node 2 (host host-2) is lost: its connection ended, and a worker on node 1 (host host-1) lost its "
          "peer");
    CHECK(story.roster.nodes()[2].state == Node::State::lost);
  }
}

TEST_CASE("a command that ends badly is a failure, also when no worker was named", "[link]") {
  Story story;
  story.all_launch();
  story.say(1, Done{3});
  REQUIRE(story.told<Stop>(0));
  CHECK(story.told<Stop>(0)->sentence() == "node 1 (host host-1) failed: ended with code 3");
}

TEST_CASE("a drained node is no failure", "[link]") {
  Story story;
  story.all_launch();
  story.say(2, stopped);
  REQUIRE(story.told<Stop>(1));
  CHECK(story.told<Stop>(1)->sentence() == "node 2 (host host-2) was asked to stop (SIGTERM)");
  story.say(2, Done{143});
  story.say(1, Done{143});
  CHECK(story.roster.nodes()[2].state == Node::State::drained);
  CHECK(story.roster.nodes()[1].state == Node::State::stopped);
  for (const Node& node : story.roster.nodes()) CHECK(node.failure.empty());
}

TEST_CASE("a node without a connection is lost after 10 s, which ends all", "[link]") {
  Story story;
  story.all_launch();
  story.leave(1);
  story.pass(9900ms);
  CHECK(story.told<Go>(2));
  story.pass(200ms);
  REQUIRE(story.told<Stop>(2));
  CHECK(story.told<Stop>(2)->sentence() ==
        "node 1 (host host-1) is lost: its connection ended, and it did not come back within 10 s");
}

TEST_CASE("a node that comes back within 10 s is not lost, and learns what it missed", "[link]") {
  Story story;
  story.all_launch();
  story.leave(1);
  story.pass(5s);
  story.say(2, Failure{.code = 1});
  story.arrive(8, hello_of(1));
  CHECK(story.told<Stop>(8));
  Story calm;
  calm.all_launch();
  calm.leave(1);
  calm.pass(5s);
  calm.arrive(8, hello_of(1));
  CHECK(calm.told<Go>(8)->offset == 2);
  calm.pass(60s);
  CHECK(calm.told<Go>(2));
}

TEST_CASE("only the same process of the same job can come back", "[link]") {
  struct Case {
    void (*change)(Hello&);
  };
  const Case cases[] = {
      {[](Hello& hello) { hello.instance = "restarted"; }},
      {[](Hello& hello) { hello.rank = 9; }},
  };
  for (const Case& c : cases) {
    Story story;
    story.all_launch();
    story.leave(1);
    Hello back = hello_of(1);
    c.change(back);
    story.arrive(8, back);
    CHECK(story.refusal(8).starts_with("the job has started without node"));
    CHECK(story.closed[8]);
  }
}

TEST_CASE("all end well together", "[link]") {
  Story story;
  story.all_launch();
  story.say(1, Done{0});
  story.leave(1);  // it has said all
  story.pass(60s);
  story.say(0, Done{0});
  CHECK(story.told<Go>(2));
  story.say(2, Done{0});
  CHECK(story.told<End>(0));
  CHECK(story.told<End>(2));
  for (const Node& node : story.roster.nodes()) CHECK(node.state == Node::State::done);
}

TEST_CASE("nodes that have ended well are told every 30 s who still runs", "[link]") {
  Story story;
  story.all_launch();
  story.pass(600s);
  story.say(1, Done{0});
  story.pass(29s);
  CHECK_FALSE(story.told<Waiting>(1));
  story.pass(1s);
  REQUIRE(story.told<Waiting>(1));
  CHECK(story.told<Waiting>(1)->line ==
        "waiting for 2 of 3 nodes, which still run: node 0 (host host-0), node 2 (host host-2)");
  CHECK(story.told<Go>(2));
  story.say(0, Done{0});
  story.pass(30s);
  CHECK(story.told<Waiting>(0)->line == "waiting for 1 of 3 nodes, which still run: node 2 (host host-2)");
}

TEST_CASE("after each report the next is due, whatever else happens", "[link]") {
  Story story;
  CHECK(story.roster.tick(story.now) == story.now + 5s);
  CHECK(story.roster.tick(story.now + 5s) == story.now + 35s);
  story.all_launch();
  story.say(1, Done{0});
  CHECK(story.roster.tick(story.now) == story.now + 30s);
  CHECK(story.roster.tick(story.now + 30s) == story.now + 60s);
}

TEST_CASE("a failure reaches a node that has ended well", "[link]") {
  Story story;
  story.all_launch();
  story.say(1, Done{0});
  story.say(2, Failure{.rank = 5, .code = 1});
  CHECK(story.told<Stop>(1));
}

}  // namespace
}  // namespace rankshim::link
