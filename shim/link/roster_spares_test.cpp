#include "link/test_roster.h"

/// A job of three nodes that train and two spares, as node 0 sees it.

namespace rankshim::link {
namespace {

using namespace std::chrono_literals;
using test::hello_of;
using test::stopped;
using test::Story;

Hello hello_with_spares(unsigned index, const std::string& instance = "") {
  Hello hello = hello_of(index, 5);
  hello.spares = 2;
  hello.job_restarts = "3";
  if (!instance.empty()) hello.instance = instance;
  return hello;
}

/// One attempt after the other, each with a roster of its own.
struct SparesStory {
  std::shared_ptr<Members> members = std::make_shared<Members>(5, 2);
  std::optional<Story> story;

  SparesStory() { meet(); }
  void meet() {
    story.emplace(
        hello_with_spares(0),
        Roster::Rules{.decide = [](Stop& stop) { stop.again = !stop.drained(); }, .members = members});
  }
  Story& now() { return *story; }
  void come(const std::vector<unsigned>& indices) {
    for (const unsigned index : indices) now().arrive(index, hello_with_spares(index));
  }
  void launch() {
    REQUIRE(now().ready());
    now().roster.launch(now().now);
    now().collect();
  }
  void run(const std::vector<unsigned>& others) { meet(), come(others), launch(); }
  std::optional<unsigned> rank(unsigned index) {
    const auto* go = now().told<Go>(index);
    return go == nullptr ? std::nullopt : go->rank;
  }
  bool starts_again() { return now().told<Stop>(0) != nullptr && now().told<Stop>(0)->again; }
};

TEST_CASE("all nodes meet, as many as needed train, and the rest wait", "[link]") {
  SparesStory job;
  job.come({1, 2, 3});
  CHECK_FALSE(job.now().ready());
  job.come({4});
  job.launch();
  for (const unsigned index : {0U, 1U, 2U}) {
    CHECK(job.rank(index) == index);
    CHECK(job.now().told<Go>(index)->nodes == 3);
    CHECK(job.now().told<Go>(index)->world == 6);
    CHECK(job.now().told<Go>(index)->offset == 2 * index);
  }
  for (const unsigned index : {3U, 4U}) {
    REQUIRE(job.now().told<Go>(index));
    CHECK_FALSE(job.rank(index));
    CHECK(word(job.now().roster.nodes()[index].state) == "spare");
  }
}

TEST_CASE("only a node that has not come back is lost because it refuses connections", "[link]") {
  SparesStory job;
  const auto come = [&](unsigned index) {
    Hello hello = hello_with_spares(index);
    hello.listen_port = 1000 + index;
    job.now().arrive(index, hello);
  };
  for (const unsigned index : {1U, 2U, 3U, 4U}) come(index);
  job.launch();
  const auto leave = [&](const Roster::Disconnect& how) {
    return job.now().roster.disconnected(1, job.now().now, how);
  };
  CHECK_FALSE(leave({}));
  come(1);
  CHECK_FALSE(leave({.ended_by = EndedBy::rst}));  // a firewall may have sent RST, and refuse too
  come(1);
  const auto listener = leave({.ended_by = EndedBy::fin});
  REQUIRE(listener);
  CHECK(listener->address == "10.0.0.1");
  CHECK(listener->port == 1001);
  const bool comes_back = GENERATE(false, true);
  if (comes_back) come(1);
  job.now().roster.refused_connection(*listener, job.now().now);
  job.now().pass(0s);
  CHECK(job.starts_again() != comes_back);
}

TEST_CASE("when all have succeeded they may leave, though a spare was lost in silence", "[link]") {
  SparesStory job;
  job.run({1, 2, 3, 4});
  for (const unsigned index : {1U, 2U, 3U, 4U}) job.now().say(index, Heard{1});
  job.now().leave(4, {});
  job.now().pass(11s);
  for (const unsigned index : {1U, 2U, 3U}) job.now().say(index, Heard{job.now().roster.term()});
  for (const unsigned index : {0U, 1U, 2U}) job.now().say(index, Done{});
  REQUIRE(job.now().told<End>(0));
  for (const unsigned index : {1U, 2U, 3U}) {
    job.now().leave(index, {.ended_by = EndedBy::rst});
    job.now().pass(0s);
  }
  CHECK_FALSE(job.now().told<Stop>(0));
}

TEST_CASE("10 s after as many are here as train, they start without those that have not come", "[link]") {
  SparesStory job;
  job.come({2, 4});
  job.now().pass(9s);
  CHECK_FALSE(job.now().ready());
  job.now().leave(4);
  job.now().pass(60s);
  CHECK_FALSE(job.now().ready());
  job.come({4});
  CHECK(job.now().waiting() ==
        "waiting for 2 of 5 nodes: node 1, node 3; enough nodes are here to start soon");
  CHECK(job.now().roster.tick(job.now().now) <= job.now().now + 10s);
  job.now().pass(10s);
  job.launch();
  CHECK(job.rank(4) == 1U);
  CHECK(job.now().told<Go>(4)->offset == 2);
}

TEST_CASE("all end well although spares have said nothing, and they are told", "[link]") {
  SparesStory job;
  job.run({1, 2, 3, 4});
  for (const unsigned index : {0U, 1U, 2U}) job.now().say(index, Done{0});
  for (const unsigned index : {0U, 1U, 3U, 4U}) CHECK(job.now().told<End>(index));
  CHECK(in_words(job.now().roster.running()).empty());
}

TEST_CASE("the place of a lost node is a spare's in the next attempt", "[link]") {
  SparesStory job;
  job.run({1, 2, 3, 4});
  job.now().leave(1, {.ended_by = EndedBy::rst});
  job.now().pass(10s);
  CHECK(job.starts_again());
  CHECK(job.now().told<Stop>(3)->again);
  job.run({2, 3, 4});
  CHECK(job.rank(3) == 1U);
  CHECK(job.rank(2) == 2U);
  CHECK_FALSE(job.rank(4));
  CHECK(job.now().roster.nodes()[1].state == Node::State::missing);
}

TEST_CASE("who comes while all end their commands is kept for the next meeting, if there is one", "[link]") {
  SparesStory job;
  job.run({1, 2, 3, 4});
  job.now().say(2, Culprit{.cause = Cause::exited, .code = 1});
  REQUIRE(job.starts_again());
  Hello running = hello_with_spares(1, "another link");
  running.running = true;
  job.now().arrive(200, running);
  CHECK(job.now().closed[200]);
  constexpr ConnectionId first = 201, most = 5 + 64;
  for (ConnectionId id = first; id < first + most; ++id)
    job.now().arrive(id, hello_with_spares(1, "another link"));
  CHECK_FALSE(job.now().closed[first]);
  job.now().leave(first);
  job.now().arrive(first + most, hello_with_spares(1, "another link"));
  CHECK_FALSE(job.now().closed[first + 1]);
  job.now().arrive(first + most + 1, hello_with_spares(1, "another link"));
  CHECK(job.now().closed[first + 1]);  // the oldest
  CHECK_FALSE(job.now().closed[first + 2]);
}

TEST_CASE("a drained node is replaced, as long as there is a spare for each", "[link]") {
  SparesStory job;
  job.run({1, 2, 3, 4});
  job.now().say(1, stopped);
  CHECK(job.starts_again());
  job.now().say(2, stopped);
  CHECK(job.starts_again());
  unsigned gone = 0;
  SECTION("a spare is stopped too") { job.now().say(gone = 4, stopped); }
  SECTION("a spare is lost") {
    job.now().leave(gone = 3, {.ended_by = EndedBy::rst});
    job.now().pass(10s);
  }
  SECTION("node 0 is stopped, too") { job.now().say(0, stopped); }
  CHECK_FALSE(job.starts_again());
  const auto& why = job.now().told<Stop>(2)->not_restarted;
  REQUIRE(why);
  CHECK(why->gone->node == gone);
  CHECK(why->gone->cause == (gone == 3 ? Cause::node_lost : Cause::stop_requested));
  CHECK(why->was_spare == (gone != 0));
}

TEST_CASE("a spare that comes a moment after the launch can replace a node at once", "[link]") {
  SparesStory job;
  job.run({1, 2, 3, 4});
  job.now().say(1, stopped);
  job.run({2, 3});
  CHECK(job.rank(3) == 1U);
  CHECK(job.now().roster.nodes()[4].state == Node::State::spare);
  SECTION("it is about to come") {
    job.now().say(2, stopped);
    CHECK(job.starts_again());
    job.now().pass(10s);
    CHECK_FALSE(job.starts_again());
    const auto& why = job.now().told<Stop>(0)->not_restarted;
    REQUIRE(why);
    CHECK(why->gone->node == 4);
    CHECK(why->gone->cause == Cause::node_lost);
    CHECK(why->was_spare);
  }
  SECTION("it has come") {
    job.come({4});
    job.now().pass(60s);
    job.now().say(2, stopped);
    CHECK(job.starts_again());
    job.run({3, 4});
    CHECK(job.rank(4) == 2U);
  }
  SECTION("it did not come") {
    job.now().pass(10s);
    job.now().say(2, stopped);
    CHECK_FALSE(job.starts_again());
    REQUIRE(job.now().told<Stop>(0)->not_restarted);
    CHECK(job.now().told<Stop>(0)->not_restarted->why == outcome::NotRestarted::Why::no_spare);
  }
}

TEST_CASE("node 0 that is drained is replaced like any other node", "[link]") {
  SparesStory job;
  job.run({1, 2, 3, 4});
  job.now().say(0, stopped);
  REQUIRE(job.now().told<Stop>(1));
  CHECK(job.starts_again());
}

TEST_CASE("a spare that is lost or stopped ends nobody", "[link]") {
  SparesStory job;
  job.run({1, 2, 3, 4});
  job.now().say(3, stopped);
  job.now().say(3, Done{143});
  job.now().leave(3);
  job.now().leave(4, {.ended_by = EndedBy::rst});
  job.now().pass(60s);
  CHECK_FALSE(job.now().told<Stop>(0));
  CHECK(job.now().roster.nodes()[3].state == Node::State::drained);
  CHECK(job.now().roster.nodes()[4].state == Node::State::lost);
  CHECK_FALSE(job.now().roster.awaits_return(job.now().now));
}

TEST_CASE("who comes while the job runs waits as a spare, unless its place is not free", "[link]") {
  SparesStory job;
  job.run({1, 2, 3, 4});
  job.now().leave(4, {.ended_by = EndedBy::rst});
  job.now().arrive(14, hello_with_spares(4, "anew"));
  REQUIRE(job.now().told<Go>(14));
  CHECK_FALSE(job.now().told<Go>(14)->rank);
  job.now().arrive(13, hello_with_spares(3, "twice"));
  CHECK(job.now().closed[13]);
  job.now().arrive(12, hello_with_spares(2, "twice"));
  CHECK(job.now().closed[12]);
  job.now().pass(60s);
  CHECK_FALSE(job.now().told<Stop>(0));
  for (const unsigned index : {0U, 1U, 2U}) job.now().say(index, Done{0});
  CHECK(job.now().told<End>(14));
}

TEST_CASE("a node that cannot join is done without, as long as enough are left", "[link]") {
  SparesStory job;
  Hello wrong = hello_with_spares(1);
  wrong.failure = Culprit{.cause = Cause::configuration, .code = 78};
  job.come({2, 3, 4});
  job.now().arrive(1, wrong);
  job.launch();
  CHECK(job.rank(3) == 1U);
  SparesStory without;
  for (const unsigned index : {1U, 2U, 3U}) {
    Hello bad = hello_with_spares(index);
    bad.failure = Culprit{.cause = Cause::configuration, .code = 78};
    without.now().arrive(index, bad);
  }
  CHECK(without.now().refusal(0).find("node 3") != std::string::npos);
}

TEST_CASE("a node that fails twice in a row is replaced by a spare", "[link]") {
  SparesStory job;
  for (int failures = 0; failures < 2; ++failures) {
    job.run({1, 2, 3, 4});
    CHECK(job.rank(2) == 2U);
    job.now().say(2, Culprit{.rank = 4, .code = 1});
    CHECK(job.starts_again());
  }
  job.run({1, 2, 3, 4});
  CHECK_FALSE(job.rank(2));
  CHECK(job.rank(3) == 2U);
  CHECK(job.members->history().front().why == "put aside");
}

TEST_CASE("a lost spare is not to blame, and a node 0 that loses all is", "[link]") {
  for (const bool loses_all : {false, true}) {
    SparesStory job;
    job.run({1, 2, 3, 4});
    for (const unsigned index : {3U, 4U}) job.now().leave(index);
    job.now().pass(1s);
    job.now().leave(1);
    if (loses_all) job.now().leave(2);
    job.now().pass(10s);
    REQUIRE(job.now().told<Stop>(0));
    CHECK(job.now().told<Stop>(0)->culprit.node == (loses_all ? 0 : 1));
  }
}

TEST_CASE("a node is not cut off because the last spare is lost, which had replaced another", "[link]") {
  SparesStory job;
  job.members = std::make_shared<Members>(5, 3);
  const bool was_stopped = GENERATE(false, true);
  job.meet();
  job.come(was_stopped ? std::vector{1U, 2U} : std::vector{1U});
  job.now().pass(10s);
  job.launch();
  if (was_stopped) job.now().say(2, stopped), job.now().leave(2);
  job.now().pass(60s);
  job.now().leave(1);
  job.now().pass(10s);
  REQUIRE(job.now().told<Stop>(0));
  CHECK(job.now().told<Stop>(0)->culprit.node == 1);
}

TEST_CASE("a node that is lost while all meet again is done without, if there are enough", "[link]") {
  SparesStory job;
  job.run({1, 2, 3, 4});
  job.now().leave(1, {.ended_by = EndedBy::rst});
  job.now().pass(10s);
  job.meet();
  SECTION("before anybody else has come") {
    job.come({3, 4});
    CHECK_FALSE(job.now().ready());
    job.now().pass(9s);
    CHECK_FALSE(job.now().ready());
    job.now().pass(1s);
    job.launch();
    CHECK(job.rank(4) == 2U);
  }
  SECTION("after it has come") {
    job.come({2, 3});
    job.now().leave(2);
    job.now().pass(60s);
    CHECK_FALSE(job.now().ready());
    job.come({4});
    job.now().pass(10s);
    job.launch();
    CHECK(job.rank(4) == 2U);
  }
  SECTION("it was a spare") {
    job.come({2, 3});
    job.now().leave(3);
    CHECK_FALSE(job.now().ready());
    job.come({4});
    job.launch();
    CHECK(job.rank(4) == 1U);
  }
  CHECK(job.rank(3) == (job.rank(4) == 1U ? std::nullopt : std::optional(1U)));
}

TEST_CASE("a spare that has got a rank is a node like all others", "[link]") {
  SparesStory job;
  job.run({1, 2, 3, 4});
  job.now().leave(1, {.ended_by = EndedBy::rst});
  job.now().pass(10s);
  job.run({2, 3, 4});
  REQUIRE(job.rank(3) == 1U);
  job.now().leave(3, {.ended_by = EndedBy::rst});
  job.now().pass(10s);
  REQUIRE(job.now().told<Stop>(2));
  CHECK(job.now().told<Stop>(2)->culprit.node == 3);
  CHECK(job.starts_again());
  job.run({2, 4});
  CHECK(job.rank(4) == 1U);
  CHECK(job.rank(2) == 2U);
  const auto history = job.members->history();
  REQUIRE(history.size() == 3);
  CHECK((history[0].index == 1 && history[1].index == 3 && history[2].index == 4));
}

TEST_CASE("with fewer spares than holes the others wait for a node to come", "[link]") {
  SparesStory job;
  job.run({1, 2, 3, 4});
  for (const unsigned index : {1U, 2U}) job.now().leave(index, {.ended_by = EndedBy::rst});
  job.now().pass(10s);
  job.meet();
  job.come({3});
  job.now().roster.give_up_at(job.now().now + 120s);
  job.now().pass(60s);
  CHECK_FALSE(job.now().ready());
  SECTION("a lost node's new pod gets its own rank") {
    job.now().arrive(2, hello_with_spares(2, "anew"));
    job.now().pass(10s);
    job.launch();
    CHECK(job.rank(2) == 2U);
    CHECK(job.rank(3) == 1U);
  }
  SECTION("nobody comes") {
    job.now().pass(60s);
    CHECK(job.now().refusal(3) == "3 of 5 nodes did not join in time: node 1, node 2, node 4");
    CHECK(job.now().told<Refuse>(0)->cause == Cause::unreachable);
  }
}

TEST_CASE("a lost spare that comes back can replace a node again", "[link]") {
  SparesStory job;
  job.run({1, 2, 3, 4});
  for (const unsigned index : {3U, 4U}) job.now().leave(index);
  job.now().pass(10s);
  CHECK(job.now().roster.nodes()[4].state == Node::State::lost);
  job.come({4});
  CHECK(job.now().roster.nodes()[4].state == Node::State::spare);
  job.now().say(1, stopped);
  CHECK(job.starts_again());
}

TEST_CASE("node 0 does not wait at the end for a spare that was stopped", "[link]") {
  SparesStory job;
  job.run({1, 2, 3, 4});
  job.now().say(3, stopped);
  job.now().say(3, Done{143});
  job.now().leave(3, {.ended_by = EndedBy::rst});
  CHECK_FALSE(job.now().roster.awaits_return(job.now().now));
}

TEST_CASE("who comes while the job runs is told why it is not let in", "[link][attack]") {
  struct Case {
    const char* name;
    void (*change)(Hello&);
    const char* refusal;
  };
  const Case cases[] = {
      {"no node of this job", [](Hello& hello) { hello.rank = 5; },
       "the job has started without node 5 (host-5)"},
      {"another number of spares", [](Hello& hello) { hello.spares = 1; },
       "the job has started without node 4 (host-4)"},
      {"another job", [](Hello& hello) { hello.run = "another"; },
       "the job has started without node 4 (host-4)"},
      {"node 0 once more", [](Hello& hello) { hello.rank = 0; },
       "the job has started without node 0 (host-0)"},
      {"it says that it runs", [](Hello& hello) { hello.running = true; }, ""},
      {"a node that trains", [](Hello& hello) { hello.rank = 2; }, ""},
      {"the spare that is here", [](Hello& hello) { hello.rank = 3; }, ""},
  };
  for (const Case& c : cases) {
    CAPTURE(c.name);
    SparesStory job;
    job.run({1, 2, 3, 4});
    job.now().leave(4, {.ended_by = EndedBy::rst});
    Hello hello = hello_with_spares(4, "anew");
    c.change(hello);
    hello.host = "host-" + std::to_string(hello.rank);
    job.now().arrive(14, hello);
    CHECK(job.now().closed[14]);
    CHECK(job.now().refusal(14) == c.refusal);
    CHECK_FALSE(job.now().told<Go>(14));
    job.now().pass(60s);
    CHECK_FALSE(job.now().told<Stop>(0));
  }
}

TEST_CASE("a new pod that cannot join is no spare", "[link]") {
  SparesStory job;
  job.run({1, 2, 3, 4});
  for (const unsigned index : {3U, 4U}) job.now().leave(index, {.ended_by = EndedBy::rst});
  job.now().pass(10s);
  Hello wrong = hello_with_spares(4, "anew");
  wrong.failure = Culprit{.cause = Cause::configuration, .code = 78};
  job.now().arrive(14, wrong);
  job.now().say(14, *wrong.failure);
  CHECK_FALSE(job.now().told<Stop>(0));
  job.now().say(1, stopped);
  CHECK_FALSE(job.starts_again());
}

TEST_CASE("how many restarts were not counted is what the nodes know that were there", "[link]") {
  SparesStory job;
  Hello hello = hello_with_spares(1);
  hello.restarts = 4;
  hello.uncounted = 3;
  job.now().arrive(1, hello);
  hello = hello_with_spares(2);
  hello.uncounted = 4'294'967'295;
  job.now().arrive(2, hello);
  job.come({3, 4});
  job.launch();
  CHECK(job.now().told<Go>(0)->attempt == 4);
  CHECK(job.now().told<Go>(0)->uncounted == 4);
}

TEST_CASE("no message of a spare counts as a worker's", "[link][attack]") {
  SparesStory job;
  job.run({1, 2, 3, 4});
  const Look question = job.now().roster.ask(true);
  job.now().say(3, Looked{.number = question.number, .worker = {.pid = 70}});
  job.now().say(3, Culprit{.rank = 0, .code = 3});
  job.now().say(4, Done{3});
  job.now().pass(60s);
  CHECK_FALSE(job.now().told<Stop>(0));
  CHECK(job.now().roster.take_looks().empty());
}

}  // namespace
}  // namespace rankshim::link
