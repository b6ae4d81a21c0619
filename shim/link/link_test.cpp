#include "link/link.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <catch2/catch.hpp>
#include <filesystem>
#include <functional>

#include "link/connection.h"
#include "link/frame.h"
#include "wait/test_network.h"

namespace rankshim::link {
namespace {

using namespace std::chrono_literals;
namespace asio = boost::asio;

/// Keeps a port for a test: bound, and free for a listener with SO_REUSEADDR.
struct KeptPort {
  KeptPort() : acceptor(io) {
    acceptor.open(tcp::v6());
    acceptor.set_option(tcp::acceptor::reuse_address(true));
    acceptor.bind({tcp::v6(), 0});
  }
  [[nodiscard]] std::uint16_t number() const { return acceptor.local_endpoint().port(); }
  asio::io_context io;
  tcp::acceptor acceptor;
};

/// A few nodes on one event loop, each with a link of its own, over loopback.
struct TestJob {
  explicit TestJob(unsigned count = 3) : nnodes(count), met(count), ended(count), stops(count) {
    for (unsigned rank = 0; rank < count; ++rank) {
      Options of_node;
      of_node.self = {.run = "job",
                      .rank = rank,
                      .nnodes = count,
                      .workers = 2,
                      .launcher = "torchrun",
                      .host = "host-" + std::to_string(rank)};
      of_node.master.host = "127.0.0.1";
      of_node.master.port = port.number();
      of_node.rules = {
          .relink = 1000ms, .first_report = 200ms, .answer = 100ms, .settle = 100ms, .patience = 300ms};
      of_node.timing = {.hello = 300ms, .welcome = 200ms, .retry = 20ms, .farewell = 500ms};
      options.push_back(of_node);
      links.emplace_back();
    }
  }

  void start(unsigned rank, std::chrono::milliseconds time = 10'000ms) {
    links[rank] = Link::make(io, options[rank]);
    asio::co_spawn(io, links[rank]->meet(std::chrono::steady_clock::now() + time),
                   [this, rank](const std::exception_ptr& thrown, Met result) {
                     if (!thrown) met[rank] = std::move(result);
                   });
  }
  void start_all() {
    for (unsigned rank = 0; rank < nnodes; ++rank) start(rank);
  }
  void end(unsigned rank, int code) {
    asio::co_spawn(io, links[rank]->finish(code), [this, rank](const std::exception_ptr& thrown, JobEnd end) {
      if (!thrown) ended[rank] = std::move(end);
    });
  }
  /// Runs the loop until something holds; false if it does not within 15 s.
  bool run_until(const std::function<bool()>& holds) {
    bool late = false;
    loop::Timer limit(io.get_executor(), std::chrono::steady_clock::now() + 15'000ms);
    limit.async_wait([&](boost::system::error_code error) { late = !error; });
    while (!holds() && !late) io.run_one_for(20ms);
    limit.cancel();
    io.poll();
    return !late;
  }
  bool all_met() {
    return run_until([this] {
      for (unsigned rank = 0; rank < nnodes; ++rank)
        if (links[rank] && !met[rank]) return false;
      return true;
    });
  }
  void all_launch() {
    start_all();
    REQUIRE(all_met());
    for (unsigned rank = 0; rank < nnodes; ++rank) {
      REQUIRE(std::holds_alternative<Launch>(*met[rank]));
      links[rank]->on_stop([this, rank](const Stop& stop) { stops[rank] = stop; });
    }
  }
  std::string refusal(unsigned rank) {
    const auto* refused = met[rank] ? std::get_if<Refused>(&*met[rank]) : nullptr;
    return refused == nullptr ? "" : refused->sentence;
  }
  bool told(unsigned rank) {
    return run_until([&] { return stops[rank].has_value(); });
  }

  unsigned nnodes;
  KeptPort port;
  asio::io_context io{1};
  std::vector<Options> options;
  std::vector<std::optional<Met>> met;
  std::vector<std::optional<JobEnd>> ended;
  std::vector<std::optional<Stop>> stops;
  std::vector<std::shared_ptr<Link>> links;
};

/// Somebody who connects to the hub and is no peer, with blocking calls in between.
struct Stranger {
  Stranger(TestJob& to, std::uint16_t port) : job(to), socket(to.io) {
    socket.connect({asio::ip::address_v4::loopback(), port});
    socket.non_blocking(true);
  }
  explicit Stranger(TestJob& to) : Stranger(to, to.port.number()) {}
  void write(std::string_view bytes) { asio::write(socket, asio::buffer(bytes)); }
  /// Whether the hub closes the connection; what it sends first is in `received`.
  bool is_closed() {
    bool closed = false;
    read(closed);
    return job.run_until([&] { return closed; });
  }
  void read(bool& closed) {
    socket.async_read_some(asio::buffer(buffer),
                           [this, &closed](boost::system::error_code error, std::size_t size) {
                             received.append(buffer.data(), size);
                             closed = error && error != asio::error::operation_aborted;
                             if (!error) read(closed);
                           });
  }
  TestJob& job;
  tcp::socket socket;
  std::array<char, 4096> buffer{};
  std::string received;
};

TEST_CASE("three nodes meet, launch at once, and end well together", "[link]") {
  for (const bool with_token : {false, true}) {
    TestJob job;
    for (Options& options : job.options)
      if (with_token) options.token = Key("the token of this job");
    job.options[1].self.workers = 4;
    job.all_launch();
    CHECK(std::get<Launch>(*job.met[0]).offset == 0);
    CHECK(std::get<Launch>(*job.met[2]).offset == 6);
    CHECK(std::get<Launch>(*job.met[2]).world == 8);
    CHECK(job.links[0]->nodes()[2].hello.host == "host-2");
    CHECK(job.links[0]->nodes()[2].seen == "127.0.0.1");
    // The job's store can have the port.
    tcp::acceptor store(job.io);
    CHECK(open_listener(store, job.port.number(), 1) == 0);
    job.end(1, 0);
    job.end(0, 0);
    CHECK_FALSE(job.ended[1]);
    job.end(2, 0);
    REQUIRE(job.run_until([&] { return job.ended[0] && job.ended[1] && job.ended[2]; }));
    for (const auto& end : job.ended) CHECK_FALSE(end->stop);
  }
}

TEST_CASE("linked nodes sleep", "[link]") {
  TestJob job;
  job.all_launch();
  job.io.poll();
  CHECK(job.io.run_one_for(600ms) == 0);  // longer than every wait of the meeting
}

TEST_CASE("a refusal is the same on all nodes", "[link]") {
  TestJob job;
  job.options[2].self.launcher = "native";
  job.start_all();
  REQUIRE(job.all_met());
  CHECK(job.refusal(0) ==
        "node 2 (host host-2, 127.0.0.1) has launcher native, node 0 (host host-0) has torchrun; set "
        "RANKSHIM_LAUNCHER to the same on all nodes");
  CHECK(job.refusal(1) == job.refusal(0));
  CHECK(job.refusal(2) == job.refusal(0));
}

TEST_CASE("a rank twice is refused once the older node has answered", "[link]") {
  TestJob job;
  job.options[2].self.rank = 1;
  job.start_all();
  REQUIRE(job.all_met());
  CHECK(job.refusal(0).starts_with("two nodes have the rank 1: node 1 (host host-"));
  CHECK(job.refusal(1) == job.refusal(0));
  CHECK(job.refusal(2) == job.refusal(0));
}

TEST_CASE("who is missing is known on all nodes, and ends the meeting in time", "[link]") {
  TestJob job;
  job.start(0, 600ms);
  job.start(1);
  REQUIRE(job.all_met());
  CHECK(std::get<TimedOut>(*job.met[0]).sentence == "1 of 3 nodes did not come in time: rank 2");
  CHECK(std::get<TimedOut>(*job.met[1]).sentence == "1 of 3 nodes did not come in time: rank 2");
  CHECK(job.links[1]->waiting().missing == std::vector<unsigned>{2});
}

TEST_CASE("without a hub a node waits, and says why", "[link]") {
  TestJob job;
  job.start(1, 300ms);
  REQUIRE(job.all_met());
  CHECK(std::get<TimedOut>(*job.met[1]).sentence ==
        "node 0 at 127.0.0.1:" + std::to_string(job.port.number()) +
            " was not reached in time: port closed (connection refused)");
}

TEST_CASE("a port that accepts and is silent, or closes, is no hub's", "[link]") {
  for (const bool closes : {false, true}) {
    TestJob job;
    tcp::acceptor store(job.io);
    REQUIRE(open_listener(store, job.port.number(), 16) == 0);
    std::vector<tcp::socket> held;
    std::function<void()> accept = [&] {
      store.async_accept([&](boost::system::error_code error, tcp::socket socket) {
        if (error) return;
        if (!closes) held.push_back(std::move(socket));
        accept();
      });
    };
    accept();
    job.start(1);
    REQUIRE(job.all_met());
    CHECK(std::get<NoLink>(*job.met[1]).why.find("but not as rankshim") != std::string::npos);
    store.close();
    job.io.poll();
  }
}

TEST_CASE("a client of torch's store is closed at once, and makes it a job without a link",
          "[link][attack]") {
  TestJob job(2);
  job.start(0);
  job.io.poll();
  Stranger client(job);
  client.write(std::string_view("\x00\xce\xf7\x85\x3c\x0d", 6));
  CHECK(client.is_closed());
  CHECK(client.received.empty());
  REQUIRE(job.all_met());
  CHECK(std::get<NoLink>(*job.met[0]).why.find("without rankshim") != std::string::npos);
}

TEST_CASE("strangers do not keep the nodes from meeting", "[link][attack]") {
  TestJob job(2);
  job.start(0);
  job.io.poll();
  std::vector<std::unique_ptr<Stranger>> strangers;
  const auto add = [&](std::string_view bytes) {
    strangers.push_back(std::make_unique<Stranger>(job));
    strangers.back()->write(bytes);
    return strangers.back().get();
  };
  CHECK(add("GET / HTTP/1.1\r\nHost: a\r\n\r\n")->is_closed());
  CHECK(strangers.back()->received.empty());
  CHECK(add("RSHM\1\xff\xff\1")->is_closed());
  CHECK(add(greeting() + Frame{1, false, "no json"}.bytes())->is_closed());
  CHECK(
      add(greeting() + Frame{9, false, "{}"}.bytes())->is_closed());  // a stop from somebody without a hello
  CHECK(add("RSHM\2")->is_closed());
  CHECK(strangers.back()->received == greeting());
  Stranger* slow = add("RSH");  // says nothing more within 300 ms
  CHECK(slow->is_closed());
  strangers.clear();
  for (int i = 0; i < 10'000; ++i) {  // more than nnodes + 64: the oldest goes
    add("R"), job.io.poll();
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
  CHECK(std::holds_alternative<Launch>(*job.met[0]));
}

TEST_CASE("who comes after the launch is refused, and does not stay", "[link][attack]") {
  TestJob job(2);
  job.start(0);
  job.io.poll();
  const auto hello = [&](const std::string& run) {
    Hello said = job.options[1].self;
    said.run = run, said.port = job.port.number(), said.instance = run;
    return greeting() + Frame{1, false, to_json(said)}.bytes();
  };
  Stranger first(job);
  first.write(hello("another job"));
  bool closed = false;
  first.read(closed);
  Decoder decoder;
  std::optional<Frame> welcome;
  REQUIRE(job.run_until([&] {
    decoder.feed(std::exchange(first.received, ""));
    return (welcome = decoder.next()).has_value();
  }));
  job.start(1);
  REQUIRE(job.run_until([&] { return job.met[0] && job.met[1] && closed; }));
  CHECK(first.received.find("belongs to the job") != std::string::npos);
  const auto way_back = std::get<Welcome>(*from_json(welcome->type, welcome->body)).port;
  Stranger second(job, static_cast<std::uint16_t>(way_back));
  second.write(hello("late"));
  CHECK(second.is_closed());
  CHECK(second.received.find("the job has started without node 1") != std::string::npos);
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
  job.start_all();
  REQUIRE(job.run_until([&] { return job.met[1] && job.met[2]; }));
  CHECK(job.refusal(1).find("has another token") != std::string::npos);
  CHECK(job.refusal(2) ==
        "node 2 (host host-2) has no token, and the job has one; set --job-token-file on all nodes");
  CHECK_FALSE(job.met[0]);
  CHECK(job.links[0]->waiting().count == 2);
}

TEST_CASE("a node with a token does not believe a hub without one", "[link][attack]") {
  TestJob job(2);
  job.options[1].token = Key("the token of this job");
  job.start_all();
  REQUIRE(job.run_until([&] { return job.met[1].has_value(); }));
  CHECK(job.refusal(1).find("has no token, and this node has one") != std::string::npos);
}

TEST_CASE("a replayed hello proves nothing", "[link][attack]") {
  TestJob job(2);
  job.options[0].token = Key("the token of this job");
  job.start(0);
  job.io.poll();
  Stranger replay(job);
  Hello hello = job.options[1].self;
  hello.port = job.port.number(), hello.nonce = "00112233", hello.instance = "recorded";
  const std::string recorded = greeting() + Frame{1, false, to_json(hello)}.bytes();
  replay.write(recorded);
  replay.write(Frame{3, true, "{}"}.bytes() + std::string(32, 'x'));
  CHECK(replay.is_closed());
  CHECK(job.links[0]->waiting().count == 1);
  Stranger untagged(job);
  untagged.write(recorded + Frame{3, false, "{}"}.bytes());
  CHECK(untagged.is_closed());
  CHECK_FALSE(job.met[0]);
}

TEST_CASE("a failure is told to all others, and the culprit's node keeps its own end", "[link]") {
  TestJob job;
  job.all_launch();
  job.links[1]->report_failure({.rank = 3, .cause = "signal", .code = 137, .text = "was killed by SIGKILL"});
  REQUIRE(job.told(0));
  REQUIRE(job.told(2));
  CHECK(job.stops[2]->sentence() == "node 1 (host host-1) failed: rank 3 was killed by SIGKILL");
  CHECK_FALSE(job.stops[1]);
  for (unsigned rank = 0; rank < 3; ++rank) job.end(rank, rank == 1 ? 137 : 143);
  REQUIRE(job.run_until([&] { return job.ended[0] && job.ended[1] && job.ended[2]; }));
  CHECK(job.ended[0]->stop->culprit.node == 1);
  CHECK(job.ended[2]->stop->culprit.node == 1);
  CHECK(job.links[0]->nodes()[1].code == 137);
}

TEST_CASE("two failures are both known to node 0", "[link]") {
  TestJob job;
  job.all_launch();
  job.links[1]->report_failure({.rank = 2, .code = 1, .text = "one"});
  job.links[2]->report_failure({.rank = 4, .code = 1, .text = "two", .age = 5000});
  REQUIRE(job.told(0));
  for (unsigned rank = 0; rank < 3; ++rank) job.end(rank, 1);
  REQUIRE(job.run_until([&] { return job.ended[0].has_value(); }));
  REQUIRE(job.ended[0]->failures.size() == 2);
  CHECK(job.ended[0]->failures[0].text == "two");
}

TEST_CASE("node 0's own failure is told", "[link]") {
  TestJob job;
  job.all_launch();
  job.end(0, 3);
  REQUIRE(job.told(1));
  CHECK(job.stops[1]->sentence() == "node 0 (host host-0) failed: ended with code 3");
  CHECK_FALSE(job.stops[0]);
}

TEST_CASE("a drained node is told of as such", "[link]") {
  TestJob job;
  job.all_launch();
  job.links[2]->report_stop(15);
  REQUIRE(job.told(0));
  REQUIRE(job.told(1));
  CHECK(job.stops[1]->why == Stop::Why::drained);
  CHECK(job.stops[1]->sentence() == "node 2 (host host-2) was asked to stop (SIGTERM)");
}

TEST_CASE("a node that has ended well learns of a failure while it waits", "[link]") {
  TestJob job;
  job.all_launch();
  job.end(1, 0);
  job.io.poll();
  job.links[2]->report_failure({.rank = 4, .code = 1});
  REQUIRE(job.run_until([&] { return job.ended[1].has_value(); }));
  CHECK(job.ended[1]->stop->culprit.node == 2);
}

TEST_CASE("a node that vanishes is lost, and ends all", "[link]") {
  TestJob job;
  job.all_launch();
  job.links[1].reset();
  REQUIRE(job.told(0));
  REQUIRE(job.told(2));
  CHECK(job.stops[2]->sentence() ==
        "node 1 (host host-1) is lost: its connection ended, and it did not come back within 1 s");
}

TEST_CASE("node 0's loss is seen by all", "[link]") {
  TestJob job;
  job.all_launch();
  job.end(1, 0);  // it waits already
  job.links[0].reset();
  REQUIRE(job.told(2));
  REQUIRE(job.run_until([&] { return job.ended[1].has_value(); }));
  CHECK(job.ended[1]->stop->why == Stop::Why::lost);
  CHECK(job.stops[2]->sentence().starts_with("node 0 (host host-0) is lost: its connection ended"));
}

/// Passes bytes on between the peers and the hub, until it is told to cut.
struct Relay {
  explicit Relay(TestJob& of) : job(of), acceptor(of.io) {
    REQUIRE(open_listener(acceptor, 0, 16) == 0);
    accept();
  }
  [[nodiscard]] std::uint16_t number() const { return acceptor.local_endpoint().port(); }
  void accept() {
    acceptor.async_accept([this](boost::system::error_code error, tcp::socket socket) {
      if (error) return;
      auto one = std::make_shared<tcp::socket>(std::move(socket)),
           other = std::make_shared<tcp::socket>(job.io);
      other->connect({asio::ip::address_v4::loopback(), job.port.number()});
      ends.push_back(one), ends.push_back(other);
      pass(one, other), pass(other, one);
      accept();
    });
  }
  void pass(const std::shared_ptr<tcp::socket>& from, const std::shared_ptr<tcp::socket>& to) {
    auto buffer = std::make_shared<std::array<char, 4096>>();
    from->async_read_some(asio::buffer(*buffer),
                          [=, this](boost::system::error_code error, std::size_t size) {
                            boost::system::error_code ignored;
                            if (error) return void(to->close(ignored));
                            asio::write(*to, asio::buffer(buffer->data(), size), ignored);
                            passed += size;
                            pass(from, to);
                          });
  }
  void cut() {
    for (const auto& end : ends) end->close();
  }
  TestJob& job;
  tcp::acceptor acceptor;
  std::vector<std::shared_ptr<tcp::socket>> ends;
  std::size_t passed = 0;
};

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
    CHECK(job.stops[2]->sentence() ==
          "node 1 (host host-1) failed: rank 2 told while there was no connection");
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

TEST_CASE("a connection lost before the launch is made again", "[link]") {
  TestJob job;
  Relay relay(job);
  job.options[1].master.port = relay.number();
  job.options[1].self.port = job.port.number();
  job.start(0), job.start(1);
  REQUIRE(job.run_until([&] { return job.links[0]->waiting().count == 1; }));
  relay.cut();
  REQUIRE(job.run_until([&] { return job.links[0]->waiting().count == 2; }));
  job.start(2);
  REQUIRE(job.all_met());
  CHECK(std::holds_alternative<Launch>(*job.met[1]));
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
    CHECK((fcntl(descriptor, F_GETFD) & FD_CLOEXEC) != 0);
  }
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

TEST_CASE("through a proxy a node says something now and then", "[link]") {
  TestJob job;
  Relay relay(job);
  job.options[1].master.host = "127.0.0.2";  // the hub knows itself as 127.0.0.1
  job.options[1].master.port = relay.number();
  job.options[1].self.port = job.port.number();
  job.options[1].timing.ping = 20ms;
  job.all_launch();
  const std::size_t before = relay.passed;
  CHECK(job.run_until([&] { return relay.passed > before + 100; }));
}

TEST_CASE("a port that is taken means no link", "[link]") {
  TestJob job(2);
  tcp::acceptor other(job.io, tcp::v6());
  other.close();
  other.open(tcp::v6());
  other.set_option(tcp::acceptor::reuse_address(true));
  other.bind({tcp::v6(), job.port.number()});
  other.listen();
  job.start(0);
  REQUIRE(job.all_met());
  CHECK(std::get<NoLink>(*job.met[0]).why.starts_with("cannot listen on the master's port"));
}

}  // namespace
}  // namespace rankshim::link
