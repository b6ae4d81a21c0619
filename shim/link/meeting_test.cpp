#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <csignal>
#include <thread>

#include "base/fault.h"
#include "link/test_job.h"

/// What happens before the launch; what comes after it is in running_test.cpp.

namespace rankshim::link {
namespace {

using namespace std::chrono_literals;
namespace asio = boost::asio;
using test::RawClient;
using test::Relay;
using test::TestJob;

TEST_CASE("three nodes meet, launch at once, and end well together", "[link]") {
  for (const bool with_token : {false, true}) {
    TestJob job;
    for (Options& options : job.options)
      if (with_token) options.token = Key("the token of this job");
    job.options[1].self.workers = 4;
    job.all_launch();
    CHECK(std::get<Go>(*job.met[0]).offset == 0);
    CHECK(std::get<Go>(*job.met[2]).offset == 6);
    CHECK(std::get<Go>(*job.met[2]).world == 8);
    CHECK(job.links[0]->nodes()[2].hello.host == "host-2");
    CHECK(job.links[0]->nodes()[2].hello.seen == "127.0.0.1");
    // The job's store can have the port.
    tcp::acceptor store(job.io);
    CHECK_FALSE(open_listener(store, job.port.number(), 1));
    job.end(1, 0);
    job.end(0, 0);
    CHECK_FALSE(job.ended[1]);
    job.end(2, 0);
    REQUIRE(job.run_until([&] { return job.ended[0] && job.ended[1] && job.ended[2]; }));
    for (const auto& end : job.ended) CHECK_FALSE(end->stop);
  }
}

TEST_CASE("a refusal is the same on all nodes", "[link]") {
  TestJob job;
  job.options[2].self.launcher = "native";
  job.start_all();
  REQUIRE(job.all_met());
  CHECK(job.refusal(0) ==
        "node 2 (host-2, 127.0.0.1) has launcher native, node 0 (host-0) has torchrun; set "
        "RANKSHIM_LAUNCHER to the same on all nodes");
  CHECK(job.refusal(1) == job.refusal(0));
  CHECK(job.refusal(2) == job.refusal(0));
}

TEST_CASE("a master's name that leads to node 0 by way of another machine is right", "[link]") {
  for (const bool with_token : {false, true}) {
    TestJob job;
    for (Options& options : job.options)
      if (with_token) options.token = Key("the token of this job");
    job.options[0].leads_elsewhere = true;  // a Service's address, which leads here
    job.options[0].addresses = {"127.0.0.1"};
    job.start(0), job.start(1);
    REQUIRE(job.run_until([&] { return job.missing() == 1; }));
    for (int i = 0; i < 20; ++i) job.io.run_one_for(10ms);
    CHECK_FALSE(job.met[0]);
    job.start(2);
    REQUIRE(job.all_met());
    for (const auto& met : job.met) CHECK(std::holds_alternative<Go>(*met));
  }
}

asio::awaitable<void> leave(Link& link) {
  link.report_stop(SIGTERM);
  return link.finish({143});
}

/// A node's meeting that is cancelled, as by a signal.
struct CancelledMeeting {
  CancelledMeeting(TestJob& of, unsigned rank) : job(of) {
    job.links[rank] = Link::make(job.io, job.options[rank]);
    asio::co_spawn(
        job.io, job.links[rank]->meet(now() + 100s),
        asio::bind_cancellation_slot(signal.slot(), [this](const std::exception_ptr& thrown, MeetingResult) {
          cancelled = thrown != nullptr;
        }));
  }
  void cancel() {
    signal.emit(asio::cancellation_type::terminal);
    REQUIRE(job.run_until([this] { return cancelled; }));
  }
  TestJob& job;
  asio::cancellation_signal signal;
  bool cancelled = false;
};

TEST_CASE("a node that leaves the meeting before it has met anybody is named to those that come", "[link]") {
  for (const unsigned leaver : {0U, 1U}) {
    TestJob job;
    job.options[1 - leaver].timing.leave = 100ms;  // it has nobody to tell
    job.options[1 - leaver].timing.late = 100ms;
    job.links[leaver] = Link::make(job.io, job.options[leaver]);
    bool left = false;
    asio::co_spawn(job.io, leave(*job.links[leaver]), [&](const std::exception_ptr&) { left = true; });
    for (int i = 0; i < 20; ++i) job.io.run_one_for(10ms);
    CHECK_FALSE(left);
    job.start(1 - leaver);
    job.start(2);  // all are here then, but do not launch
    REQUIRE(job.run_until([&] { return left && job.met[1 - leaver]; }));
    CHECK(std::get<Refuse>(*job.met[1 - leaver]).cause == Cause::peer_lost);
    CHECK(job.refusal(1 - leaver) ==
          "node " + std::to_string(leaver) + " (host-" + std::to_string(leaver) + ") was stopped (SIGTERM)");
  }
}

TEST_CASE("a meeting that is cancelled can be left", "[link]") {
  for (const bool leads_elsewhere : {false, true}) {
    TestJob job;
    job.options[0].leads_elsewhere = leads_elsewhere;
    CancelledMeeting meeting(job, 0);
    for (int i = 0; i < 5; ++i) job.io.run_one_for(10ms);
    meeting.cancel();
    bool left = false;
    asio::co_spawn(job.io, leave(*job.links[0]), [&](const std::exception_ptr&) { left = true; });
    job.start(1), job.start(2);
    REQUIRE(job.run_until([&] { return left && job.met[1] && job.met[2]; }));
    CHECK(job.refusal(1) == "node 0 (host-0) was stopped (SIGTERM)");
  }
}

TEST_CASE("a node 0 whose master's name leads to one without its token is not refused by that one",
          "[link]") {
  for (const bool with_token : {false, true}) {
    TestJob job;
    if (!with_token) job.options[0].token = Key("the token of another job");
    job.start(0);
    Options asks = job.options[0];
    asks.token.reset();
    if (with_token) asks.token = Key("the token of this job");
    const auto asking = make_peer(job.io, asks);
    std::optional<MeetingResult> met;
    asio::co_spawn(job.io, asking->meet(now() + 100s),
                   [&](const std::exception_ptr&, MeetingResult result) { met = std::move(result); });
    REQUIRE(job.run_until([&] { return met.has_value(); }));
    CHECK(std::holds_alternative<Unlinked>(*met));
    CHECK_FALSE(job.met[0]);
  }
}

TEST_CASE("a node that leaves the meeting is named to those that wait for it", "[link]") {
  for (const unsigned leaver : {0U, 1U}) {
    TestJob job;
    job.options[0].timing.leave = 100ms;  // node 1 is here already, and node 2 never comes
    job.options[0].timing.late = 100ms;
    CancelledMeeting meeting(job, leaver);
    job.start(1 - leaver);
    REQUIRE(job.run_until([&] { return !job.links[1]->waiting().empty() || job.missing() == 1; }));
    meeting.cancel();
    bool left = false;
    asio::co_spawn(job.io, leave(*job.links[leaver]), [&](const std::exception_ptr&) { left = true; });
    REQUIRE(job.run_until([&] { return left && job.met[1 - leaver]; }));
    CHECK(job.refusal(1 - leaver) ==
          "node " + std::to_string(leaver) + " (host-" + std::to_string(leaver) + ") was stopped (SIGTERM)");
    CHECK(std::get<Refuse>(*job.met[1 - leaver]).cause == Cause::peer_lost);
  }
}

TEST_CASE("a node that cannot join tells those that wait, and those that come a moment later", "[link]") {
  for (const unsigned leaver : {0U, 1U}) {
    for (const bool is_first : {false, true}) {
      TestJob job;
      const auto start_others = [&] {
        job.start(1 - leaver);
        job.start(2);
      };
      if (!is_first) start_others();
      if (!is_first) job.io.poll();
      job.options[leaver].timing.leave = 100'000ms;
      job.links[leaver] = Link::make(job.io, job.options[leaver]);
      job.links[leaver]->report_failure({.cause = Cause::exited, .code = 127, .text = "there is no python"});
      asio::co_spawn(job.io, job.links[leaver]->meet(now() + 100s),
                     [&](const std::exception_ptr&, MeetingResult met) { job.met[leaver] = std::move(met); });
      for (int i = 0; i < 5; ++i) job.io.run_one_for(10ms);
      if (is_first) start_others();
      REQUIRE(job.all_met());
      for (const unsigned rank : {1 - leaver, 2U}) {
        CHECK(std::get<Refuse>(*job.met[rank]).cause == Cause::peer_lost);
        CHECK(job.refusal(rank) == "node " + std::to_string(leaver) + " (host-" + std::to_string(leaver) +
                                       ") failed: there is no python");
      }
    }
  }
}

TEST_CASE("a node that comes seconds after another could not join is told by node 0, which waits for it",
          "[link]") {
  TestJob job;
  job.options[0].timing.leave = 0ms;  // that of a node 0 that was stopped
  job.options[0].timing.late = 100'000ms;
  job.start(0);
  job.links[1] = Link::make(job.io, job.options[1]);
  job.links[1]->report_failure({.cause = Cause::exited, .code = 127, .text = "there is no python"});
  asio::co_spawn(job.io, job.links[1]->meet(now() + 100s),
                 [&](const std::exception_ptr&, MeetingResult met) { job.met[1] = std::move(met); });
  REQUIRE(job.run_until([&] { return job.met[1].has_value(); }));
  for (int i = 0; i < 5; ++i) job.io.run_one_for(10ms);
  CHECK_FALSE(job.met[0]);
  job.start(2, 5s);
  REQUIRE(job.all_met());
  for (const unsigned rank : {0U, 2U}) {
    CHECK(std::get<Refuse>(*job.met[rank]).cause == Cause::peer_lost);
    CHECK(job.refusal(rank) == "node 1 (host-1) failed: there is no python");
  }
}

TEST_CASE("a node 0 that cannot join waits no longer than its time, also where its port is held or freed",
          "[link]") {
  for (const bool is_freed : {false, true}) {
    TestJob job;
    for (std::chrono::milliseconds* const time :
         {&job.options[0].timing.leave, &job.options[0].timing.late, &job.options[0].timing.end})
      *time = 1'000'000ms;
    tcp::acceptor other(job.io);
    REQUIRE_FALSE(open_listener(other, job.port.number(), 16));
    job.links[0] = Link::make(job.io, job.options[0]);
    job.links[0]->report_failure({.cause = Cause::exited, .code = 127, .text = "there is no python"});
    asio::co_spawn(job.io, job.links[0]->meet(now() + 500ms),
                   [&](const std::exception_ptr&, MeetingResult met) { job.met[0] = std::move(met); });
    REQUIRE(job.run_until([&] { return !job.links[0]->waiting().empty(); }));
    if (is_freed) other.close();
    REQUIRE(job.all_met());
    CHECK(job.refusal(0) == "node 0 (host-0) failed: there is no python");
  }
}

TEST_CASE("a rank twice is refused once the older node has answered", "[link]") {
  TestJob job;
  job.options[2].self.rank = 1;
  job.start_all();
  REQUIRE(job.all_met());
  CHECK(job.refusal(0).starts_with("two nodes have the rank 1: node 1 (host-"));
  CHECK(job.refusal(1) == job.refusal(0));
  CHECK(job.refusal(2) == job.refusal(0));
}

TEST_CASE("who is missing is known on all nodes, and ends the meeting in time", "[link]") {
  TestJob job;
  job.start(0, 600ms);
  job.start(1);
  REQUIRE(job.all_met());
  CHECK(job.refusal(0) == "1 of 3 nodes did not join in time: node 2");
  CHECK(job.refusal(1) == "1 of 3 nodes did not join in time: node 2");
  CHECK(job.links[1]->waiting() == "waiting for 1 of 3 nodes: node 2");
}

TEST_CASE("a node whose time is over a little before node 0's waits for its word", "[link]") {
  TestJob job;
  job.start(0, 800ms);
  job.start(1, 400ms);
  REQUIRE(job.all_met());
  for (const unsigned rank : {0U, 1U})
    CHECK(job.refusal(rank) == "1 of 3 nodes did not join in time: node 2");
}

TEST_CASE("without a hub a node waits, and says why", "[link]") {
  TestJob job;
  job.start(1, 300ms);
  REQUIRE(job.all_met());
  CHECK(job.refusal(1) == "node 0 at 127.0.0.1:" + std::to_string(job.port.number()) +
                              " was not reached in time: port closed (connection refused)");
}

TEST_CASE("a master that was just looked up is not looked up again", "[link]") {
  TestJob job(2);
  job.options[1].master.host = "no.such.name.example.";
  job.options[1].addresses = {"127.0.0.1"};
  job.options[1].dns.resolv_conf = "/nonexistent";
  job.start_all();
  REQUIRE(job.all_met());
  CHECK(std::holds_alternative<Go>(*job.met[1]));
}

TEST_CASE("who is silent, closes, or speaks otherwise is not torch's store: node 0 is waited for", "[link]") {
  struct Case {
    bool closes;
    std::string says, reason;
  };
  const Case cases[] = {
      {false, "", "the port accepts the connection and does not answer"},
      {true, "", "the port accepts and closes the connection"},
      {false, "HTTP/1.1 400 Bad Request\r\n\r\n",
       "something other than rankshim or torch's store listens there"},
  };
  for (const auto& [closes, says, reason] : cases) {
    CAPTURE(reason);
    for (const bool comes : {false, true}) {
      TestJob job(2);
      tcp::acceptor other(job.io);
      REQUIRE_FALSE(open_listener(other, job.port.number(), 16));
      std::vector<tcp::socket> held;
      unsigned tries = 0;
      std::function<void()> accept = [&] {
        other.async_accept([&](boost::system::error_code error, tcp::socket socket) {
          if (error) return;
          ++tries;
          asio::write(socket, asio::buffer(says), error);
          if (!closes) held.push_back(std::move(socket));
          accept();
        });
      };
      accept();
      job.options[1].timing.welcome = 50ms;
      job.start(1, comes ? 100'000ms : 500ms);
      REQUIRE(job.run_until([&] { return tries >= 5 || job.met[1]; }));
      if (comes) CHECK_FALSE(job.met[1]);
      if (comes) {
        other.close();
        held.clear();
        job.io.poll();
        job.start(0);
      }
      REQUIRE(job.run_until([&] { return job.met[1].has_value(); }));
      if (comes) {
        CHECK(std::holds_alternative<Go>(*job.met[1]));
      } else {
        CHECK(std::get<Refuse>(*job.met[1]).cause == Cause::unreachable);
        CHECK(job.refusal(1).ends_with(" was not reached in time: " + reason));
      }
      other.close();
      job.io.poll();
    }
  }
}

/// Answers what a store's client asks, and nothing else.
asio::awaitable<void> be_store(tcp::acceptor& acceptor, unsigned& connections) {
  while (true) {
    auto socket = std::make_shared<tcp::socket>(co_await acceptor.async_accept(asio::use_awaitable));
    ++connections;
    auto bytes = std::make_shared<std::array<char, 6>>();
    asio::async_read(*socket, asio::buffer(*bytes), [=](boost::system::error_code error, std::size_t) {
      const bool asks = !error && std::string_view(bytes->data(), bytes->size()) == greeting.substr(0, 6);
      asio::write(*socket, asio::buffer(asks ? std::string("\1").append(7, '\0') : ""), error);
    });
  }
}

TEST_CASE(
    "torch's store in the hub's place is believed when it has answered for long: it may be another job's",
    "[link]") {
  for (const bool is_other : {false, true}) {
    TestJob job(2);
    tcp::acceptor store(job.io);
    REQUIRE_FALSE(open_listener(store, job.port.number(), 16));
    unsigned connections = 0;
    asio::co_spawn(job.io, be_store(store, connections), asio::detached);
    if (is_other) job.options[1].timing.store = 1'000'000ms;
    job.start(1);
    REQUIRE(job.run_until([&] { return is_other ? connections >= 3 : job.met[1].has_value(); }));
    CHECK(connections >= 2);
    store.close();
    job.io.poll();
    if (is_other) {
      CHECK_FALSE(job.met[1]);
      job.start(0);
      REQUIRE(job.all_met());
      CHECK(std::holds_alternative<Go>(*job.met[1]));
    } else {
      CHECK(job.unlinked(1) ==
            "torch's store, not rankshim, has answered at 127.0.0.1:" + std::to_string(job.port.number()) +
                " for 300 ms; restart the whole job if only this node was restarted, or set another "
                "RANKSHIM_MASTER_PORT on all nodes if another job uses the port");
    }
  }
}

TEST_CASE("where another job's store has the master's port, node 0 is found at the second port", "[link]") {
  for (const bool is_freed : {true, false}) {
    TestJob job(2);
    for (Options& options : job.options) options.timing.store = 1'000'000ms;
    tcp::acceptor store(job.io);
    REQUIRE_FALSE(open_listener(store, job.port.number(), 16));
    unsigned connections = 0;
    asio::co_spawn(job.io, be_store(store, connections), asio::detached);
    job.start(1);
    REQUIRE(job.run_until([&] { return connections >= 1; }));
    job.start(0, is_freed ? 100'000ms : 3000ms);
    REQUIRE(job.run_until([&] { return job.links[0]->nodes()[1].connection.has_value(); }));
    const std::string held = fmt::format("the master's port {}, which ", job.port.number());
    if (is_freed) {
      CHECK_FALSE(job.met[0]);
      CHECK_THAT(job.links[0]->waiting(), Catch::StartsWith("waiting for " + held));
      store.close();
    }
    REQUIRE(job.all_met());
    for (const unsigned rank : {0U, 1U}) {
      CHECK(std::holds_alternative<Go>(*job.met[rank]) == is_freed);
      if (!is_freed) CHECK_THAT(job.refusal(rank), Catch::StartsWith("node 0 cannot listen on " + held));
    }
  }
}

TEST_CASE("a node whose master's name leads to another job's node 0 for a while waits for its own",
          "[link]") {
  struct Case {
    const char* name;
    void (*change)(Options& other);
    const char* says;
  };
  const Case cases[] = {
      {"another run id", [](Options& other) { other.self.run = "other"; }, "has run id job, "},
      {"an older attempt", [](Options& other) { other.self.attempt = "1"; }, "has attempt 2, "},
      {"another job with a token",
       [](Options& other) {
         other.self.run = "other";
         other.token = Key("the token of another job");
       },
       "has no token, and the job has one"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.name);
    for (const bool comes : {false, true}) {
      TestJob job(2);
      for (Options& options : job.options) options.self.attempt = "2";
      Options options = job.options[0];
      options.self.nnodes = 3;  // it waits, too
      c.change(options);
      auto other = Link::make(job.io, options);
      asio::cancellation_signal signal;
      bool met_other = false, is_over = false;
      asio::co_spawn(job.io, other->meet(now() + 100s),
                     asio::bind_cancellation_slot(
                         signal.slot(), [&](const std::exception_ptr& thrown, const MeetingResult&) {
                           met_other = thrown == nullptr;
                           is_over = true;
                         }));
      job.io.poll();
      job.start(1, comes ? 100'000ms : 500ms);
      REQUIRE(job.run_until([&] { return other->waiting().find(c.says) != std::string::npos; }));
      CHECK_FALSE(job.met[1]);
      if (!comes) {
        REQUIRE(job.all_met());
        CHECK(std::get<Refuse>(*job.met[1]).cause == Cause::unreachable);
        CHECK_THAT(job.refusal(1), Catch::Contains(" was not reached in time: node 1 (host-1, 127.0.0.1) " +
                                                   std::string(c.says)));
      }
      signal.emit(asio::cancellation_type::terminal);
      REQUIRE(job.run_until([&] { return is_over; }));
      CHECK_FALSE(met_other);
      other.reset();
      if (!comes) continue;
      // The other job has been launched: its store answers there.
      tcp::acceptor store(job.io);
      REQUIRE(job.run_until([&] { return !open_listener(store, job.port.number(), 16); }));
      unsigned connections = 0;
      asio::co_spawn(job.io, be_store(store, connections), asio::detached);
      REQUIRE(job.run_until([&] { return connections >= 2 || job.met[1]; }));
      CHECK_FALSE(job.met[1]);
      store.close();
      job.io.poll();
      job.start(0);
      REQUIRE(job.all_met());
      CHECK(std::holds_alternative<Go>(*job.met[1]));
    }
  }
}

TEST_CASE("a client of torch's store is closed at once, and makes it a job without a link",
          "[link][attack]") {
  TestJob job(2);
  job.start(0);
  job.io.poll();
  RawClient client(job);
  client.write(std::string_view("\x00\xce\xf7\x85\x3c\x0d", 6));
  CHECK(client.is_closed());
  CHECK(client.received.empty());
  REQUIRE(job.all_met());
  CHECK(job.unlinked(0).find("without rankshim") != std::string::npos);
}

TEST_CASE("strangers do not keep the nodes from meeting", "[link][attack]") {
  TestJob job(2);
  job.options[0].timing.hello = 1s;
  job.start(0, std::chrono::minutes(5));  // the connections take their time on a busy machine
  job.io.poll();
  std::vector<std::unique_ptr<RawClient>> strangers;
  const auto add = [&](std::string_view bytes) {
    strangers.push_back(std::make_unique<RawClient>(job));
    strangers.back()->write(bytes);
    return strangers.back().get();
  };
  CHECK(add("GET / HTTP/1.1\r\nHost: a\r\n\r\n")->is_closed());
  CHECK(strangers.back()->received.empty());
  CHECK(add(std::string(greeting) + std::string(5000, 'x'))->is_closed());
  CHECK(add(std::string(greeting) + "hello {no json}\n")->is_closed());
  CHECK(add(std::string(greeting) + "stop {}\n")->is_closed());  // a stop from somebody without a hello
  CHECK(add(std::string(greeting.substr(0, 10)) + "\1")->is_closed());
  CHECK(strangers.back()->received == greeting);
  CHECK(job.links[0]->waiting().ends_with(
      "speaks another version of the link: use the same release on all nodes"));
  RawClient* slow = add(greeting.substr(0, 8));  // says nothing more within its time
  CHECK(slow->is_closed());
  strangers.clear();
  // More than nnodes + 64: the oldest goes. More than descriptors, too; but each is in /proc/net/tcp for a
  // minute (TIME-WAIT), which other tests read.
  for (int i = 0; i < 2'000; ++i) {
    add(greeting.substr(0, 1)), job.io.poll();
    if (i >= 100) {
      boost::system::error_code error;
      char byte = 0;
      CHECK(strangers.front()->socket.read_some(asio::buffer(&byte, 1), error) == 0);
      CHECK((error == asio::error::eof || error == asio::error::connection_reset));
      strangers.erase(strangers.begin());
    }
  }
  job.start(1);
  REQUIRE(job.all_met());
  CHECK(std::holds_alternative<Go>(*job.met[0]));
}

TEST_CASE("a steady sender lets everything else have its turn", "[link][attack]") {
  TestJob job(3);
  job.start(0);
  job.io.poll();
  RawClient sender(job);
  Hello hello = job.options[1].self;
  hello.port = job.port.number(), hello.instance = "steady";
  sender.write(std::string(greeting) + to_text(hello) + '\n');
  REQUIRE(job.run_until([&] { return job.missing() == 1; }));
  sender.socket.non_blocking(false);
  sender.socket.native_non_blocking(false);
  std::string pings;
  while (pings.size() < 100'000) pings += "ping {}\n";
  constexpr std::size_t most = 32 << 20;  // more than the kernel's buffers hold
  std::atomic<std::size_t> sent = 0;
  std::thread thread([&, socket = sender.socket.native_handle()] {
    for (ssize_t size = 1; size > 0 && sent < most;
         sent += static_cast<std::size_t>(std::max<ssize_t>(size, 0)))
      size = ::send(socket, pings.data(), pings.size(), MSG_NOSIGNAL);
  });
  while (sent < pings.size()) std::this_thread::yield();
  bool had_its_turn = false;
  loop::Timer timer(job.io.get_executor(), now() + 50ms);
  timer.async_wait([&](boost::system::error_code) { had_its_turn = true; });
  while (!had_its_turn) job.io.run_one_for(20ms);
  CHECK(sent < most);
  ::shutdown(sender.socket.native_handle(), SHUT_RDWR);
  thread.join();
}

TEST_CASE("who takes node 0's place and ends a job that has not begun does not keep a node busy",
          "[link][attack]") {
  for (const char* said : {"stop {}\n", "end {}\n"}) {
    CAPTURE(said);
    TestJob job(2);
    tcp::acceptor impostor(job.io);
    REQUIRE_FALSE(open_listener(impostor, job.port.number(), 16));
    unsigned tries = 0;
    std::function<void()> accept = [&] {
      auto socket = std::make_shared<tcp::socket>(job.io);
      impostor.async_accept(*socket, [&, socket](boost::system::error_code error) {
        if (error) return;
        ++tries;
        asio::write(*socket, asio::buffer(std::string(greeting) + "welcome {}\n" + said), error);
        socket->async_wait(tcp::socket::wait_read, [socket](boost::system::error_code) {
          std::array<char, 4096> hello{};  // with something unread the connection would be reset
          boost::system::error_code ignored;
          socket->read_some(asio::buffer(hello), ignored);
        });
        accept();
      });
    };
    accept();
    job.start(1, 10s);
    REQUIRE(job.run_until([&] { return tries >= 3 || job.met[1]; }));
    CHECK_FALSE(job.met[1]);
    impostor.close();
    job.io.poll();
  }
}

TEST_CASE("who was sent away and says more is dropped", "[link][attack]") {
  TestJob job(2);
  for (Options& options : job.options) options.timing.hello = 1000s;
  job.options[0].token = Key("the token of this job");
  job.start(0);
  job.io.poll();
  RawClient stranger(job);
  stranger.write(std::string(greeting) + "hello {}\n");
  REQUIRE(stranger.is_closed());  // for this side
  CHECK(stranger.received.find("\"kind\":\"token_missing\"") != std::string::npos);
  boost::system::error_code gone;
  CHECK(job.run_until([&] {
    stranger.socket.write_some(asio::buffer("hello {}\n", 9), gone);
    return gone && gone != asio::error::would_block;
  }));
}

TEST_CASE("who has said hello and is gone is waited for", "[link]") {
  TestJob job(2);
  job.start(0);
  job.io.poll();
  Hello hello = job.options[1].self;
  hello.port = job.port.number(), hello.instance = "gone";
  RawClient(job).write(std::string(greeting) + to_text(hello) + '\n');
  REQUIRE(job.run_until([&] { return job.missing() == 1; }));
  CHECK_FALSE(job.met[0]);
  job.start(1);
  REQUIRE(job.all_met());
  CHECK(std::holds_alternative<Go>(*job.met[0]));
}

TEST_CASE("who comes after the launch is refused, and does not stay", "[link][attack]") {
  TestJob job(2);
  job.options[0].timing.hello = 300ms;
  job.start(0);
  job.io.poll();
  const auto hello = [&](const std::string& run) {
    Hello said = job.options[1].self;
    said.run = run, said.port = job.port.number(), said.instance = run;
    return std::string(greeting) + to_text(said) + '\n';
  };
  RawClient first(job);
  bool closed = false;
  first.write(hello("another job"));
  first.read(closed);
  Decoder decoder;
  std::optional<Line> welcome, refused;
  REQUIRE(job.run_until([&] {
    decoder.feed(std::exchange(first.received, ""));
    if (!welcome) welcome = decoder.next();
    if (welcome && !refused) refused = decoder.next();
    return refused.has_value();
  }));
  job.start(1);
  REQUIRE(job.run_until([&] { return job.met[0] && job.met[1] && closed; }));
  CHECK(refused->text.find("\"agreed\":\"run_id\"") != std::string::npos);
  CHECK(refused->text.find("host-0") == std::string::npos);
  const Welcome met = std::get<Welcome>(*from_text(welcome->text));
  CHECK(met.host.empty());  // no stranger learns it
  RawClient second(job, static_cast<std::uint16_t>(met.port));
  second.write(hello("late"));
  CHECK(second.is_closed());
  CHECK(second.received.find("\"kind\":\"too_late\"") != std::string::npos);
  boost::system::error_code gone;  // it reads no more either
  CHECK(job.run_until([&] {
    second.socket.write_some(asio::buffer("x", 1), gone);
    return gone && gone != asio::error::would_block;
  }));
}

TEST_CASE("a token keeps out who does not know it", "[link][attack]") {
  TestJob job;
  job.options[0].token = Key("the token of this job");
  job.options[1].token = Key("the token of another job");
  job.start(0), job.start(1, 1s), job.start(2);
  REQUIRE(job.run_until([&] { return job.met[1] && job.met[2]; }));
  CHECK(job.refusal(1).find("was not reached in time: node 0 (host-0, 127.0.0.1) has another token") !=
        std::string::npos);
  CHECK(job.refusal(2) ==
        "node 2 (host-2, 127.0.0.1) has no token, and the job has one; set --job-token-file on all nodes");
  CHECK_FALSE(job.met[0]);
  CHECK(job.missing() == 2);
  CHECK(job.links[0]->waiting().find("; node 1 (host-1, 127.0.0.1) did not prove") != std::string::npos);
}

TEST_CASE("a node with a token does not believe a hub without one", "[link][attack]") {
  TestJob job(2);
  job.options[1].token = Key("the token of this job");
  job.start(0, 1s), job.start(1, 2s);  // it knows the reason when node 0 is gone
  REQUIRE(job.all_met());
  for (const unsigned rank : {0U, 1U}) {
    CHECK(std::get<Refuse>(*job.met[rank]).cause == Cause::unreachable);
    CHECK(job.refusal(rank).find("node 1 (host-1, 127.0.0.1) has a token, and node 0 has none; set ") !=
          std::string::npos);
  }
}

TEST_CASE("an impostor in node 0's place does not end a node that has a token", "[link][attack]") {
  for (const char* answer : {"welcome {\"instance\":\"x\"}\n", "welcome {\"instance\":\"x\",\"nonce\":\"0\"}",
                             "refuse {\"code\":78}\n", "refuse {\"code\":0}\n"}) {
    CAPTURE(answer);
    TestJob job(2);
    for (Options& options : job.options) options.token = Key("the token of this job");
    std::string said = std::string(greeting) + answer;
    if (!said.ends_with('\n')) said += std::string(64, '0') + '\n';
    std::vector<std::shared_ptr<tcp::socket>> ends;
    tcp::acceptor impostor(job.io);
    REQUIRE_FALSE(open_listener(impostor, job.port.number(), 16));
    std::function<void()> accept = [&] {
      ends.push_back(std::make_shared<tcp::socket>(job.io));
      impostor.async_accept(*ends.back(), [&](boost::system::error_code error) {
        if (error) return;
        asio::write(*ends.back(), asio::buffer(said), error);
        accept();
      });
    };
    accept();
    job.start(1);
    REQUIRE(job.run_until([&] { return ends.size() > 5; }));
    CHECK_FALSE(job.met[1]);
    impostor.close();
    ends.clear();
    job.start(0);
    REQUIRE(job.all_met());
    CHECK(std::holds_alternative<Go>(*job.met[1]));
  }
}

TEST_CASE("a replayed hello proves nothing", "[link][attack]") {
  TestJob job(2);
  job.options[0].token = Key("the token of this job");
  job.start(0);
  job.io.poll();
  RawClient replay(job);
  Hello hello = job.options[1].self;
  hello.port = job.port.number(), hello.nonce = "00112233", hello.instance = "recorded";
  const std::string recorded = std::string(greeting) + to_text(hello) + '\n';
  replay.write(recorded);
  replay.write("proof {}" + std::string(64, '0') + "\n");
  CHECK(replay.is_closed());
  CHECK(job.missing() == 1);
  RawClient untagged(job);
  untagged.write(recorded + "proof {}\n");
  CHECK(untagged.is_closed());
  CHECK_FALSE(job.met[0]);
}

TEST_CASE("a connection lost before the launch is made again", "[link]") {
  TestJob job;
  Relay relay(job);
  job.options[1].master.port = relay.number();
  job.options[1].self.port = job.port.number();
  job.start(0), job.start(1);
  REQUIRE(job.run_until([&] { return job.missing() == 1; }));
  relay.cut();
  REQUIRE(job.run_until([&] { return job.missing() == 2; }));
  job.start(2);
  REQUIRE(job.all_met());
  CHECK(std::holds_alternative<Go>(*job.met[1]));
}

struct KeptLimit {
  KeptLimit() { getrlimit(RLIMIT_NOFILE, &before); }
  ~KeptLimit() { setrlimit(RLIMIT_NOFILE, &before); }
  void lower(rlim_t to) const {
    const rlimit lowered{to, before.rlim_max};
    REQUIRE(setrlimit(RLIMIT_NOFILE, &lowered) == 0);
  }
  rlimit before{};
};

TEST_CASE("the limit of open files is raised for the connections, not for the command", "[link]") {
  const KeptLimit limit;
  limit.lower(100);
  TestJob job(200);
  job.start(0);
  job.io.poll();
  rlimit raised{};
  getrlimit(RLIMIT_NOFILE, &raised);
  CHECK(raised.rlim_cur >= 200);
  REQUIRE(job.links[0]->inherited_limit());
  CHECK(job.links[0]->inherited_limit()->rlim_cur == 100);
}

TEST_CASE("a connection for which there is no descriptor waits for one", "[link]") {
  const KeptLimit limit;
  TestJob job(2);
  job.start(0);
  job.io.poll();
  tcp::socket client(job.io, tcp::v4());
  // UBSan opens a pipe for its first look at a type, and nothing else may have shown it an error's.
  CHECK_FALSE(boost::system::error_code(EMFILE, boost::system::system_category()).message().empty());
  const int next = dup(0);
  close(next);
  limit.lower(static_cast<rlim_t>(next));
  client.connect({asio::ip::address_v4::loopback(), job.port.number()});
  job.io.poll();
  setrlimit(RLIMIT_NOFILE, &limit.before);
  asio::write(client, asio::buffer("GET", 3));
  bool closed = false;
  client.async_wait(tcp::socket::wait_read, [&](boost::system::error_code) { closed = true; });
  CHECK(job.run_until([&] { return closed; }));
}

TEST_CASE("a master's port that another process holds is waited for, at first and when all start again",
          "[link]") {
  for (const unsigned restarts : {0U, 1U}) {
    for (const bool is_freed : {false, true}) {
      TestJob job(2);
      for (Options& options : job.options) {
        options.self.restarts = restarts;
        options.self.job_restarts = "3";
      }
      tcp::acceptor other(job.io);
      REQUIRE_FALSE(open_listener(other, job.port.number(), 16));
      job.start(0, is_freed ? 100'000ms : 300ms);
      const std::string held = fmt::format("the master's port {}, which ", job.port.number());
      REQUIRE(job.run_until([&] { return job.links[0]->waiting().starts_with("waiting for " + held); }));
      CHECK_THAT(job.links[0]->waiting(), Catch::EndsWith(fmt::format(" (pid {}) holds", getpid())));
      if (is_freed) other.close();
      if (is_freed) job.start(1);
      REQUIRE(job.all_met());
      if (is_freed) {
        CHECK(std::holds_alternative<Go>(*job.met[1]));
      } else {
        CHECK(std::get<Refuse>(*job.met[0]).cause == Cause::unreachable);
        CHECK_THAT(job.refusal(0), Catch::StartsWith("node 0 cannot listen on " + held));
      }
    }
  }
}

}  // namespace
}  // namespace rankshim::link
