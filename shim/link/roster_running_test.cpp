#include "link/roster.h"
#include "link/test_roster.h"

/// From the launch on.

namespace rankshim::link {
namespace {

using namespace std::chrono_literals;
using test::hello_of;
using test::stopped;
using test::Story;
using test::words;

Culprit lost_peer(const std::string& address) {
  return {.rank = 2,
          .cause = Cause::peer_lost,
          .code = 1,
          .text = "Connection closed by peer [" + address + "]:1",
          .peer = address};
}

TEST_CASE("a failure ends all nodes, and is told to the culprit's own too", "[link]") {
  for (const ConnectionId culprit : {0U, 1U, 2U}) {
    Story story;
    story.all_launch();
    story.say(culprit, Culprit{.rank = 3, .cause = Cause::signalled, .code = 137, .signal = 9, .node = 77});
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
  story.say(1, Culprit{.code = 137});
  story.say(2, Culprit{.code = 1});
  CHECK(decided == 1);
  for (const ConnectionId id : {0U, 1U, 2U}) CHECK(story.told<Stop>(id)->again);
}

TEST_CASE("a node that is stopped while all end to start again keeps them from it", "[link]") {
  Story story(hello_of(0), {.decide = [](Stop& stop) { stop.again = true; }});
  story.all_launch();
  story.say(1, Culprit{.code = 137});
  story.say(2, stopped);
  for (const ConnectionId id : {0U, 1U, 2U}) {
    CHECK_FALSE(story.told<Stop>(id)->again);
    CHECK(story.told<Stop>(id)->culprit.node == 1);
    const auto& why = story.told<Stop>(id)->not_restarted;
    REQUIRE(why);
    CHECK(in_words(why->gone.value()) == "node 2 (host-2) was stopped (SIGTERM)");
    CHECK_FALSE(why->was_spare);
  }
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

TEST_CASE("no number of a node's workers is believed beyond what node 0 knows", "[link][attack]") {
  Story story;
  story.all_launch();
  story.pass(5s);
  story.say(1, lost_peer(""));
  story.pass(4s);
  story.say(1, Seen{{{0, 1, UINT32_MAX}, {UINT32_MAX, std::nullopt, 0}}});
  story.say(2, Seen{{{2, std::nullopt, 0}, {1, 0, UINT32_MAX}}});
  story.say(0, Seen{});
  story.pass(1s);
  REQUIRE(story.told<Stop>(0));  // not before the launch, which is 5 s before the victim's end
  CHECK(words(*story.told<Stop>(0)) ==
        "node 2 (host-2) exited early: rank 5 exited 0 after 0.0 s while rank 2 still waited for it: it ran "
        "fewer iterations");
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
  story.say(2, Culprit{.code = 6, .text = "exited with code 6"});
  story.say(2, Done{6});
  story.now += 1ms;
  story.say(1, Culprit{.code = 3, .text = "exited with code 3"});
  story.say(1, Done{3});
  CHECK_FALSE(story.told<Stop>(1));
  story.say(0, Done{0});
  for (const ConnectionId id : {0U, 1U, 2U}) {
    REQUIRE(story.told<Stop>(id));
    CHECK(words(*story.told<Stop>(id)) ==
          "node 2 (host-2) failed: exited with code 6; node 1 (host-1) failed: exited with code 3");
  }
}

TEST_CASE("where failures are gathered, a node that was killed is named when its time to come back is over",
          "[link]") {
  struct Case {
    const char* name;
    std::optional<ConnectionId> fails;
    bool comes_back;
    const char* sentence;
  };
  const std::string lost =
      "node 1 (host-1) was lost: its connection ended, and it did not reconnect within 10 s";
  const Case cases[] = {
      {"another fails", 2, false, "; node 2 (host-2) failed: exited with code 6"},
      {"node 0 fails", 0, false, "; node 0 (host-0) failed: exited with code 6"},
      {"all others succeed", {}, false, ""},
      {"it comes back and succeeds", 2, true, "node 2 (host-2) failed: exited with code 6"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.name);
    Story story(hello_of(0), {.gathers = true});
    story.all_launch();
    story.leave(1);
    if (c.fails) story.say(*c.fails, Culprit{.code = 6, .text = "exited with code 6"});
    for (const ConnectionId id : {2U, 0U}) story.say(id, Done{c.fails == id ? 6 : 0});
    story.pass(9s);
    CHECK_FALSE(story.told<Stop>(2));
    if (c.comes_back) {
      story.arrive(7, hello_of(1));
      story.say(7, Done{0});
    }
    story.pass(2s);
    REQUIRE(story.told<Stop>(2));
    CHECK(words(*story.told<Stop>(2)) == (c.comes_back ? c.sentence : lost + c.sentence));
    CHECK(story.told<Stop>(0)->lost() == !c.comes_back);
  }
}

TEST_CASE("where failures are gathered, a node that told its own and is gone has ended", "[link]") {
  Story story(hello_of(0), {.gathers = true});
  story.all_launch();
  story.say(1, Culprit{.code = 3, .text = "exited with code 3"});
  story.say(2, Done{0});
  story.say(0, Done{0});
  CHECK_FALSE(story.told<Stop>(2));
  story.leave(1);
  REQUIRE(story.told<Stop>(2));
  CHECK(words(*story.told<Stop>(2)) == "node 1 (host-1) failed: exited with code 3");
}

TEST_CASE("of two failures the first that node 0 hears of is the cause, and both are known", "[link]") {
  Story story;
  story.all_launch();
  story.say(1, Culprit{.rank = 2, .code = 1, .text = "one"});
  story.now += 5ms;
  story.say(2, Culprit{.rank = 4, .code = 1, .text = "two"});
  CHECK(story.told<Stop>(2)->culprit.node == 1);
  CHECK(story.roster.nodes()[1].failure->text == "one");
  CHECK(story.roster.nodes()[2].failure->text == "two");
}

Culprit waited_in_vain() {
  Culprit victim = lost_peer("");
  victim.cause = Cause::timed_out;
  return victim;
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
  story.say(2, Culprit{.rank = 4, .cause = Cause::exception, .code = 1, .text = "ValueError"});
  for (const ConnectionId id : {0U, 1U, 2U}) {
    REQUIRE(story.told<Stop>(id));
    CHECK(words(*story.told<Stop>(id)) == "node 2 (host-2) failed: rank 4 exited with code 1: ValueError");
  }
}

TEST_CASE("a worker whose collective differs from another one's is not the cause before that one is heard",
          "[link]") {
  const auto differs = [](unsigned rank, unsigned other) {
    Culprit failure{.rank = rank, .cause = Cause::exception, .code = 1, .text = "they differ"};
    failure.ranks = {{other, other}};
    return failure;
  };
  Story story;
  story.all_launch();
  story.say(1, differs(2, 0));
  story.say(1, Done{1});
  CHECK_FALSE(story.told<Stop>(2));
  story.say(2, differs(4, 0));
  story.say(2, Done{1});
  story.say(0, differs(0, 2));
  story.say(0, Done{1});
  story.pass(5s);
  for (const ConnectionId id : {0U, 1U, 2U}) {
    REQUIRE(story.told<Stop>(id));
    CHECK(words(*story.told<Stop>(id)) == "node 0 (host-0) failed: rank 0 exited with code 1: they differ");
  }
}

TEST_CASE("a victim that ends before its culprit of the same node does not hide it", "[link]") {
  Story story;
  story.all_launch();
  story.say(1, lost_peer("10.0.0.1"));
  story.say(1, Culprit{.rank = 3, .cause = Cause::exception, .code = 1, .text = "ValueError: boom"});
  story.say(1, Culprit{.rank = 3, .cause = Cause::exception, .code = 1, .text = "RuntimeError: later"});
  story.pass(4900ms);
  CHECK_FALSE(story.told<Stop>(2));  // the cause may still come from elsewhere
  story.pass(100ms);
  for (const ConnectionId id : {0U, 1U, 2U}) {
    REQUIRE(story.told<Stop>(id));
    CHECK(words(*story.told<Stop>(id)) ==
          "node 1 (host-1) failed: rank 3 exited with code 1: ValueError: boom");
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

TEST_CASE("a node that succeeded before a worker lost its peer is to blame, and is told", "[link]") {
  Story story;
  story.all_launch();
  story.pass(312s);
  story.say(2, Done{0});
  story.pass(1s);
  story.say(1, lost_peer("10.0.0.2"));
  story.pass(5s);
  for (const ConnectionId id : {0U, 1U, 2U}) {
    REQUIRE(story.told<Stop>(id));
    CHECK(words(*story.told<Stop>(id)) ==
          "node 2 (host-2) exited early: ranks 4-5 exited 0 after 5 min 12 s while rank 2 still waited for "
          "them: they ran fewer iterations");
  }
}

TEST_CASE("all nodes are asked how their workers are before a victim is named", "[link]") {
  Story story;
  story.all_launch();
  story.say(1, waited_in_vain());
  story.pass(2900ms);
  CHECK_FALSE(story.told<Look>(2));
  story.pass(200ms);
  for (const ConnectionId id : {0U, 1U, 2U}) REQUIRE(story.told<Look>(id));
  story.say(0, Seen{{{0, 1, 100}, {1, 1, 100}}});
  story.say(1, Seen{{{0, 1, 4000}, {1, 143, 3900}}});
  story.say(2, Seen{{{0, std::nullopt, 0}, {1, 1, 50}, {7, std::nullopt, 0}}});
  story.pass(2s);
  REQUIRE(story.told<Stop>(2));
  CHECK(words(*story.told<Stop>(2)) ==
        "node 2 (host-2) hung: rank 4 is still running; ranks 0-2 and 5 timed out waiting for it");
}

TEST_CASE("a look has the workers of all nodes, their groups from several messages", "[link]") {
  Story story;
  story.all_launch();
  const auto looked = [](std::uint32_t number, unsigned local_rank, std::string group) {
    Looked one{.number = number, .local_rank = local_rank, .worker = {.rank = 77, .pid = 70}};
    if (!group.empty()) one.worker.groups.push_back({.name = std::move(group), .entered = 3, .ended = 2});
    return one;
  };
  const Look first = story.roster.ask(true);
  story.say(1, looked(first.number, 0, ""));
  const Look last = story.roster.ask(true);
  CHECK(last.number != first.number);
  story.say(1, looked(first.number, 0, "old"));  // an answer to the question before
  story.say(1, looked(last.number, 1, ""));
  story.say(1, looked(last.number, 1, "0"));
  story.say(1, looked(last.number, 1, "1"));
  story.say(1, looked(last.number, 2, "0"));  // a worker that the node does not have
  for (const ConnectionId id : {0U, 1U}) story.say(id, Seen{.workers = {{0}, {1}}, .number = last.number});
  CHECK_FALSE(story.roster.has_answers());
  story.say(2, Seen{.workers = {{.local_rank = 0}}, .number = last.number, .more = true});
  CHECK_FALSE(story.roster.has_answers());
  story.say(2, Seen{.workers = {{.local_rank = 1}}, .number = last.number});
  CHECK(story.roster.has_answers());
  CHECK(story.roster.nodes()[2].seen.size() == 2);
  const auto looks = story.roster.take_looks();
  REQUIRE(looks.size() == 1);
  CHECK(looks[0].rank == 3);  // by its place in the job, whatever it says itself
  CHECK(looks[0].groups.size() == 2);
  CHECK(story.roster.take_looks().empty());
}

TEST_CASE("a worker cannot fill node 0's memory with groups", "[link][attack]") {
  Story story;
  story.all_launch();
  const Look question = story.roster.ask(true);
  Looked one{.number = question.number, .worker = {.pid = 70}};
  one.worker.groups.resize(6);
  for (unsigned i = 0; i < 100; ++i) story.say(1, one);
  CHECK(story.roster.take_looks().at(0).groups.size() == most_groups);
}

TEST_CASE("the nodes learn who hangs, and the node of the first rank to blame", "[link]") {
  Story story;
  story.all_launch();
  const Culprit culprit =
      story.roster.located({.cause = Cause::hang, .ranks = {{3, 3}}, .victims = {{0, 2}}});
  CHECK(culprit.node == 1);
  CHECK(culprit.host == "host-1");
  story.roster.end(culprit);
  story.collect();
  for (const ConnectionId id : {0U, 1U, 2U}) {
    REQUIRE(story.told<Stop>(id));
    CHECK(story.told<Stop>(id)->culprit.cause == Cause::hang);
  }
}

TEST_CASE("a node that does not answer when it is asked is named, and no victim", "[link]") {
  Story story;
  story.all_launch();
  story.say(1, waited_in_vain());
  story.pass(4s);
  story.say(0, Seen{{{0, 1, 0}, {1, 1, 0}}});
  story.say(1, Seen{{{0, 1, 0}, {1, 1, 0}}});
  story.pass(1s);
  REQUIRE(story.told<Stop>(1));
  CHECK(words(*story.told<Stop>(1)) ==
        "node 2 (host-2) was lost: its rankshim does not answer, and ranks 0-3 lost their peer");
}

TEST_CASE("a node that failed and has ended does not come back, whatever its kernel has acknowledged",
          "[link]") {
  struct Case {
    const char* name;
    Cause cause;
    bool again;
    bool awaited;
  };
  for (const auto& [name, cause, again, awaited] : {Case{"it failed by itself", Cause::exited, false, false},
                                                    {"a victim", Cause::peer_lost, false, true},
                                                    {"all may start again", Cause::exited, true, true}}) {
    CAPTURE(name);
    Roster::Rules rules;
    if (again) rules.decide = [](Stop& stop) { stop.again = true; };
    Story story(hello_of(0), rules);
    story.all_launch();
    story.say(2, Culprit{.cause = Cause::exited, .code = 3});
    story.say(1, Culprit{.cause = cause, .code = 1});
    story.say(1, Done{1});
    story.leave(1, {.unheard = true});
    CHECK(story.roster.awaits_return(story.now) == awaited);
  }
}

TEST_CASE("a node whose rankshim does not answer is lost, and the line says so", "[link]") {
  Story story;
  story.all_launch();
  story.leave(2, {.silent = 30s});
  story.pass(10s);
  REQUIRE(story.told<Stop>(1));
  CHECK(words(*story.told<Stop>(1)) ==
        "node 2 (host-2) was lost: its rankshim has not answered for 30 s, and it did not reconnect within "
        "10 s");
}

TEST_CASE("a node 0 that lost others while its own process did not run names itself", "[link]") {
  Story story;
  story.all_launch();
  story.roster.slept(62s);
  story.leave(1);
  story.pass(10s);
  REQUIRE(story.told<Stop>(2));
  CHECK(words(*story.told<Stop>(2)) == "node 0 (host-0) was lost: its rankshim was suspended for 1 min 2 s");
}

TEST_CASE("a node 0 that loses all others at once is the one that is cut off", "[link]") {
  Story story;
  story.all_launch();
  story.leave(1), story.leave(2);
  story.pass(10s);
  REQUIRE(story.told<Stop>(0));
  CHECK(story.told<Stop>(0)->culprit.node == 0);
  CHECK(story.told<Stop>(0)->lost());
}

TEST_CASE("a node that is stopped after another has lost it is the one that is named", "[link]") {
  Story story;
  story.all_launch();
  story.say(1, lost_peer("10.0.0.2"));
  story.pass(100ms);
  story.say(2, stopped);
  for (const ConnectionId id : {0U, 1U, 2U}) {
    REQUIRE(story.told<Stop>(id));
    CHECK(words(*story.told<Stop>(id)) == "node 2 (host-2) was stopped (SIGTERM)");
  }
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
    CHECK(words(*story.told<Stop>(1)) ==
          "node 2 (host-2) was lost: its connection ended, and rank 2 lost its peer");
    CHECK(story.roster.nodes()[2].state == Node::State::lost);
  }
}

TEST_CASE("a command that ends badly is a failure, also when no worker was named", "[link]") {
  Story story;
  story.all_launch();
  story.say(1, Done{3});
  REQUIRE(story.told<Stop>(0));
  CHECK(words(*story.told<Stop>(0)) == "node 1 (host-1) failed: its command exited with code 3");
}

TEST_CASE("a drained node is no failure", "[link]") {
  Story story;
  story.all_launch();
  story.say(2, stopped);
  REQUIRE(story.told<Stop>(1));
  CHECK(words(*story.told<Stop>(1)) == "node 2 (host-2) was stopped (SIGTERM)");
  story.say(2, Done{143});
  story.say(1, Done{143});
  CHECK(story.roster.nodes()[2].state == Node::State::drained);
  CHECK(story.roster.nodes()[1].state == Node::State::stopped);
  for (const Node& node : story.roster.nodes()) CHECK_FALSE(node.failure);
}

TEST_CASE("a node without a connection is lost after 10 s, which ends all", "[link]") {
  Story story;
  story.all_launch();
  story.leave(1);
  story.pass(9900ms);
  CHECK(story.told<Go>(2));
  story.pass(200ms);
  REQUIRE(story.told<Stop>(2));
  CHECK(words(*story.told<Stop>(2)) ==
        "node 1 (host-1) was lost: its connection ended, and it did not reconnect within 10 s");
}

TEST_CASE("a node whose own kernel has ended a direct connection is lost after 2 s", "[link]") {
  struct Case {
    const char* name;
    EndedBy ended_by;
    const char* address;
    std::chrono::milliseconds silent;
    std::chrono::milliseconds lost_after;
    const char* sentence;
  };
  const Case cases[] = {
      {"it was killed", EndedBy::rst, "10.0.0.1", 0s, 2s,
       "its connection ended, and it did not reconnect within 2 s"},
      {"a proxy was between", EndedBy::rst, "10.9.9.9", 0s, 10s,
       "its connection ended, and it did not reconnect within 10 s"},
      {"the network was silent", EndedBy::nothing, "10.0.0.1", 0s, 10s,
       "its connection ended, and it did not reconnect within 10 s"},
      {"its rankshim was silent", EndedBy::nothing, "10.0.0.1", 30s, 10s,
       "its rankshim has not answered for 30 s, and it did not reconnect within 10 s"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.name);
    Story story(hello_of(0), {.silent_end = 40s});
    Hello hello = hello_of(1);
    hello.address = c.address;
    story.arrive(1, hello), story.arrive(2);
    story.roster.launch(story.now);
    story.leave(1, {.silent = c.silent, .ended_by = c.ended_by});
    story.pass(c.lost_after - 100ms);
    CHECK_FALSE(story.told<Stop>(2));
    story.pass(200ms);
    REQUIRE(story.told<Stop>(2));
    CHECK(words(*story.told<Stop>(2)) == std::string("node 1 (host-1) was lost: ") + c.sentence);
    const bool may_run = c.lost_after != 2s;  // its command, beside the next attempt
    CHECK((story.roster.all_ended_by() > story.now) == may_run);
  }
}

TEST_CASE("thousands of nodes have the time to come back all at one moment", "[link]") {
  const Roster::Rules rules;
  CHECK(rules.time_to_return(EndedBy::fin, 2) == 2s);
  CHECK(rules.time_to_return(EndedBy::fin, 4096) == 3024ms);
  CHECK(rules.time_to_return(EndedBy::fin, most_nodes) == rules.relink);
}

TEST_CASE("another instance of a node without a connection shows that it is lost, and comes again",
          "[link]") {
  struct Case {
    const char* name;
    bool may_start_again;
    bool is_connected;
    unsigned port;
    bool lost;
    bool refused;
  };
  for (const Case& c :
       {Case{"it was started anew", true, false, 29500, true, false},
        Case{"the rank exists twice, or its end is not known yet", true, true, 29500, false, false},
        Case{"it is of another job of the machine", true, false, 29501, false, true},
        Case{"there is no next attempt", false, false, 29500, false, true}}) {
    CAPTURE(c.name);
    Roster::Rules rules;
    if (c.may_start_again) rules.decide = [](Stop& stop) { stop.again = true; };
    Story story(hello_of(0), rules);
    story.all_launch();
    if (!c.is_connected) story.leave(1);
    Hello anew = hello_of(1);
    anew.instance = "anew";
    anew.port = c.port;
    story.arrive(8, anew);
    story.pass(0s);
    CHECK(story.closed[8]);
    CHECK(story.refusal(8).empty() != c.refused);
    REQUIRE((story.told<Stop>(2) != nullptr) == c.lost);
    if (c.lost)
      CHECK(words(*story.told<Stop>(2)) ==
            "node 1 (host-1) was lost: its connection ended, and it was restarted");
  }
}

TEST_CASE("of two lost nodes the one that went away first is named, though the other was started anew",
          "[link]") {
  Roster::Rules rules;
  rules.decide = [](Stop& stop) { stop.again = true; };
  Story story(hello_of(0, 4), rules);
  for (const unsigned rank : {1U, 2U, 3U}) story.arrive(rank, hello_of(rank, 4));
  story.roster.launch(story.now);
  story.leave(1);
  story.pass(1s);
  story.leave(2);
  Hello anew = hello_of(2, 4);
  anew.instance = "anew";
  story.arrive(8, anew);
  story.pass(0s);
  REQUIRE(story.told<Stop>(3));
  CHECK(story.told<Stop>(3)->culprit.node == 1);
}

TEST_CASE("a node that comes back within 10 s is not lost, and learns what it missed", "[link]") {
  Story story;
  story.all_launch();
  story.leave(1);
  story.pass(5s);
  story.say(2, Culprit{.code = 1});
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

TEST_CASE("a node that comes back when it is lost already learns that it is the one that was lost",
          "[link]") {
  for (const bool again : {false, true}) {
    Story story(hello_of(0), {.decide = [again](Stop& stop) { stop.again = again; }});
    story.all_launch();
    story.leave(1);
    story.pass(11s);
    REQUIRE(story.told<Stop>(2));
    story.arrive(8, hello_of(1));
    REQUIRE(story.told<Stop>(8));
    CHECK(words(*story.told<Stop>(8)) == words(*story.told<Stop>(2)));
    CHECK(story.told<Stop>(8)->culprit.node == 1);
    CHECK(story.told<Stop>(8)->again == again);
    CHECK_FALSE(story.closed[8]);
    story.say(0, Done{143}), story.say(2, Done{143});
    CHECK_FALSE(story.roster.all_ended());  // what it still has to end is waited for
    story.say(8, Done{143});
    CHECK(story.roster.all_ended());
    CHECK(story.roster.nodes()[1].state == Node::State::lost);
  }
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

TEST_CASE("nodes that have succeeded are told every 30 s who still runs", "[link]") {
  Story story;
  story.all_launch();
  story.pass(600s);
  story.say(1, Done{0});
  story.pass(29s);
  CHECK_FALSE(story.told<Waiting>(1));
  story.pass(1s);
  REQUIRE(story.told<Waiting>(1));
  CHECK(story.waiting(1) == "waiting for 2 of 3 nodes, which still run: node 0 (host-0), node 2 (host-2)");
  CHECK(story.told<Go>(2));
  story.say(0, Done{0});
  story.pass(30s);
  CHECK(story.waiting(0) == "waiting for 1 of 3 nodes, which still run: node 2 (host-2)");
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

TEST_CASE("a failure reaches a node that has succeeded", "[link]") {
  Story story;
  story.all_launch();
  story.say(1, Done{0});
  story.say(2, Culprit{.rank = 5, .code = 1});
  CHECK(story.told<Stop>(1));
}

}  // namespace
}  // namespace rankshim::link
