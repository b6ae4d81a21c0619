#include "link/wording.h"

#include <catch2/catch.hpp>

namespace rankshim::link {
namespace {

const NodeName first{0, "a", ""};
const NodeName other{2, "c", "10.0.0.3"};

TEST_CASE("each problem has its sentence", "[link]") {
  struct Case {
    Problem problem;
    std::string sentence;
  };
  const Case cases[] = {
      {{.kind = ProblemKind::differs,
        .agreed = Agreed::spares,
        .node = other,
        .other = first,
        .theirs = "1",
        .ours = ""},
       "node 2 (c, 10.0.0.3) has --spares 1, node 0 (a) has none; set RANKSHIM_SPARES to the same on all "
       "nodes"},
      {{.kind = ProblemKind::token_missing, .node = other},
       "node 2 (c, 10.0.0.3) has no token, and the job has one; set --job-token-file on all nodes"},
      {{.kind = ProblemKind::token_unexpected, .node = other},
       "node 2 (c, 10.0.0.3) has a token, and node 0 has none; set --job-token-file on all nodes"},
      {{.kind = ProblemKind::token_unproven, .node = other},
       "node 2 (c, 10.0.0.3) did not prove that it knows the job's token (--job-token-file)"},
      {{.kind = ProblemKind::hub_without_token, .node = first},
       "node 0 (a) has no job token, but this node does; set --job-token-file on all nodes"},
      {{.kind = ProblemKind::other_token, .node = first},
       "node 0 (a) has another token, or belongs to another job; give all nodes the same --job-token-file"},
      {{.kind = ProblemKind::version},
       "the rankshim of node 0 speaks another version of the link: use the same release on all nodes"},
      {{.kind = ProblemKind::version, .addresses = {"10.0.0.3"}, .number = 1},
       "the rankshim at 10.0.0.3 speaks another version of the link: use the same release on all nodes"},
      {{.kind = ProblemKind::attempt_unknown, .node = first},
       "node 0 (a) does not know of the job's last attempt: it was restarted, or was cut off"},
      {{.kind = ProblemKind::too_late, .node = other}, "the job has started without node 2 (c, 10.0.0.3)"},
      {{.kind = ProblemKind::failed,
        .culprit = Culprit{.cause = Cause::exited, .code = 3, .node = 2, .host = "c"}},
       "node 2 (c) failed: its command exited with code 3"},
      {{.kind = ProblemKind::itself}, "it is this node itself"},
      {{.kind = ProblemKind::impossible_hub, .node = NodeName{7, "", ""}, .most = 4},
       "a rankshim answers there as node 7, but the job has 4 nodes"},
      {{.kind = ProblemKind::hub_restarted, .node = first}, "node 0 (a) was restarted"},
      {{.kind = ProblemKind::not_the_hub, .node = first}, "node 0 (a) does not coordinate the job"},
      {{.kind = ProblemKind::another_hub, .node = first}, "node 0 (a) coordinates the job"},
      {{.kind = ProblemKind::port_in_use, .detail = "python (pid 7)", .number = 29500},
       "node 0 cannot listen on the master's port 29500, which python (pid 7) holds: end that process, or "
       "set "
       "RANKSHIM_MASTER_PORT on all nodes"},
      {{.kind = ProblemKind::port_in_use, .number = 29500},
       "node 0 cannot listen on the master's port 29500, which is in use: end that process, or set "
       "RANKSHIM_MASTER_PORT on all nodes"},
      {{.kind = ProblemKind::port_not_free, .number = 29500},
       "the master's port 29500 cannot be bound while connections of it are open"},
      {{.kind = ProblemKind::store_clients, .addresses = {"10.0.0.3", "10.0.0.4"}, .number = 5},
       "a node without rankshim, or without its link, came to the master's port: 10.0.0.3, 10.0.0.4, and 3 "
       "more"},
      {{.kind = ProblemKind::nodes_missing}, "not all nodes joined in time"},
      {{.kind = ProblemKind::no_connection, .probe = wait::PortProbe{.state = wait::PortState::closed}},
       "port closed (connection refused)"},
      {{.kind = ProblemKind::no_answer}, "the port accepts the connection and does not answer"},
      {{.kind = ProblemKind::hangs_up}, "the port accepts and closes the connection"},
      {{.kind = ProblemKind::store_there}, "torch's store answers there"},
      {{.kind = ProblemKind::other_there}, "something other than rankshim or torch's store listens there"},
      {{.kind = ProblemKind::unproven_hub,
        .addresses = {"10.0.0.9"},
        .because = {{.kind = ProblemKind::hub_restarted, .node = first}}},
       "the rankshim at 10.0.0.9 answers without the job's token: node 0 (a) was restarted"},
      {{.kind = ProblemKind::connection_ended, .closed = Closed::by_other}, "the other side closed it"},
      {{.kind = ProblemKind::connection_ended,
        .detail = "Connection reset by peer",
        .closed = Closed::by_system},
       "Connection reset by peer"},
      {{.kind = ProblemKind::connection_ended, .closed = Closed::over}, "it is not needed any longer"},
      {{.kind = ProblemKind::refused, .detail = "Too many open files"}, "Too many open files"},
  };
  for (const Case& c : cases) CHECK(in_words(c.problem) == c.sentence);
}

TEST_CASE("a problem of which nothing is known is shown all the same", "[link][attack]") {
  for (auto kind = ProblemKind::differs; kind <= ProblemKind::connection_ended;
       kind = static_cast<ProblemKind>(static_cast<int>(kind) + 1))
    if (kind != ProblemKind::refused) CHECK_FALSE(in_words(Problem{.kind = kind}).empty());
}

TEST_CASE("a node that has not met the hub says what it knows of it", "[link]") {
  using Of = HubNotMet::State;
  const Problem closed{.kind = ProblemKind::connection_ended, .closed = Closed::by_other};
  const Waiting waiting{
      .roll_call = {.nodes = 2, .missing = {{1}, 0}, .silent = {}, .gone = {}, .problems = {}},
      .port = {},
      .running = {}};
  struct Case {
    HubNotMet unmet;
    std::string sentence;
  };
  const Case cases[] = {
      {{.state = Of::not_tried, .master = "a:29500"},
       "node 0 at a:29500 was not contacted, because the timeout had expired"},
      {{.state = Of::not_reached, .master = "a:29500", .last = closed},
       "node 0 at a:29500 was not reached in time: the other side closed it"},
      {{.state = Of::not_reached, .last = closed},
       "the node that coordinates the job was not reached in time: the other side closed it"},
      {{.state = Of::disconnected, .master = "a:29500", .last = closed},
       "node 0 at a:29500 connected and then disconnected: the other side closed it"},
      {{.state = Of::waits, .master = "a:29500"},
       "node 0 at a:29500 was reached, but not all nodes joined in time"},
      {{.state = Of::waits, .master = "a:29500", .waiting = waiting},
       "node 0 at a:29500 was reached, but waiting for 1 of 2 nodes: node 1"},
      {{.state = Of::not_found,
        .last = Problem{.kind = ProblemKind::hub_restarted, .node = first},
        .name =
            wait::Unreachable{
                .host = "a b", .master = "a b:1", .answer = {.status = wait::QueryStatus::bad_name}}},
       "master a b:1: 'a b' is neither a host name nor an address; before: node 0 (a) was restarted"},
  };
  for (const Case& c : cases) CHECK(in_words(Refuse{.hub = c.unmet}) == c.sentence);
}

TEST_CASE("a stop names the culprit and, if that is the hub, why it was not reached again", "[link]") {
  Stop stop{Culprit{.cause = Cause::node_lost,
                    .host = "a",
                    .loss = outcome::Loss{.then = outcome::Loss::Then::not_reached}}};
  stop.unreached = Problem{.kind = ProblemKind::hangs_up};
  CHECK(in_words(stop) ==
        "node 0 (a) was lost: its connection ended, and it could not be made again: the port accepts and "
        "closes the connection");
}

TEST_CASE("nodes wait for others, a pause, a port, or other commands", "[link]") {
  Waiting waiting{.roll_call = {}, .port = {}, .running = {}};
  CHECK(in_words(waiting).empty());
  waiting.roll_call.nodes = 16;
  waiting.roll_call.missing = {{5, 9}, 0};
  waiting.roll_call.gone = {{first, other}, 1};
  CHECK(
      in_words(waiting) ==
      "waiting for 2 of 16 nodes: node 5, node 9; node 0 (a), node 2 (c, 10.0.0.3), and 1 more connected and "
      "then disconnected");
  waiting.what = WaitingFor::pause;
  CHECK(in_words(waiting) ==
        "all nodes are here; the start is delayed because the last attempts failed early");
  waiting.what = WaitingFor::silent_end;
  waiting.roll_call.is_enough = true;
  CHECK(in_words(waiting) ==
        "enough nodes are here; they start once the command of a node that fell silent must have ended");
  waiting.what = WaitingFor::port;
  waiting.port = Problem{.kind = ProblemKind::port_in_use, .number = 7};
  CHECK(in_words(waiting) == "waiting for the master's port 7, which is in use");
  waiting.what = WaitingFor::ends;
  CHECK(in_words(waiting).empty());
  waiting.running = {{first}, 2};
  CHECK(in_words(waiting) == "waiting for 3 of 16 nodes, which still run: node 0 (a), and 2 more");
  waiting.hub = 1;
  waiting.what = WaitingFor::all_ended;
  CHECK(in_words(waiting) == "waiting for node 1 to say that all nodes have ended");
  waiting.what = WaitingFor::verdict;
  CHECK(in_words(waiting) == "waiting for node 1 to say what ends the job");
  waiting.what = WaitingFor::restart;
  CHECK(in_words(waiting) == "waiting for node 1, which is stopping its processes before the restart");
  waiting.what = WaitingFor::all_told;
  CHECK(in_words(waiting) == "waiting until all nodes know how the job ends");
}

}  // namespace
}  // namespace rankshim::link
