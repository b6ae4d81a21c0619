#include "link/roster.h"

#include "link/test_roster.h"

/// The meeting; what comes after it is in roster_running_test.cpp.

namespace rankshim::link {
namespace {

using namespace std::chrono_literals;
using test::hello_of;
using test::stopped;
using test::Story;

TEST_CASE("all come, and each is told its ranks", "[link]") {
  Hello own = hello_of(0);
  own.workers = 4;
  Story story(own);
  CHECK_FALSE(story.ready());
  story.arrive(2);
  CHECK(story.waiting() == "waiting for 1 of 3 nodes: node 1");
  story.all_launch();
  CHECK(story.told<Go>(0)->offset == 0);
  CHECK(story.told<Go>(1)->offset == 4);
  CHECK(story.told<Go>(2)->offset == 6);
  CHECK(story.told<Go>(2)->world == 8);
}

TEST_CASE("before another attempt all wait together until its pause, or a silent node's command, is over",
          "[link]") {
  const bool is_for_silent = GENERATE(false, true);
  const Time start(1090s);
  Roster::Rules rules;
  (is_for_silent ? rules.silent_ended_by : rules.earliest) = start;
  Story story(hello_of(0), rules);
  story.arrive(1);
  story.arrive(2);
  CHECK_FALSE(story.ready());
  const Time began = story.now;
  story.pass(5s);
  CHECK(story.waiting(2).starts_with(
      is_for_silent ? "all nodes are here; they start once the command of a node that fell silent"
                    : "all nodes are here; the start is delayed"));
  story.last.clear();
  story.pass(29s);
  CHECK(story.last.empty());
  story.pass(1s);
  CHECK(story.told<Waiting>(1));
  CHECK_FALSE(story.ready());
  story.pass(std::chrono::duration_cast<std::chrono::milliseconds>(start - began) - 35s);
  CHECK(story.ready());
}

TEST_CASE("of many missing nodes the first ten are named", "[link]") {
  const Story story(hello_of(0, 64));
  CHECK(story.waiting() ==
        "waiting for 63 of 64 nodes: node 1, node 2, node 3, node 4, node 5, node 6, node 7, "
        "node 8, node 9, node 10, and 53 more");
}

TEST_CASE("who is missing is told to all who wait, every 30 s", "[link]") {
  Story story;
  story.arrive(2);
  story.pass(4900ms);
  CHECK(story.last.empty());
  story.pass(200ms);
  REQUIRE(story.told<Waiting>(2));
  CHECK(story.waiting(2) == "waiting for 1 of 3 nodes: node 1");
  CHECK(story.told<Waiting>(0));
  story.last.clear();
  story.pass(29s);
  CHECK(story.last.empty());
  story.pass(1s);
  CHECK(story.told<Waiting>(2));
  story.roster.give_up_at(story.now);
  story.pass(0ms);
  CHECK(story.told<Refuse>(2)->cause == Cause::unreachable);
  CHECK(story.refusal(2) == "1 of 3 nodes did not join in time: node 1");
  CHECK(story.refusal(0) == story.refusal(2));
}

TEST_CASE("nobody is called missing while node 0 waits for its port", "[link]") {
  const Time began(1000s);
  Roster roster(hello_of(0), {}, began);
  CHECK(roster.tick(began + 60s) == Time::max());
  CHECK(roster.take_outgoing().empty());
  roster.listens(began + 60s);
  CHECK(roster.tick(began + 60s) == began + 65s);
  roster.tick(began + 65s);
  CHECK(roster.take_outgoing().size() == 1);
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
       "node 3 (host-2, 10.0.0.2) is out of range: 3 nodes have the ranks 0 to 2; set "
       "RANKSHIM_NODE_RANK"},
      {"node 0 twice", [](Hello& hello) { hello.rank = 0; },
       "two nodes have the rank 0: node 0 (host-0) and node 0 (host-2, 10.0.0.2); set a "
       "different RANKSHIM_NODE_RANK on "
       "each"},
      {"nnodes", [](Hello& hello) { hello.nnodes = 2; },
       "node 2 (host-2, 10.0.0.2) has nnodes 2, node 0 (host-0) has 3; set RANKSHIM_NNODES to the "
       "same on all "
       "nodes"},
      {"more nnodes", [](Hello& hello) { hello.nnodes = 8; },
       "node 2 (host-2, 10.0.0.2) has nnodes 8, node 0 (host-0) has 3; set RANKSHIM_NNODES to the "
       "same on all "
       "nodes"},
      {"port", [](Hello& hello) { hello.port = 1; },
       "node 2 (host-2, 10.0.0.2) has master port 1, node 0 (host-0) has 29500; set "
       "RANKSHIM_MASTER_PORT to "
       "the same on all nodes"},
      {"launcher", [](Hello& hello) { hello.launcher = "native"; },
       "node 2 (host-2, 10.0.0.2) has launcher native, node 0 (host-0) has torchrun; set "
       "RANKSHIM_LAUNCHER to "
       "the same on all nodes"},
      {"job restarts", [](Hello& hello) { hello.job_restarts = "3/1h"; },
       "node 2 (host-2, 10.0.0.2) has --job-restarts 3/1h, node 0 (host-0) has none; set "
       "RANKSHIM_JOB_RESTARTS to the same on all nodes"},
      {"more workers than a node can have", [](Hello& hello) { hello.workers = 4'294'967'295; },
       "node 2 (host-2, 10.0.0.2) has 4294967295 workers, and a node has at most 32768; set "
       "RANKSHIM_NPROC_PER_NODE to the same on all nodes"},
      {"more restarts than there may be", [](Hello& hello) { hello.restarts = 4'294'967'295; },
       "node 2 (host-2, 10.0.0.2) says that the job was restarted 4294967295 times, and at most 0 are "
       "allowed; set RANKSHIM_JOB_RESTARTS to the same on all nodes"},
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
    CHECK(story.told<Refuse>(1)->cause == Cause::configuration);
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
      "two nodes have the rank 1: node 1 (impostor, 10.0.0.2) and node 1 (host-1, 10.0.0.3); set a "
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
  CHECK(story.waiting().starts_with("waiting for 2 of 4 nodes: node 2, node 3; two nodes have the rank 1"));
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
  CHECK(story.waiting() == "waiting for 2 of 4 nodes: node 2, node 3");
}

TEST_CASE("three nodes with one rank do not displace each other for ever", "[link]") {
  Story story(hello_of(0, 4));
  for (ConnectionId id = 1; id <= 5; ++id) {
    Hello hello = hello_of(1, 4);
    hello.instance = std::to_string(id % 3);
    story.arrive(id, hello);
  }
  CHECK(story.waiting().find("two nodes have the rank 1") != std::string::npos);
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
        "node 1 (host-1, 10.0.0.9) has attempt 1, node 0 (host-0) has 2; one of them belongs to "
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
    CHECK(story.told<Stranger>(9));
    CHECK(story.closed[9]);
    CHECK(story.refusal(9).find("4711") == std::string::npos);
    const std::string sentence =
        later ? "node 2 (host-2, 10.0.0.9) has attempt 8, node 0 (host-0) has none; one of them "
                "belongs to another attempt of the job"
              : "node 2 (host-2, 10.0.0.9) has run id 8, node 0 has another; the master's "
                "name host-0 leads to another job, or set RANKSHIM_RUN_ID to the same on all nodes";
    CHECK(story.refusal(9) == sentence);
    story.arrive(1, of_the_job(1));  // of three nodes three have come
    story.pass(60s);
    CHECK(story.waiting().ends_with(sentence));
    CHECK(story.refusal(0).empty());
    CHECK(story.refusal(1).empty());
    story.arrive(2, of_the_job(2));
    REQUIRE(story.ready());
    story.roster.launch(story.now);
    story.collect();
    CHECK(story.told<Go>(1));
  }
}

TEST_CASE("a stranger is named where the job's own node of that rank has not come in time", "[link]") {
  for (const unsigned rank : {1U, 2U}) {
    Story story;
    story.arrive(1);
    Hello other = hello_of(rank);
    other.run = "other";
    story.arrive(9, other);
    story.roster.give_up_at(story.now + 60s);
    story.pass(61s);
    const std::string stranger =
        "; node 2 (host-2, 10.0.0.9) has run id other, node 0 has another; the master's name host-0 "
        "leads to another job, or set RANKSHIM_RUN_ID to the same on all nodes";
    for (const ConnectionId id : {0U, 1U}) {
      CHECK(story.told<Refuse>(id)->cause == Cause::unreachable);
      CHECK(story.refusal(id) == "1 of 3 nodes did not join in time: node 2" + (rank == 2 ? stranger : ""));
    }
  }
}

TEST_CASE("of any number of strangers the newest are kept, and the job's own nodes come in",
          "[link][attack]") {
  Story story;
  Hello stranger = hello_of(1);
  stranger.run = "other";
  for (ConnectionId id = 10; id < 110; ++id) story.arrive(id, stranger);
  CHECK(story.closed[109]);
  CHECK(story.waiting().size() < 1000);
  CHECK(story.waiting().find("10.0.0.46)") != std::string::npos);  // of the newest 64 the first
  story.all_launch();
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
  const Problem problem{.kind = ProblemKind::token_missing, .node = NodeName{2, "", ""}};
  const std::string sentence = "node 2 has no token, and the job has one; set --job-token-file on all nodes";
  Story story;
  story.arrive(1);
  story.roster.note_stranger(2, problem);
  story.pass(0ms);
  CHECK(story.waiting(0) == "waiting for 1 of 3 nodes: node 2; " + sentence);
  CHECK(story.told<Waiting>(0)->is_wrong());
  story.roster.give_up_at(story.now);
  story.pass(0ms);
  CHECK(story.refusal(1) == "1 of 3 nodes did not join in time: node 2; " + sentence);
  Story other;
  other.roster.note_stranger(2, problem);
  other.arrive(2);
  other.roster.note_stranger(2, problem);  // of an older connection
  CHECK(other.waiting() == "waiting for 1 of 3 nodes: node 1");
}

TEST_CASE("a node that was here and went away is named among the missing", "[link]") {
  Story story;
  story.arrive(1);
  story.leave(1);
  CHECK(story.waiting() ==
        "waiting for 2 of 3 nodes: node 1, node 2; node 1 (host-1) connected and then disconnected");
  story.arrive(1);
  CHECK(story.waiting() == "waiting for 1 of 3 nodes: node 2");
}

TEST_CASE("a node that gave up a moment before the time is over is none that did not come", "[link]") {
  for (const bool second_came : {false, true}) {
    Story story;
    story.arrive(1);
    if (second_came) story.arrive(2), story.leave(2);
    story.leave(1);
    story.roster.give_up_at(story.now);
    story.pass(0ms);
    CHECK(story.refusal(0) ==
          (second_came ? "not all nodes joined at the same time: node 1 (host-1), node 2 (host-2) "
                         "connected and then disconnected"
                       : "1 of 3 nodes did not join in time: node 2; node 1 (host-1) connected and "
                         "then disconnected"));
  }
}

TEST_CASE("a store's client in the place of a node means a job without a link if that node does not come",
          "[link]") {
  Story story;
  story.roster.store_client("10.0.0.2", story.now);
  story.arrive(1);
  story.pass(9s);
  CHECK(story.refusal(0).empty());
  story.pass(1s);
  CHECK(story.told<Unlinked>(1));
  CHECK(story.refusal(0) ==
        "a node without rankshim, or without its link, came to the master's port: 10.0.0.2");
}

TEST_CASE("a client of another job's store does not end a meeting to which nodes still come", "[link]") {
  Story story;
  story.roster.store_client("10.0.0.9", story.now);
  story.pass(50s);
  CHECK(story.refusal(0).empty());
  story.all_launch();
}

TEST_CASE("a store's client does not matter when all are here", "[link]") {
  Story story;
  story.roster.store_client("10.0.0.9", story.now);
  story.all_launch();
  story.pass(60s);
  CHECK(story.told<Go>(1));
}

TEST_CASE("a node that is stopped while the others still come ends the meeting", "[link]") {
  Story story;
  story.arrive(1);
  story.say(1, stopped);
  for (const ConnectionId id : {0U, 1U}) {
    CHECK(story.refusal(id) == "node 1 (host-1) was stopped (SIGTERM)");
    CHECK(story.told<Refuse>(id)->cause == Cause::peer_lost);
  }
}

TEST_CASE("no job is launched for a last node that comes only to say that it was stopped", "[link]") {
  Story story;
  story.arrive(1);
  Hello last = hello_of(2);
  last.failure = stopped;
  story.arrive(2, last);
  CHECK_FALSE(story.ready());
  for (const ConnectionId id : {0U, 1U, 2U})
    CHECK(story.refusal(id) == "node 2 (host-2) was stopped (SIGTERM)");
}

TEST_CASE("a node that cannot join ends the meeting, and all name it", "[link]") {
  const Culprit failure{.cause = Cause::exited, .code = 127, .text = "neither python3 nor python is in PATH"};
  struct Case {
    const char* name;
    void (*change)(Hello&);
  };
  const Case cases[] = {
      {"it has said who it is", nullptr},
      {"it comes only for that", [](Hello&) {}},
      {"what it knows does not fit to the job", [](Hello& hello) { hello.launcher = "", hello.workers = 0; }},
  };
  for (const Case& c : cases) {
    CAPTURE(c.name);
    Story story;
    story.arrive(2);
    Hello hello = hello_of(1);
    if (c.change != nullptr) c.change(hello), hello.failure = failure;
    story.arrive(1, hello);
    if (c.change == nullptr) story.say(1, failure);
    CHECK_FALSE(story.ready());
    for (const ConnectionId id : {0U, 1U, 2U}) {
      REQUIRE(story.told<Refuse>(id));
      CHECK(story.told<Refuse>(id)->cause == Cause::peer_lost);
      CHECK(story.refusal(id) == "node 1 (host-1) failed: neither python3 nor python is in PATH");
      CHECK(story.told<Refuse>(id)->culprit->code == 127);
    }
    CHECK(story.roster.nodes()[1].state == Node::State::failed);
  }
}

TEST_CASE("a node of another job that cannot join there ends nothing here", "[link]") {
  Story story;
  Hello other = hello_of(1);
  other.run = "other", other.failure = Culprit{.cause = Cause::exited, .code = 127};
  story.arrive(9, other);
  CHECK(story.closed[9]);
  story.arrive(1), story.arrive(2);
  CHECK(story.ready());
}

TEST_CASE("a failure of a node of another job with the same run id ends nothing here", "[link]") {
  struct Case {
    const char* name;
    void (*change)(Hello&);
  };
  const Case cases[] = {
      {"another number of nodes", [](Hello& hello) { hello.nnodes = 99; }},
      {"another port", [](Hello& hello) { hello.port = 1; }},
  };
  for (const Case& c : cases) {
    CAPTURE(c.name);
    Story story;
    Hello other = hello_of(1);
    c.change(other);
    other.instance = "another", other.failure = Culprit{.cause = Cause::exited, .code = 127};
    story.arrive(9, other);
    CHECK(story.refusal(0).empty());
    story.leave(9);
    story.all_launch();
  }
}

TEST_CASE("a node that comes after the meeting has ended is told how it ended", "[link]") {
  Story story;
  story.arrive(1);
  story.say(myself, stopped);
  CHECK_FALSE(story.roster.all_came());
  story.arrive(2);
  CHECK(story.refusal(2) == "node 0 (host-0) was stopped (SIGTERM)");
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
  CHECK(story.told<Unlinked>(7));
  CHECK(story.closed[7]);
  story.pass(60s);
  CHECK(story.refusal(1).empty());
  story.arrive(2);
  CHECK(story.ready());
}

TEST_CASE("all nodes make the attempt that the one which knows of most restarts makes", "[link]") {
  for (const std::string allowed : {"4", "1/1h"}) {
    Hello own = hello_of(0), second = hello_of(1), third = hello_of(2);
    for (Hello* const hello : {&own, &second, &third}) hello->job_restarts = allowed;
    Story story(own);
    second.restarts = 4;
    story.arrive(1, second), story.arrive(2, third);
    REQUIRE(story.ready());
    story.roster.launch(story.now);
    story.collect();
    for (const ConnectionId id : {0U, 1U, 2U}) CHECK(story.told<Go>(id)->attempt == 4);
  }
}

TEST_CASE("a node whose command still runs is not here for the next attempt", "[link]") {
  Story story;
  story.arrive(1);
  Hello running = hello_of(2);
  running.running = true;
  story.arrive(2, running);
  CHECK(story.closed[2]);
  CHECK(story.refusal(2).empty());
  CHECK_FALSE(story.ready());
  story.arrive(3, hello_of(2));
  CHECK(story.ready());
}

}  // namespace
}  // namespace rankshim::link
