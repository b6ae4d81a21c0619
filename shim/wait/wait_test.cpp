#include "wait/wait.h"

#include <dirent.h>

#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <catch2/catch.hpp>
#include <functional>

#include "wait/test_network.h"

namespace rankshim::wait {
namespace {

using namespace test;
using asio::ip::make_address;
using asio::ip::tcp;
using Names = std::vector<std::string>;

/// A master's port on 127.0.0.1. It is bound, so that no other process gets it, and listens when the test
/// demands it.
struct MasterPort {
  explicit MasterPort(asio::io_context& context, const char* address = "127.0.0.1")
      : acceptor(context, tcp::v4()) {
    acceptor.bind({make_address(address), 0});
  }
  [[nodiscard]] std::uint16_t number() const { return acceptor.local_endpoint().port(); }
  tcp::acceptor acceptor;
};

struct WaitForTest {
  explicit WaitForTest(DnsServer::Handler handler)
      : server(context, std::move(handler)), resolv_conf("nameserver " + server.address() + "\n") {
    limits.resolv_conf = resolv_conf.path();
    limits.hosts = hosts.path();
    limits.timing = quick();
    limits.timeout = std::chrono::seconds(15);
  }

  Result wait(MasterTarget master) { return run(context, wait_for(std::move(master), limits)); }
  Reached reach(MasterTarget master) {
    Result result = wait(std::move(master));
    if (const auto* failure = std::get_if<Unreachable>(&result)) FAIL(in_words(*failure));
    return std::get<Reached>(std::move(result));
  }
  /// Why it fails; "S" replaces the server.
  std::string why_not(MasterTarget master) {
    Result result = wait(std::move(master));
    REQUIRE(std::holds_alternative<Unreachable>(result));
    return neutral(in_words(std::get<Unreachable>(result)));
  }
  /// The text on stderr, without what differs from run to run.
  [[nodiscard]] std::string printed() const { return neutral(captured.text()); }
  [[nodiscard]] std::string neutral(std::string text) const {
    for (std::size_t at = 0; (at = text.find(server.address())) != std::string::npos;) {
      text.replace(at, server.address().size(), "S");
    }
    for (const std::string_view word : {" after ", " not reached in "}) {  // the time
      for (std::size_t at = 0; (at = text.find(word, at)) != std::string::npos;) {
        at += word.size();
        text.replace(at, text.find('s', at) - at, "N ");
      }
    }
    return text;
  }

  asio::io_context context;
  DnsServer server;
  TemporaryFile resolv_conf;
  TemporaryFile hosts;
  Limits limits;
  CapturedStderr captured;
};

/// What is found in a short time, or, as long as that does not contain the text, in a longer one: a busy
/// machine needs more time for the looks before the last than an idle one.
std::string found_in_time(std::string_view text,
                          const std::function<std::string(std::chrono::milliseconds timeout)>& find) {
  std::string found;
  for (const int timeout : {100, 1'000, 10'000, 100'000})
    if ((found = find(std::chrono::milliseconds(timeout))).find(text) != std::string::npos) break;
  return found;
}

/// The same answer for the first `count` questions for A, then the other; AAAA gets what A got before it, for
/// a name that appears between the two is another story.
DnsServer::Handler at_first(int count, DnsAnswer first, DnsAnswer then) {
  return [=, now = first](const DnsQuestion& question) mutable {
    if (question.type == type_a) now = count-- > 0 ? first : then;
    return now;
  };
}

TEST_CASE("nothing is waited for, and nothing asked, where there is nothing to wait for") {
  WaitForTest fixture(always({.rcode = nxdomain}));
  CHECK(fixture.reach({"job-0.", 23456, Until::none, false}).addresses.empty());
  CHECK(fixture.server.asked().empty());
}

TEST_CASE("a name that resolves at the first look is reached without a word") {
  WaitForTest fixture(always({.addresses = {"10.0.0.1", "fd00::1"}}));
  const Reached reached = fixture.reach({"job-0.", 23456, Until::name, false});
  CHECK(reached.addresses == Names{"10.0.0.1", "fd00::1"});
  CHECK_FALSE(reached.mine);
  CHECK(fixture.printed().empty());
}

TEST_CASE("a literal address needs no name server, and its port can be waited for") {
  WaitForTest fixture(always({.rcode = nxdomain}));
  CHECK(fixture.reach({"[fd00::1]", 23456, Until::name, false}).addresses == Names{"fd00::1"});
  MasterPort port(fixture.context);
  port.acceptor.listen();
  CHECK(fixture.reach({"127.0.0.1", port.number(), Until::port, false}).addresses == Names{"127.0.0.1"});
  CHECK(fixture.server.asked().empty());
  CHECK(fixture.printed().empty());
}

TEST_CASE("a name that appears is noticed, and two lines tell the story") {
  WaitForTest fixture(at_first(20, {.rcode = nxdomain}, {.addresses = {"10.0.0.1"}}));
  CHECK(fixture.reach({"job-0.", 23456, Until::name, false}).addresses == Names{"10.0.0.1"});
  CHECK(fixture.printed() ==
        "rankshim: waiting for master job-0.:23456: no such name yet (asked S)\n"
        "rankshim: master job-0.:23456 resolves to 10.0.0.1 after N s\n");
}

TEST_CASE("a name server that fails, or is silent for a while, is waited out") {
  WaitForTest fixture(at_first(8, {.rcode = servfail}, {.addresses = {"10.0.0.1"}}));
  CHECK(fixture.reach({"job-0.", 0, Until::name, false}).addresses == Names{"10.0.0.1"});
  CHECK(fixture.printed() ==
        "rankshim: waiting for master job-0.: the name server failed (SERVFAIL from S)\n"
        "rankshim: master job-0. resolves to 10.0.0.1 after N s\n");
  WaitForTest silent(at_first(2, {.silent = true}, {.addresses = {"10.0.0.1"}}));
  silent.limits.timing.query_timeout = std::chrono::milliseconds(30);
  CHECK(silent.reach({"job-0.", 0, Until::name, false}).addresses == Names{"10.0.0.1"});
}

TEST_CASE("each change of the reason is a line") {
  int looks = 0;
  MasterPort* port = nullptr;
  WaitForTest fixture([&](const DnsQuestion& question) -> DnsAnswer {
    if (question.type == type_a) ++looks;
    if (looks < 5) return {.rcode = nxdomain};
    if (looks < 10) return {};
    if (looks == 11)
      port->acceptor.listen();  // the name is asked for again, so the port was seen closed before
    return {.addresses = {"127.0.0.1"}};
  });
  MasterPort own(fixture.context);
  port = &own;
  CHECK(fixture.reach({"job-0.", port->number(), Until::port, false}).addresses == Names{"127.0.0.1"});
  const std::string master = "job-0.:" + std::to_string(port->number());
  CHECK(fixture.printed() == "rankshim: waiting for master " + master +
                                 ": no such name yet (asked S)\n"
                                 "rankshim: master " +
                                 master +
                                 ": the name exists, but has no address yet (asked S)\n"
                                 "rankshim: master " +
                                 master +
                                 ": resolves to 127.0.0.1, port closed (connection refused)\n"
                                 "rankshim: master " +
                                 master + " is open after N s\n");
}

TEST_CASE("while nothing changes there is a line now and then") {
  WaitForTest fixture(at_first(30, {.rcode = nxdomain}, {.addresses = {"10.0.0.1"}}));
  fixture.limits.timing.report_interval = std::chrono::milliseconds(0);
  fixture.reach({"job-0.", 23456, Until::name, false});
  CHECK_THAT(fixture.printed(),
             Catch::Contains("rankshim: still waiting for master job-0.:23456 after N s of 15 s: "
                             "no such name yet (asked S)\n"));
}

TEST_CASE("an answer that flips does not fill the log") {
  int looks = 0;
  WaitForTest fixture([&](const DnsQuestion& question) -> DnsAnswer {
    if (question.type == type_a) ++looks;
    if (looks > 60) return {.addresses = {"10.0.0.1"}};
    return {.rcode = looks / 4 % 2 == 0 ? nxdomain : servfail};
  });
  fixture.reach({"job-0.", 23456, Until::name, false});
  const std::string printed = fixture.printed();
  CAPTURE(printed);
  CHECK(std::count(printed.begin(), printed.end(), '\n') == 3);
}

TEST_CASE("a proxy that accepts and hangs up is not the master; a master that stays is") {
  WaitForTest fixture(always({.addresses = {"127.0.0.1"}}));
  MasterPort port(fixture.context);
  port.acceptor.listen();
  std::vector<tcp::socket> kept;
  const auto serve = [&]() -> asio::awaitable<void> {
    for (int i = 0; i < 3; ++i) (co_await port.acceptor.async_accept(asio::use_awaitable)).close();
    kept.push_back(co_await port.acceptor.async_accept(asio::use_awaitable));
  };
  asio::co_spawn(fixture.context, serve(), asio::detached);
  fixture.reach({"job-0.", port.number(), Until::port, false});
  CHECK(kept.size() == 1);
  CHECK_THAT(fixture.printed(),
             Catch::Contains("resolves to 127.0.0.1, the port accepts and closes the connection"));
}

TEST_CASE("a master that turns out to be this node, or not to be it, is a warning at once, and once") {
  struct Row {
    std::vector<std::string> addresses;
    bool mine;
    bool not_mine;
  };
  for (const Row& row : {Row{{"127.0.0.1"}, true, false}, Row{{"192.0.2.1"}, false, true},
                         Row{{"127.0.0.1", "192.0.2.1"}, false, false}}) {
    // Nobody listens at the port until the name has been looked up several times.
    MasterPort* port = nullptr;
    int looks = 0;
    WaitForTest fixture([&](const DnsQuestion& question) -> DnsAnswer {
      if (question.type != type_a) return {};
      if (++looks < 4) return {.addresses = row.addresses};
      if (looks == 4) port->acceptor.listen();
      return {.addresses = {"127.0.0.1", "192.0.2.1"}};
    });
    MasterPort own(fixture.context);
    port = &own;
    MasterTarget master{"job-0.", own.number(), Until::port};
    master.wrong_if_mine = "WAITS FOR ITSELF";
    master.wrong_if_not_mine = "HOSTS FOR NOBODY";
    fixture.reach(master);
    const std::string printed = fixture.printed();
    CAPTURE(printed);
    CHECK((printed.find(", an address of this node, WAITS FOR ITSELF\n") != std::string::npos) == row.mine);
    CHECK((printed.find(" is 192.0.2.1, no address of this node, HOSTS FOR NOBODY\n") != std::string::npos) ==
          row.not_mine);
    CHECK(printed.rfind("address of this node, ") == printed.find("address of this node, "));
  }
}

TEST_CASE("a master that moves to another address is found there") {
  int looks = 0;
  WaitForTest fixture([&](const DnsQuestion& question) -> DnsAnswer {
    if (question.type != type_a) return {};
    return {.addresses = {++looks < 3 ? "127.0.0.2" : "127.0.0.3"}};
  });
  MasterPort port(fixture.context, "127.0.0.3");
  port.acceptor.listen();
  CHECK(fixture.reach({"job-0.", port.number(), Until::port, false}).addresses == Names{"127.0.0.3"});
}

TEST_CASE("the address that answered comes first") {
  WaitForTest fixture(always({.addresses = {"127.0.0.2", "127.0.0.3"}}));
  MasterPort port(fixture.context, "127.0.0.3");
  port.acceptor.listen();
  CHECK(fixture.reach({"job-0.", port.number(), Until::port, false}).addresses ==
        Names{"127.0.0.3", "127.0.0.2"});
}

TEST_CASE("a node that turns out to be the master does not wait for the port, if it may be the master") {
  WaitForTest fixture(always({.addresses = {"127.0.0.1"}}));
  MasterPort closed(fixture.context);
  CHECK(fixture.reach({"job-0.", closed.number(), Until::port, true}).mine);
  CHECK(fixture.reach({"job-0.", closed.number(), Until::name, false}).mine);
  const auto why_not = [&](std::chrono::milliseconds timeout) {
    fixture.limits.timeout = timeout;
    return fixture.why_not({"job-0.", closed.number(), Until::port, false});
  };
  CHECK_THAT(found_in_time("port closed", why_not), Catch::Contains("port closed"));
}

TEST_CASE("a name server that fails while the port is waited for changes nothing") {
  int questions = 0;
  MasterPort* port = nullptr;
  WaitForTest fixture([&](const DnsQuestion&) -> DnsAnswer {
    if (++questions <= 2) return {.addresses = {"127.0.0.1"}};
    if (questions == 8) port->acceptor.listen();
    return {.rcode = servfail};
  });
  MasterPort own(fixture.context);
  port = &own;
  CHECK(fixture.reach({"job-0.", port->number(), Until::port, false}).addresses == Names{"127.0.0.1"});
  CHECK_THAT(fixture.printed(), !Catch::Contains("SERVFAIL"));
}

TEST_CASE("the line at the end names the step that never succeeded, the servers, and the last answer") {
  struct Row {
    DnsAnswer answer;
    std::string expected;
    std::string to_do;
  };
  const std::vector<Row> rows = {
      {{.rcode = nxdomain},
       "its name never resolved: asked S for job-0 (A, AAAA): no such name (NXDOMAIN)",
       "check that node 0's pod is scheduled, and that its subdomain is the name of a headless Service"},
      {{},
       "its name never resolved: asked S for job-0 (A, AAAA): no address (NODATA)",
       "check that node 0's pod is scheduled, and that its subdomain is the name of a headless Service"},
      {{.rcode = servfail},
       "its name never resolved: asked S for job-0 (A, AAAA): server failure (SERVFAIL)",
       "check /etc/resolv.conf, and that the network lets this node reach its name servers"},
      {{.silent = true},
       "its name never resolved: asked S for job-0 (A, AAAA): no answer",
       "check /etc/resolv.conf, and that the network lets this node reach its name servers"},
      {{.addresses = {"127.0.0.1"}},
       "resolves to 127.0.0.1, port closed (connection refused)",
       "read node 0's log: its launcher has not started, or has failed"},
  };
  for (const Row& row : rows) {
    WaitForTest fixture(always(row.answer));
    MasterPort closed(fixture.context);
    if (row.answer.silent) fixture.limits.timing.query_timeout = std::chrono::milliseconds(30);
    const auto why_not = [&](std::chrono::milliseconds timeout) {
      fixture.limits.timeout = timeout;
      return fixture.why_not({"job-0.", closed.number(), Until::port, false});
    };
    CHECK(found_in_time(row.expected + "; " + row.to_do, why_not) ==
          "master job-0.:" + std::to_string(closed.number()) + " not reached in N s: " + row.expected + "; " +
              row.to_do);
  }
}

TEST_CASE("a name that resolved and is gone is reported as gone") {
  int questions = 0;
  WaitForTest fixture([&](const DnsQuestion&) -> DnsAnswer {
    if (++questions <= 2) return {.addresses = {"127.0.0.1"}};
    return {.rcode = nxdomain};
  });
  MasterPort closed(fixture.context);
  const auto why_not = [&](std::chrono::milliseconds timeout) {
    questions = 0;
    fixture.limits.timeout = timeout;
    return fixture.why_not({"job-0.", closed.number(), Until::port, false});
  };
  const std::string gone =
      "its name resolved to 127.0.0.1 and is gone: asked S for job-0 (A, AAAA): no such name";
  CHECK_THAT(found_in_time(gone, why_not), Catch::Contains(gone));
}

TEST_CASE("a text that can be no name is not waited for") {
  WaitForTest fixture(always({.rcode = nxdomain}));
  fixture.limits.timeout = std::chrono::hours(1);
  CHECK(fixture.why_not({"job 0", 23456, Until::port, false}) ==
        "master job 0:23456: 'job 0' is neither a host name nor an address");
}

std::size_t open_descriptors() {
  std::size_t count = 0;
  DIR* folder = opendir("/proc/self/fd");
  while (readdir(folder) != nullptr) ++count;
  closedir(folder);
  return count;
}

/// Waits until the test's timer is cancelled, or `at`; whether that ended it, and nothing is left open.
void check_cancelled_by(WaitForTest& fixture, MasterTarget master, asio::steady_timer& stop,
                        asio::steady_timer::time_point at = asio::steady_timer::time_point::max()) {
  using namespace asio::experimental::awaitable_operators;
  stop.expires_at(at);
  fixture.limits.timeout = std::chrono::hours(1);
  const std::size_t before = open_descriptors();
  const auto race = [&]() -> asio::awaitable<bool> {
    const auto signal = [&]() -> asio::awaitable<void> {
      boost::system::error_code error;
      co_await stop.async_wait(asio::redirect_error(asio::use_awaitable, error));
    };
    const auto result = co_await (wait_for(master, fixture.limits) || signal());
    co_return std::holds_alternative<std::monostate>(result);
  };
  CHECK(run(fixture.context, race()));
  fixture.context.restart();
  fixture.context.poll();  // nothing that is still queued may touch what is gone; the other sides close too
  CHECK(open_descriptors() == before);
}

TEST_CASE("cancelled while a name server is silent, it ends at once and leaves nothing open") {
  asio::steady_timer* stop = nullptr;
  WaitForTest fixture([&](const DnsQuestion&) -> DnsAnswer {
    stop->cancel();
    return {.silent = true};
  });
  fixture.limits.timing.query_timeout = std::chrono::hours(1);
  asio::steady_timer timer(fixture.context);
  stop = &timer;
  check_cancelled_by(fixture, {"job-0.", 23456, Until::port, false}, timer);
}

TEST_CASE("cancelled while it asks by TCP, it ends at once and leaves nothing open") {
  asio::steady_timer* stop = nullptr;
  WaitForTest fixture([&](const DnsQuestion& question) -> DnsAnswer {
    if (question.tcp) stop->cancel();
    return {.truncated = true};
  });
  asio::steady_timer timer(fixture.context);
  stop = &timer;
  check_cancelled_by(fixture, {"job-0.", 23456, Until::port, false}, timer);
}

TEST_CASE("cancelled while it sleeps, it ends at once and leaves nothing open") {
  WaitForTest fixture(always({.rcode = nxdomain}));
  fixture.limits.timing.shortest_interval = fixture.limits.timing.longest_interval = std::chrono::hours(1);
  asio::steady_timer timer(fixture.context);
  // From the line about the answer it sleeps for an hour.
  const auto cancel_at_line = [&]() -> asio::awaitable<void> {
    asio::steady_timer again(fixture.context);
    while (fixture.printed().find("no such name yet") == std::string::npos) {
      again.expires_after(std::chrono::milliseconds(1));
      co_await again.async_wait(asio::use_awaitable);
    }
    timer.cancel();
  };
  asio::co_spawn(fixture.context, cancel_at_line(), asio::detached);
  check_cancelled_by(fixture, {"job-0.", 23456, Until::port, false}, timer);
}

TEST_CASE("cancelled when its sleep has just ended, it ends at once and leaves nothing open") {
  WaitForTest fixture(always({}));  // for an address that no node has it only sleeps
  fixture.limits.timing.shortest_interval = fixture.limits.timing.longest_interval =
      std::chrono::milliseconds(10);
  // The loop pauses until both are due, and takes the earlier one first.
  asio::steady_timer stop(fixture.context), pause(fixture.context);
  const auto now = asio::steady_timer::clock_type::now();
  pause.expires_at(now + std::chrono::milliseconds(1));
  pause.async_wait([](const boost::system::error_code&) { usleep(50'000); });
  check_cancelled_by(fixture, {"255.255.255.255", 1, Until::port, false}, stop,
                     now + std::chrono::milliseconds(2));
}

TEST_CASE("cancelled while it tries the port, it ends at once and leaves nothing open") {
  WaitForTest fixture(always({.addresses = {"127.0.0.1", "127.0.0.2"}}));
  fixture.limits.timing.settle_time = std::chrono::hours(1);
  tcp::acceptor acceptor(fixture.context, {asio::ip::address_v4::loopback(), 0});
  asio::steady_timer timer(fixture.context);
  const auto accept = [&]() -> asio::awaitable<void> {
    const tcp::socket peer = co_await acceptor.async_accept(asio::use_awaitable);
    timer.cancel();  // the peer is closed only now that the probe is cancelled
  };
  asio::co_spawn(fixture.context, accept(), asio::detached);
  check_cancelled_by(fixture, {"job-0.", acceptor.local_endpoint().port(), Until::port, false}, timer);
}

TEST_CASE("on node 0 a wildcard address is this node, and there is nothing to wait for") {
  for (const std::string wildcard : {"0.0.0.0", "::", "[::]", "::ffff:0.0.0.0"}) {
    INFO(wildcard);
    WaitForTest fixture(always({.rcode = nxdomain}));
    const Reached reached = fixture.reach({wildcard, 23456, Until::name, false});
    CHECK(reached.mine);
    CHECK(reached.addresses.size() == 1);
    CHECK(fixture.printed().empty());
  }
}

TEST_CASE("a name that means every node itself has no record yet") {
  for (const std::string placeholder :
       {"127.0.0.1", "127.0.1.1", "::1", "::ffff:127.0.0.1", "0.0.0.0", "255.255.255.255"}) {
    INFO(placeholder);
    WaitForTest fixture(always({.rcode = nxdomain}));
    MasterPort port(fixture.context);
    port.acceptor.listen();
    fixture.hosts.write(placeholder + " job-0\n");
    const auto why_not = [&](std::chrono::milliseconds timeout) {
      fixture.limits.timeout = timeout;
      return fixture.why_not({"job-0", port.number(), Until::port, true, true});
    };
    constexpr const char* nobodys = "which is not the address of another node";
    CHECK_THAT(found_in_time(nobodys, why_not), Catch::Contains(nobodys));
  }
}

TEST_CASE("a loopback address of this node's own name, or given as such, is an address", "[attack]") {
  WaitForTest fixture(always({.addresses = {"127.0.0.1"}}));
  CHECK(fixture.reach({"job-0.", 1, Until::name, true, false}).mine);
  CHECK(fixture.reach({"127.0.0.1", 1, Until::name, true, true}).mine);
}

}  // namespace
}  // namespace rankshim::wait
