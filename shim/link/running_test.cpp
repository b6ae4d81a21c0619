#include <fcntl.h>
#include <sys/socket.h>

#include <csignal>
#include <filesystem>

#include "link/test_job.h"

/// What happens from the launch on; the meeting is in meeting_test.cpp.

namespace rankshim::link {
namespace {

using namespace std::chrono_literals;
namespace asio = boost::asio;
using test::RawClient;
using test::Relay;
using test::TestJob;

TEST_CASE("linked nodes sleep", "[link]") {
  TestJob job;
  job.all_launch();
  job.io.poll();
  CHECK(job.io.run_one_for(600ms) == 0);  // longer than every wait of the meeting
}

TEST_CASE("a failure is told to all others, and the culprit's node keeps its own end", "[link]") {
  TestJob job;
  job.all_launch();
  job.links[1]->report_failure({.rank = 3, .cause = Cause::signalled, .code = 137, .signal = 9});
  REQUIRE(job.told(0));
  REQUIRE(job.told(2));
  CHECK(in_words(job.stops[2]->culprit) == "node 1 (host-1) failed: rank 3 was killed by SIGKILL");
  CHECK_FALSE(job.stops[1]);
  for (unsigned rank = 0; rank < 3; ++rank) job.end(rank, rank == 1 ? 137 : 143);
  REQUIRE(job.run_until([&] { return job.ended[0] && job.ended[1] && job.ended[2]; }));
  CHECK(job.ended[0]->stop->culprit.node == 1);
  CHECK(job.ended[2]->stop->culprit.node == 1);
  CHECK(job.links[0]->nodes()[1].done->code == 137);
}

TEST_CASE("two failures are both known to node 0", "[link]") {
  TestJob job;
  job.all_launch();
  job.links[1]->report_failure({.rank = 2, .code = 1, .text = "one"});
  job.links[2]->report_failure({.rank = 4, .code = 1, .text = "two"});
  REQUIRE(job.told(0));
  for (unsigned rank = 0; rank < 3; ++rank) job.end(rank, 1);
  REQUIRE(job.run_until([&] { return job.ended[0].has_value(); }));
  const std::vector<Node> nodes = job.links[0]->nodes();
  CHECK(nodes[1].failure->text == "one");
  CHECK(nodes[2].failure->text == "two");
}

TEST_CASE("node 0's own failure is told", "[link]") {
  TestJob job;
  job.all_launch();
  job.end(0, 3);
  REQUIRE(job.told(1));
  CHECK(in_words(job.stops[1]->culprit) == "node 0 (host-0) failed: its command exited with code 3");
  CHECK_FALSE(job.stops[0]);
}

TEST_CASE("a drained node is told of as such", "[link]") {
  TestJob job;
  job.all_launch();
  job.links[2]->report_stop(15);
  REQUIRE(job.told(0));
  REQUIRE(job.told(1));
  CHECK(job.stops[1]->drained());
  CHECK(in_words(job.stops[1]->culprit) == "node 2 (host-2) was stopped (SIGTERM)");
}

TEST_CASE("a node that has succeeded learns of a failure while it waits", "[link]") {
  TestJob job;
  job.all_launch();
  job.end(1, 0);
  job.io.poll();
  job.links[2]->report_failure({.rank = 4, .code = 1});
  REQUIRE(job.run_until([&] { return job.ended[1].has_value(); }));
  CHECK(job.ended[1]->stop->culprit.node == 2);
}

TEST_CASE("a node that succeeded may leave, and the others go on", "[link]") {
  for (const unsigned leaver : {0U, 1U}) {
    TestJob job;
    job.all_launch();
    asio::co_spawn(job.io, job.links[leaver]->leave({.code = 0}), [&](const std::exception_ptr& thrown) {
      if (!thrown) job.ended[leaver] = test::Ended{job.links[leaver]->stop()};
    });
    REQUIRE(job.run_until([&] { return job.ended[leaver].has_value(); }));
    job.links[leaver].reset();
    for (const unsigned rank : {2U, 1U - leaver}) job.end(rank, 0);
    REQUIRE(job.run_until([&] { return job.ended[2] && job.ended[1 - leaver]; }));
    for (unsigned rank = 0; rank < 3; ++rank) {
      CHECK_FALSE(job.ended[rank]->stop);
      CHECK_FALSE(job.stops[rank]);
    }
  }
}

TEST_CASE("a node that vanishes is lost, and ends all", "[link]") {
  TestJob job;
  job.all_launch();
  job.links[1].reset();
  REQUIRE(job.told(0));
  REQUIRE(job.told(2));
  CHECK(in_words(job.stops[2]->culprit) ==
        "node 1 (host-1) was lost: its connection ended, and it did not reconnect within 1 s");
}

TEST_CASE("node 0's loss is seen by all", "[link]") {
  TestJob job;
  job.all_launch();
  job.end(1, 0);  // it waits already
  job.links[0].reset();
  REQUIRE(job.told(2));
  REQUIRE(job.run_until([&] { return job.ended[1].has_value(); }));
  CHECK(job.ended[1]->stop->lost());
  CHECK(in_words(job.stops[2]->culprit).starts_with("node 0 (host-0) was lost: its connection ended"));
}

TEST_CASE("node 0 is lost at once where a worker has lost its peer, and nobody listens there any more",
          "[link]") {
  const bool is_worker_first = GENERATE(true, false);
  TestJob job;
  for (Options& options : job.options) options.rules.relink = options.rules.ended = 1000s;
  job.all_launch();
  const auto fail = [&] {
    job.links[1]->report_failure({.rank = 2, .cause = Cause::peer_lost, .code = 1});
    job.links[2]->report_failure(
        {.rank = 4, .cause = Cause::exception, .code = 1});  // says nothing of node 0
  };
  if (is_worker_first) fail();
  job.links[0].reset();
  if (!is_worker_first) fail();
  REQUIRE(job.told(1));
  CHECK(in_words(*job.stops[1]) ==
        "node 0 (host-0) was lost: its connection ended, and it could not be made again: port closed "
        "(connection refused)");
  job.io.run_for(300ms);
  CHECK_FALSE(job.stops[2]);
}

TEST_CASE("a lost connection is made again, harms nothing, and loses nothing", "[link]") {
  for (const bool with_token : {false, true}) {
    TestJob job;
    Relay relay(job);
    for (Options& options : job.options)
      if (with_token) options.token = Key("the token of this job");
    job.options[1].master.port = relay.number();
    job.options[1].self.port = job.port.number();
    job.all_launch();
    relay.cut();
    job.links[1]->report_failure({.rank = 2, .code = 1, .text = "told while there was no connection"});
    REQUIRE(job.told(2));
    CHECK(in_words(job.stops[2]->culprit) ==
          "node 1 (host-1) failed: rank 2 exited with code 1: told while there was no connection");
  }
  TestJob job;
  Relay relay(job);
  job.options[1].master.port = relay.number();
  job.options[1].self.port = job.port.number();
  job.all_launch();
  relay.cut();
  REQUIRE(job.run_until([&] { return !job.links[0]->nodes()[1].connection; }));
  REQUIRE(job.run_until([&] { return job.links[0]->nodes()[1].connection.has_value(); }));
  for (unsigned rank = 0; rank < 3; ++rank) job.end(rank, 0);
  REQUIRE(job.run_until([&] { return job.ended[0] && job.ended[1] && job.ended[2]; }));
  CHECK_FALSE(job.ended[1]->stop);
}

TEST_CASE("a node that failed waits for node 0's word even where the network is silent", "[link]") {
  TestJob job;
  Relay relay(job);
  for (Options& options : job.options) options.rules.decide = [](Stop& stop) { stop.again = true; };
  job.options[1].master.port = relay.number();
  job.options[1].self.port = job.port.number();
  job.all_launch();
  relay.hold();
  job.links[1]->report_failure({.rank = 2, .code = 3});
  job.end(1, 3);
  job.io.run_for(job.options[1].rules.relink * 3 / 2);
  REQUIRE_FALSE(job.ended[1]);
  relay.let_go();
  REQUIRE(job.told(2));
  CHECK(job.stops[2]->again);
  for (const unsigned rank : {0U, 2U}) job.end(rank, 143);
  REQUIRE(job.run_until([&] { return job.ended[0].has_value(); }));
  job.links[0].reset();  // it meets the others again
  REQUIRE(job.run_until([&] { return job.ended[1].has_value(); }));
  CHECK(job.ended[1]->stop->again);
}

TEST_CASE("a stop that node 0 does not hear, because it has just closed to start again, is known", "[link]") {
  for (const bool hears : {true, false}) {
    TestJob job;
    for (Options& options : job.options) options.rules.decide = [](Stop& stop) { stop.again = true; };
    job.all_launch();
    job.links[1]->report_failure({.rank = 2, .code = 1});
    REQUIRE(job.told(2));
    for (unsigned rank = 0; rank < (hears ? 2U : 3U); ++rank) job.end(rank, 1);
    if (!hears) {
      REQUIRE(job.run_until([&] { return job.ended[0].has_value(); }));
      job.links[0].reset();  // it meets the others again
      REQUIRE(job.run_until([&] { return job.ended[2].has_value(); }));
      job.ended[2].reset();
    }
    job.links[2]->report_stop(SIGTERM);
    job.end(2, 1);
    REQUIRE(job.run_until([&] { return job.ended[2].has_value(); }));
    CHECK(job.ended[2]->stop->again != hears);
  }
}

TEST_CASE("a silent connection does not keep node 0 from starting again", "[link][attack]") {
  TestJob job;
  for (Options& options : job.options) {
    options.rules.decide = [](Stop& stop) { stop.again = true; };
    options.timing.hello = options.timing.end = 1000s;
  }
  job.start(0);
  job.io.poll();
  const RawClient silent(job);
  for (const unsigned rank : {1U, 2U}) job.start(rank);
  REQUIRE(job.all_met());
  job.links[1]->report_failure({.rank = 2, .code = 1});
  for (unsigned rank = 0; rank < 3; ++rank) job.end(rank, 1);
  CHECK(job.run_until([&] { return job.ended[0].has_value(); }));
}

TEST_CASE("a node 0 that is only stopped is not waited for longer than all may need to end",
          "[link][attack]") {
  TestJob job;
  for (Options& options : job.options) options.rules.decide = [](Stop& stop) { stop.again = true; };
  job.options[1].timing.end = 300ms;
  job.all_launch();
  job.links[2]->report_failure({.rank = 4, .code = 1});
  REQUIRE(job.told(1));
  job.end(1, 143);  // node 0 never says that it has ended
  REQUIRE(job.run_until([&] { return job.ended[1].has_value(); }));
  CHECK(job.ended[1]->stop->again);
}

TEST_CASE("that all start again counts only for a node that may be started again", "[link][attack]") {
  TestJob job;
  job.options[0].rules.decide = [](Stop& stop) { stop.again = true; };
  job.all_launch();
  job.links[2]->report_failure({.rank = 4, .code = 1});
  REQUIRE(job.told(1));
  job.end(1, 143);
  REQUIRE(job.run_until([&] { return job.ended[1].has_value(); }));
  CHECK_FALSE(job.ended[1]->stop->again);
}

TEST_CASE("a node that failed and loses node 0 decides itself, and says that it failed", "[link]") {
  TestJob job;
  job.options[1].rules.decide = [](Stop& stop) { stop.again = true; };
  job.all_launch();
  job.links[0].reset();
  job.links[1]->report_failure({.rank = 2, .code = 3});
  job.end(1, 3);
  REQUIRE(job.run_until([&] { return job.ended[1].has_value(); }));
  REQUIRE(job.ended[1]->stop);
  CHECK(job.ended[1]->stop->again);
  CHECK(in_words(job.ended[1]->stop->culprit) == "node 1 (host-1) failed: rank 2 exited with code 3");
}

TEST_CASE("a node whose worker lost its peer waits for the cause, and does not name itself", "[link]") {
  for (const bool loses_node_0 : {false, true}) {
    TestJob job;
    job.all_launch();
    job.links[1]->report_failure({.rank = 2, .cause = Cause::peer_lost, .code = 1});
    job.end(1, 1);
    job.io.poll();
    if (loses_node_0)
      job.links[0].reset();
    else
      job.links[2]->report_failure({.rank = 4, .cause = Cause::exception, .code = 1});
    REQUIRE(job.run_until([&] { return job.ended[1].has_value(); }));
    REQUIRE(job.ended[1]->stop);
    CHECK(job.ended[1]->stop->culprit.node == (loses_node_0 ? 0 : 2));
    CHECK(job.ended[1]->stop->lost() == loses_node_0);
  }
}

TEST_CASE("the limit of open files is what it was once node 0's link is gone", "[link]") {
  rlimit before{}, after{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit low{100, before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_NOFILE, &low) == 0);
  {
    TestJob job;
    job.all_launch();
    CHECK(job.links[0]->inherited_limit()->rlim_cur == 100);
  }
  CHECK(getrlimit(RLIMIT_NOFILE, &after) == 0);
  CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(after.rlim_cur == 100);
}

TEST_CASE("the command inherits no socket of the link", "[link]") {
  TestJob job;
  job.all_launch();
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int descriptor = std::stoi(entry.path().filename().string());
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    if (getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &size) != 0) continue;
    if (address.ss_family != AF_INET && address.ss_family != AF_INET6) continue;
    if (descriptor == job.port.acceptor.native_handle()) continue;
    if (descriptor == job.second_port.acceptor.native_handle()) continue;
    CHECK((fcntl(descriptor, F_GETFD) & FD_CLOEXEC) != 0);
  }
}

TEST_CASE("node 0 answers the others, who ask it now and then", "[link]") {
  TestJob job;
  Relay relay(job);
  job.options[1].master.port = relay.number();
  job.options[1].self.port = job.port.number();
  job.options[1].timeout = 60ms;
  job.all_launch();
  const std::size_t before = relay.passed;
  CHECK(
      job.run_until([&] { return relay.passed > before + 200; }));  // bytes: of some 20 questions and answers
  CHECK_FALSE(job.stops[1]);
  const std::weak_ptr<Link> link = std::exchange(job.links[1], nullptr);
  CHECK(link.expired());  // a job that is started again has one for each attempt
}

/// A node 0 that is stopped once it has said this.
struct SilentHub {
  SilentHub(TestJob& to, const std::vector<Message>& words) : job(to), acceptor(to.io), socket(to.io) {
    REQUIRE_FALSE(open_listener(acceptor, job.port.number(), 16));
    said = greeting;
    for (const Message& word : words) said += to_text(word) + "\n";
    acceptor.async_accept(socket, [this](boost::system::error_code error) {
      if (error) return;
      asio::write(socket, asio::buffer(said));
      read();
    });
  }
  void read() {
    socket.async_read_some(asio::buffer(buffer), [this](boost::system::error_code error, std::size_t size) {
      heard.append(buffer.data(), size);
      if (!error) read();
    });
  }
  [[nodiscard]] bool was_asked(unsigned times) const {
    std::size_t at = 0;
    while (times > 0 && (at = heard.find("ping {}", at)) != std::string::npos) --times, ++at;
    return times == 0;
  }
  TestJob& job;
  tcp::acceptor acceptor;
  tcp::socket socket;
  std::array<char, 4096> buffer{};
  std::string said, heard;
};

TEST_CASE("a node 0 whose rankshim is stopped is lost, whatever its kernel answers", "[link]") {
  for (const bool pings : {true, false}) {
    TestJob job(2);
    SilentHub hub(job,
                  {Welcome{.instance = "hub", .host = "host-0", .pings = pings ? 20U : 0U}, Go{.world = 4}});
    job.options[1].timeout = 60ms;
    job.options[1].rules.relink = 10ms;
    job.start(1);
    REQUIRE(job.run_until([&] { return job.met[1].has_value(); }));
    job.links[1]->on_stop([&](const Stop& stop) { job.stops[1] = stop; });
    if (pings) {
      REQUIRE(job.told(1));
      CHECK(in_words(job.stops[1]->culprit)
                .starts_with("node 0 (host-0) was lost: its rankshim has not answered for "));
    } else {  // of an older version
      REQUIRE(job.run_until([&] { return hub.was_asked(5); }));
      CHECK_FALSE(job.stops[1]);
    }
  }
}

TEST_CASE("node 0 ends when a node that had lost its connection knows why", "[link]") {
  TestJob job(2);
  job.options[0].timing.farewell = 1ms;
  job.options[0].rules.relink = 100'000ms;
  job.start(0);
  job.io.poll();
  Hello hello = job.options[1].self;
  hello.port = job.port.number();
  hello.instance = "node 1";
  const std::string words = std::string(greeting) + to_text(hello) + "\n";
  std::string received;
  {
    RawClient node(job);
    node.write(words);
    bool closed = false;
    node.read(closed);
    REQUIRE(job.run_until([&] { return node.received.find("go {") != std::string::npos; }));
    received = node.received;
    node.socket.close();
    REQUIRE(job.run_until([&] { return !job.links[0]->nodes()[1].connection; }));
  }
  job.end(0, 3);
  job.io.run_for(50ms);
  CHECK_FALSE(job.ended[0]);
  CHECK(job.links[0]->waiting().find("node 1 (host-1)") != std::string::npos);
  RawClient back(job, first_number<std::uint16_t>(received.substr(received.find("\"port\":") + 7)).value());
  back.write(words);
  bool closed = false;
  back.read(closed);
  REQUIRE(job.run_until([&] { return back.received.find("stop {") != std::string::npos; }));
  CHECK(job.run_until([&] { return job.ended[0].has_value(); }));
}

}  // namespace
TEST_CASE("node 0 gets what the workers do only where that is wanted, and else their numbers alone",
          "[link]") {
  TestJob job;
  job.all_launch();
  for (const auto& link : job.links)
    link->on_look([](bool full) -> asio::awaitable<Observation> {
      Observation observation{.workers = {{.local_rank = 0, .entered = 7, .ended = 6}}, .looks = {}};
      observation.looks[0].groups.resize(20);
      if (full) observation.looks[0].stack = {{"train.py", 26, "step"}};
      co_return observation;
    });
  const auto look = [&](bool full) {
    bool over = false;
    asio::co_spawn(job.io, job.links[0]->look({.full = full}),
                   [&](const std::exception_ptr&) { over = true; });
    REQUIRE(job.run_until([&] { return over; }));
  };
  look(false);
  for (const Node& node : job.links[0]->nodes()) {
    CHECK(node.seen.at(0).entered == 7);
    CHECK(node.looks.empty());
  }
  look(true);
  const auto looks = job.links[0]->take_looks();
  REQUIRE(looks.size() == 3);
  for (const auto& one : looks) {
    CHECK(one.groups.size() == 20);
    CHECK(one.stack.size() == 1);
  }
}

}  // namespace rankshim::link
