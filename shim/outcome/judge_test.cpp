#include "outcome/judge.h"

#include <catch2/catch.hpp>
#include <csignal>

#include "base/fault.h"
#include "outcome/wording.h"

namespace rankshim::outcome {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int terminated = exit_code::signal_base + SIGTERM;

/// A job of one worker a node, whose evidence a test writes down, by seconds after the launch.
struct Story {
  Evidence evidence;

  explicit Story(unsigned nodes) {
    for (unsigned rank = 0; rank < nodes; ++rank)
      evidence.nodes.push_back({.host = "host-" + std::to_string(rank),
                                .address = "10.0.0." + std::to_string(rank),
                                .workers = {{.rank = rank}}});
  }
  Time at(int second) const { return evidence.launched + seconds(second); }
  Story& fail(unsigned node, int second, Cause cause, std::string text = "", std::string peer = "") {
    NodeEvidence& one = evidence.nodes[node];
    const unsigned rank = one.workers.front().rank;
    one.failure = Culprit{.rank = rank,
                          .cause = cause,
                          .code = 1,
                          .text = std::move(text),
                          .node = node,
                          .host = one.host,
                          .peer = std::move(peer)};
    one.failed = at(second);
    return end(rank, second, 1);
  }
  /// By NCCL's watchdog, or by itself.
  Story& abort(unsigned node, int second) {
    fail(node, second, Cause::peer_lost);
    Culprit& failure = *evidence.nodes[node].failure;
    failure.code = exit_code::signal_base + SIGABRT;
    failure.signal = SIGABRT;
    return end(*failure.rank, second, failure.code);
  }
  /// Torch has found that its collective differs from another rank's.
  Story& differ(unsigned node, unsigned other, int second) {
    fail(node, second, Cause::exception, "differs from " + std::to_string(other));
    evidence.nodes[node].failure->ranks = {{other, other}};
    return *this;
  }
  /// A worker of the node fails after that.
  Story& fail_then(unsigned node, unsigned rank, int second, std::string text) {
    evidence.nodes[node].further =
        Culprit{.rank = rank, .cause = Cause::exception, .code = 1, .text = std::move(text), .node = node};
    return end(rank, second, 1);
  }
  Story& end(unsigned rank, int second, int code) {
    for (NodeEvidence& node : evidence.nodes)
      for (WorkerEvidence& worker : node.workers)
        if (worker.rank == rank) {
          worker.code = code;
          worker.ended = at(second);
        }
    return *this;
  }
  Story& lose(unsigned node, int second = 5, Loss::Then then = Loss::Then::unknown) {
    evidence.nodes[node].lost = Loss{.then = then};
    evidence.nodes[node].lost_since = at(second);
    return *this;
  }
  Story& stay_away(unsigned node) {
    evidence.nodes[node].took_part = false;
    return lose(node, 60);
  }
  Story& silence(unsigned node) {
    evidence.nodes[node].is_silent = true;
    evidence.nodes[node].workers.clear();
    return *this;
  }
  /// Its worker runs and is seen, in a group of `world` ranks.
  Story& see(unsigned rank, unsigned world, std::uint64_t entered, std::uint64_t ended, unsigned line) {
    for (NodeEvidence& node : evidence.nodes)
      for (WorkerEvidence& worker : node.workers)
        if (worker.rank == rank)
          worker.look = {.rank = rank,
                         .state = 'S',
                         .stack = {{"/app/train.py", line, "<module>"}},
                         .groups = {{.name = "0",
                                     .description = "default_pg",
                                     .members = {{0, world - 1}},
                                     .entered = entered,
                                     .ended = ended,
                                     .operation = "all_reduce"}}};
    return *this;
  }
  /// Its failure's traceback says where it waited.
  Story& wait_in(unsigned node, const std::string& call, unsigned line) {
    Hang hang;
    hang.waits_at = {.line = {"/app/train.py", line, "<module>"}, .call = call};
    hang.timeout = 1'800'000;
    evidence.nodes[node].failure->hang = hang;
    return *this;
  }
  Story& worker_waited(unsigned rank, const std::string& call, unsigned line) {
    Hang hang;
    hang.waits_at = {.line = {"/app/train.py", line, "<module>"}, .call = call};
    for (NodeEvidence& node : evidence.nodes)
      for (WorkerEvidence& worker : node.workers)
        if (worker.rank == rank) worker.waited = hang;
    return *this;
  }
  Story& outvote() {
    evidence.is_outvoted = true;
    return *this;
  }
  Story& sleep(int second) {
    evidence.slept = seconds(second);
    return *this;
  }
  Story& add_worker(unsigned node, unsigned rank) {
    evidence.nodes[node].workers.push_back({.rank = rank});
    return *this;
  }
  Culprit judge() const {
    const auto culprit = outcome::judge(evidence);
    REQUIRE(culprit);
    return *culprit;
  }
};

struct Row {
  std::string name;
  Story story;
  unsigned node;
  Cause cause;
  std::optional<unsigned> rank;
  std::string text;
};

}  // namespace

TEST_CASE("the culprit is named, never a victim") {
  const auto row = GENERATE(values<Row>({
      {"an exception before its victims",
       Story(3).fail(2, 5, Cause::exception, "ValueError: x").fail(0, 6, Cause::peer_lost), 2,
       Cause::exception, 2, "ValueError: x"},
      {"an exception after its victims",
       Story(3)
           .fail(0, 5, Cause::timed_out)
           .fail(1, 6, Cause::peer_lost)
           .fail(2, 9, Cause::exception, "late"),
       2, Cause::exception, 2, "late"},
      {"the one whose collective differs from all others, though it raises last",
       Story(3).differ(0, 1, 5).differ(2, 1, 6).differ(1, 0, 7), 1, Cause::exception, 1, "differs from 0"},
      {"of two whose collectives differ the first to raise", Story(2).differ(1, 0, 5).differ(0, 1, 6), 1,
       Cause::exception, 1, "differs from 0"},
      {"one that no rank with this number says, because it is a group's, the first to raise",
       Story(3).differ(2, 1, 5).fail(0, 6, Cause::peer_lost), 2, Cause::exception, 2, "differs from 1"},
      {"a failure of another kind before ranks that differ",
       Story(3).differ(0, 1, 5).differ(1, 0, 6).fail(2, 7, Cause::out_of_memory, "a"), 2,
       Cause::out_of_memory, 2, "a"},
      {"of two failures the first",
       Story(3).fail(2, 5, Cause::exception, "b").fail(1, 4, Cause::out_of_memory, "a"), 1,
       Cause::out_of_memory, 1, "a"},
      {"an exception after the end of a victim of the same node",
       Story(2)
           .add_worker(1, 2)
           .fail(1, 5, Cause::peer_lost)
           .fail_then(1, 2, 6, "ValueError: x")
           .fail(0, 6, Cause::timed_out),
       1, Cause::exception, 2, "ValueError: x"},
      {"what a lost node causes elsewhere",
       Story(3).add_worker(1, 3).lose(2).fail(1, 5, Cause::peer_lost).fail_then(1, 3, 6, "RuntimeError: odd"),
       2, Cause::node_lost, std::nullopt, "its connection ended, and ranks 1 and 3 lost their peer"},
      {"a drained node and its consequences",
       Story(3)
           .fail(0, 4, Cause::peer_lost)
           .fail(1, 5, Cause::stop_requested, "SIGTERM")
           .fail(2, 5, Cause::peer_lost),
       1, Cause::stop_requested, 1, "SIGTERM"},
      {"a lost node whose loss was known before another node failed by itself",
       Story(3).lose(1, 5).fail(2, 6, Cause::exception, "ValueError: x"), 2, Cause::exception, 2,
       "ValueError: x"},
      {"a lone node's worker that sleeps",
       Story(1).add_worker(0, 1).add_worker(0, 2).fail(0, 60, Cause::timed_out).end(2, 61, 1), 0, Cause::hang,
       1, "rank 1 is still running; ranks 0 and 2 timed out waiting for it"},
      {"a lone node's worker that exited 0 early",
       Story(1).add_worker(0, 1).end(1, 312, 0).fail(0, 313, Cause::peer_lost), 0, Cause::exited_early, 1,
       "rank 1 exited 0 after 5 min 12 s while rank 0 still waited for it: it ran fewer iterations"},
      {"a lone node's worker that raised before the others noticed",
       Story(1).add_worker(0, 1).fail(0, 5, Cause::exception, "ValueError: x").end(1, 6, 1), 0,
       Cause::exception, 0, "ValueError: x"},
      {"a rank that sleeps", Story(3).fail(0, 60, Cause::timed_out).fail(2, 61, Cause::peer_lost), 1,
       Cause::hang, 1, "rank 1 is still running; ranks 0 and 2 timed out waiting for it"},
      {"a rank that sleeps, of two", Story(2).fail(0, 60, Cause::timed_out), 1, Cause::hang, 1,
       "rank 1 is still running; rank 0 timed out waiting for it"},
      {"a peer that closed the connection and runs may have left, or a network may have failed",
       Story(4).fail(0, 60, Cause::peer_lost, "lost", "10.0.0.3"), 0, Cause::peer_lost, 0, "lost"},
      {"a rank that exited 0 early",
       Story(3).end(1, 312, 0).fail(0, 313, Cause::peer_lost).fail(2, 314, Cause::peer_lost), 1,
       Cause::exited_early, 1,
       "rank 1 exited 0 after 5 min 12 s while ranks 0 and 2 still waited for it: it ran fewer iterations"},
      {"one that waits while another exited 0 early", Story(3).end(1, 312, 0).fail(0, 313, Cause::peer_lost),
       1, Cause::exited_early, 1,
       "rank 1 exited 0 after 5 min 12 s while rank 0 still waited for it: it ran fewer iterations"},
      {"one that exited 0 after its victims failed is no reason",
       Story(3).fail(0, 60, Cause::timed_out).fail(2, 61, Cause::timed_out).end(1, 62, 0), 0,
       Cause::timed_out, 0, ""},
      {"a lost node", Story(3).fail(0, 5, Cause::peer_lost).lose(2), 2, Cause::node_lost, std::nullopt,
       "its connection ended, and rank 0 lost its peer"},
      {"of two lost nodes the first", Story(4).lose(1, 6).lose(2, 5), 2, Cause::node_lost, std::nullopt,
       "its connection ended"},
      {"node 0 did not run while the others went away", Story(2).lose(1).sleep(62), 0, Cause::node_lost,
       std::nullopt, "its rankshim was suspended for 1 min 2 s"},
      {"a node that does not answer, while another still waits",
       Story(3).fail(0, 60, Cause::timed_out).silence(1), 1, Cause::node_lost, std::nullopt,
       "its rankshim does not answer, and rank 0 lost its peer"},
      {"of many that do not answer it may be any",
       Story(4).fail(0, 60, Cause::timed_out).silence(1).silence(2).silence(3), 0, Cause::timed_out, 0, ""},
      {"so many spares are lost that they may train without node 0", Story(4).lose(3).outvote(), 0,
       Cause::node_lost, std::nullopt,
       "the connections to more than half of all nodes ended: look at this node's own network"},
      {"all other nodes are lost: node 0's own network", Story(3).lose(1).lose(2), 0, Cause::node_lost,
       std::nullopt, "the connections to all 2 other nodes ended: look at this node's own network"},
      {"all other nodes are lost, but the kernel of one has refused a connection",
       Story(3).lose(1).lose(2, 6, Loss::Then::not_listening), 1, Cause::node_lost, std::nullopt,
       "its connection ended"},
      {"all other nodes are lost, but one has a new container",
       Story(3).lose(1, 6).lose(2, 5, Loss::Then::restarted), 2, Cause::node_lost, std::nullopt,
       "its connection ended, and it was restarted"},
      {"the only other node, beside a spare that has not come", Story(3).lose(1).stay_away(2), 1,
       Cause::node_lost, std::nullopt, "its connection ended"},
      {"the other node of two", Story(2).lose(1), 1, Cause::node_lost, std::nullopt, "its connection ended"},
      {"nobody but victims", Story(2).fail(1, 5, Cause::peer_lost).fail(0, 6, Cause::peer_lost), 1,
       Cause::peer_lost, 1, ""},
      {"most ranks still run: it may be any of them", Story(8).fail(3, 60, Cause::timed_out), 3,
       Cause::timed_out, 3, ""},
      {"a victim whose peer is on its own node knows best",
       Story(3)
           .fail(0, 5, Cause::peer_lost)
           .fail(1, 6, Cause::peer_lost, "", "10.0.0.1")
           .fail(2, 6, Cause::peer_lost),
       1, Cause::peer_lost, 1, ""},
      {"a rank that its launcher killed because its neighbour timed out",
       Story(2)
           .add_worker(0, 8)
           .fail(0, 60, Cause::timed_out)
           .fail(1, 60, Cause::timed_out)
           .end(8, 61, terminated),
       0, Cause::hang, 8, "rank 8 was still running; ranks 0-1 timed out waiting for it"},
      {"of several that their launchers killed it may be any",
       Story(2)
           .add_worker(0, 2)
           .add_worker(1, 3)
           .fail(0, 60, Cause::timed_out)
           .fail(1, 60, Cause::timed_out)
           .end(2, 61, terminated)
           .end(3, 61, terminated),
       0, Cause::timed_out, 0, ""},
      {"one that runs comes before those that their launchers killed",
       Story(3)
           .add_worker(0, 3)
           .fail(0, 60, Cause::timed_out)
           .fail(2, 60, Cause::timed_out)
           .end(3, 61, terminated),
       1, Cause::hang, 1, "rank 1 is still running; ranks 0 and 2 timed out waiting for it"},
  }));
  INFO(row.name);
  const Culprit culprit = row.story.judge();
  CHECK(culprit.node == row.node);
  CHECK(culprit.cause == row.cause);
  CHECK(culprit.rank == row.rank);
  const bool is_told = culprit.cause == Cause::exception || (culprit.ranks.empty() && !culprit.loss);
  CHECK((is_told ? culprit.text : what_happened(culprit)) == row.text);
}

TEST_CASE("where the workers were looked at, their lines of code are told") {
  struct SeenRow {
    std::string name;
    Story story;
    std::string words;
  };
  const auto row = GENERATE(values<SeenRow>({
      {"a rank that sleeps",
       Story(3)
           .fail(0, 60, Cause::timed_out)
           .fail(2, 61, Cause::peer_lost)
           .wait_in(0, "all_reduce", 37)
           .see(1, 3, 20, 20, 26),
       "node 1 (host-1) hung: rank 1 is in train.py:26; ranks 0 and 2 waited in all_reduce (train.py:37) "
       "until their timeout of 30 min"},
      {"most ranks still wait, and the numbers show who is missing",
       Story(4)
           .fail(3, 60, Cause::timed_out)
           .see(0, 4, 21, 20, 37)
           .see(1, 4, 21, 20, 37)
           .see(2, 4, 20, 20, 26),
       "node 2 (host-2) hung: rank 2 is in train.py:26; ranks 0-1 and 3 waited in all_reduce (train.py:37) "
       "until their timeout"},
      {"most ranks still wait, and nobody is missing",
       Story(3).fail(2, 60, Cause::timed_out).see(0, 3, 21, 20, 37).see(1, 3, 21, 20, 37),
       "the job hung: ranks 0-2 waited in all_reduce (train.py:37) (number 21 of default_pg), and no rank is "
       "missing: a GPU or the network is stuck"},
      {"NCCL's watchdog has aborted all but the one that hangs",
       Story(3).abort(0, 60).abort(2, 60).see(1, 3, 20, 20, 26),
       "node 1 (host-1) hung: rank 1 is in train.py:26; ranks 0 and 2 waited until their timeout"},
      {"one aborts for a fault of its own, and another is slow",
       Story(3).abort(0, 60).see(1, 3, 20, 20, 26).see(2, 3, 21, 20, 37),
       "node 0 (host-0) lost a peer: rank 0 was killed by SIGABRT"},
      {"two abort, and the others look so by waiting for them",
       Story(4).abort(0, 60).abort(1, 60).see(2, 4, 21, 20, 37).see(3, 4, 21, 20, 37),
       "node 0 (host-0) lost a peer: rank 0 was killed by SIGABRT"},
      {"two abort, and one that runs could not be looked at", Story(3).abort(0, 60).abort(2, 60),
       "node 0 (host-0) lost a peer: rank 0 was killed by SIGABRT"},
      {"one that runs could not be looked at",
       Story(4).fail(0, 60, Cause::timed_out).fail(3, 60, Cause::timed_out).see(1, 4, 20, 20, 26),
       "node 1 (host-1) hung: ranks 1-2 are still running; ranks 0 and 3 timed out waiting for them"},
      {"one that its launcher has killed since",
       Story(2)
           .add_worker(0, 2)
           .fail(0, 60, Cause::timed_out)
           .fail(1, 60, Cause::timed_out)
           .see(2, 3, 20, 20, 26)
           .end(2, 61, terminated),
       "node 0 (host-0) hung: rank 2 was in train.py:26; ranks 0-1 waited until their timeout"},
      {"one was looked at when it had timed out itself, and was ending",
       Story(2)
           .add_worker(0, 2)
           .add_worker(1, 3)
           .fail(0, 60, Cause::timed_out)
           .see(2, 4, 20, 20, 12)
           .end(2, 60, 1)
           .fail(1, 60, Cause::timed_out)
           .see(3, 4, 20, 20, 26)
           .end(3, 61, terminated),
       "node 1 (host-1) hung: rank 3 was in train.py:26; ranks 0-2 waited until their timeout"},
      {"one was killed when it had timed out itself, and was ending",
       Story(1)
           .add_worker(0, 1)
           .add_worker(0, 2)
           .fail(0, 60, Cause::timed_out)
           .wait_in(0, "all_reduce", 38)
           .see(2, 3, 21, 20, 38)
           .end(2, 61, terminated)
           .worker_waited(2, "all_reduce", 38)
           .see(1, 3, 20, 20, 26)
           .end(1, 61, terminated),
       "node 0 (host-0) hung: rank 1 was in train.py:26; ranks 0 and 2 waited in all_reduce (train.py:38) "
       "until "
       "their timeout of 30 min"},
      {"a rank that exited 0 early",
       Story(3)
           .end(1, 312, 0)
           .fail(0, 313, Cause::peer_lost)
           .fail(2, 314, Cause::peer_lost)
           .wait_in(0, "all_reduce", 38),
       "node 1 (host-1) exited early: rank 1 exited 0 after 5 min 12 s while ranks 0 and 2 still waited for "
       "it "
       "in all_reduce (train.py:38): it ran fewer iterations"},
      {"all have failed in two collectives",
       Story(3)
           .fail(0, 60, Cause::timed_out)
           .fail(1, 60, Cause::timed_out)
           .fail(2, 60, Cause::peer_lost)
           .wait_in(0, "all_reduce", 38)
           .wait_in(1, "broadcast", 37)
           .wait_in(2, "all_reduce", 38),
       "node 1 (host-1) hung: the ranks' collectives do not match: rank 1 was in broadcast (train.py:37), "
       "and "
       "ranks 0 and 2 in all_reduce (train.py:38)"},
      {"two have failed in two collectives",
       Story(2)
           .fail(0, 60, Cause::timed_out)
           .fail(1, 60, Cause::timed_out)
           .wait_in(0, "all_reduce", 38)
           .wait_in(1, "broadcast", 37),
       "the job hung: the ranks' collectives do not match: ranks 0-1 were in broadcast (train.py:37) and in "
       "all_reduce (train.py:38)"},
      {"several have failed on one node, each in its own collective",
       Story(1)
           .add_worker(0, 1)
           .add_worker(0, 2)
           .fail(0, 60, Cause::timed_out)
           .end(1, 60, 1)
           .end(2, 60, 1)
           .wait_in(0, "all_reduce", 38)
           .worker_waited(1, "all_gather", 24)
           .worker_waited(2, "all_reduce", 38),
       "node 0 (host-0) hung: the ranks' collectives do not match: rank 1 was in all_gather (train.py:24), "
       "and ranks 0 and 2 in all_reduce (train.py:38)"},
      {"of three collectives none is more frequent",
       Story(3)
           .fail(0, 60, Cause::timed_out)
           .fail(1, 60, Cause::timed_out)
           .fail(2, 60, Cause::timed_out)
           .wait_in(0, "all_reduce", 38)
           .wait_in(1, "broadcast", 37)
           .wait_in(2, "barrier", 39),
       "the job hung: the ranks' collectives do not match: ranks 0-2 were in broadcast (train.py:37), in 1 "
       "more and in all_reduce (train.py:38)"},
      {"one has failed in a receive, the others in a collective",
       Story(3)
           .fail(0, 60, Cause::timed_out)
           .fail(1, 60, Cause::timed_out)
           .fail(2, 60, Cause::timed_out)
           .wait_in(0, "all_reduce", 18)
           .wait_in(1, "all_reduce", 18)
           .wait_in(2, "recv", 17),
       "node 2 (host-2) hung: rank 2 was in train.py:17, which called recv; ranks 0-1 waited in all_reduce "
       "(train.py:18) until their timeout of 30 min"},
      {"all have failed in a send",
       Story(2)
           .fail(0, 60, Cause::timed_out)
           .fail(1, 60, Cause::timed_out)
           .wait_in(0, "send", 18)
           .wait_in(1, "send", 18),
       "the job hung: ranks 0-1 waited in send (train.py:18) for each other, so their sends and receives do "
       "not match"},
      {"one victim's exception, and looks at two that were in another collective then",
       Story(1)
           .add_worker(0, 1)
           .add_worker(0, 2)
           .fail(0, 60, Cause::timed_out)
           .wait_in(0, "barrier", 18)
           .see(1, 3, 21, 20, 37)
           .see(2, 3, 21, 20, 37)
           .end(1, 60, 1)
           .end(2, 60, 1),
       "node 0 (host-0) hung: the ranks' collectives do not match (number 21 of default_pg): rank 0 was in "
       "barrier (train.py:18), and ranks 1-2 in all_reduce (train.py:37)"},
      {"all have failed in the same collective",
       Story(2)
           .fail(0, 60, Cause::timed_out)
           .fail(1, 61, Cause::peer_lost)
           .wait_in(0, "all_reduce", 38)
           .wait_in(1, "all_reduce", 38),
       "node 0 (host-0) timed out waiting for its peers: rank 0 exited with code 1"},
  }));
  INFO(row.name);
  CHECK(in_words(row.story.judge()) == row.words);
}

TEST_CASE("several ranks that hang are named together") {
  Story story(3);
  story.add_worker(1, 3).fail(0, 60, Cause::timed_out).fail(2, 60, Cause::timed_out);
  const Culprit culprit = story.judge();
  CHECK(culprit.node == 1);
  CHECK(culprit.rank == std::nullopt);
  CHECK(culprit.ranks == std::vector<RankRange>{{1, 1}, {3, 3}});
  CHECK(culprit.victims == std::vector<RankRange>{{0, 0}, {2, 2}});
  CHECK(what_happened(culprit) ==
        "ranks 1 and 3 are still running; ranks 0 and 2 timed out waiting for them");
}

TEST_CASE("a node that has lost the hub blames its own failure, its own sleep, or the hub") {
  HubLoss evidence{.node = 2,
                   .host = "c",
                   .hub = 0,
                   .hub_host = "a",
                   .loss = {.then = Loss::Then::not_reached, .within = seconds(10)}};
  CHECK(in_words(judge_hub_loss(evidence)) ==
        "node 0 (a) was lost: its connection ended, and it could not be made again within 10 s");
  evidence.slept = seconds(62);
  CHECK(in_words(judge_hub_loss(evidence)) ==
        "node 2 (c) was lost: its rankshim was suspended for 1 min 2 s, and the connection could not be made "
        "again");
  evidence.failure = Culprit{.rank = 2, .cause = Cause::peer_lost, .code = 1, .node = 2, .host = "c"};
  CHECK(judge_hub_loss(evidence).cause == Cause::node_lost);
  evidence.failure->cause = Cause::exception;
  CHECK(in_words(judge_hub_loss(evidence)) == "node 2 (c) failed: rank 2 exited with code 1");
}

TEST_CASE("nobody is to blame where nobody failed") {
  CHECK(judge(Story(3).evidence) == std::nullopt);
  CHECK(judge(Story(3).end(0, 5, 0).evidence) == std::nullopt);
}

}  // namespace rankshim::outcome
