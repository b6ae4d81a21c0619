#include "wait/dns.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "base/files.h"
#include "wait/test_network.h"

namespace rankshim::wait {
namespace {

using namespace test;
using Names = std::vector<std::string>;

constexpr std::string_view k8s =
    "search ns.svc.cluster.local svc.cluster.local cluster.local\noptions ndots:5\n";

/// A resolver, its files and its name server.
struct Fixture {
  Fixture(std::string name, DnsServer::Handler handler, std::string_view conf = {},
          const Schedule& schedule = quick(), double chance = 0)
      : server(context, std::move(handler)),
        resolv_conf(std::string(conf) + "nameserver " + server.address() + "\n"),
        resolver(std::move(name), {resolv_conf.path(), hosts.path()}, schedule, chance) {}

  const Answer& look(std::chrono::milliseconds limit = std::chrono::seconds(10)) {
    run(context, one_look(limit));
    return resolver.answer();
  }
  asio::awaitable<int> one_look(std::chrono::milliseconds limit) {
    co_await resolver.look(Clock::now() + limit);
    co_return 0;
  }
  Names addresses() {
    Names texts;
    for (const auto& address : look().addresses) texts.push_back(address.to_string());
    return texts;
  }

  asio::io_context context;
  DnsServer server;
  TemporaryFile resolv_conf;
  TemporaryFile hosts;
  Resolver resolver;
};

/// The answer for one name; NXDOMAIN for all others.
DnsServer::Handler only(std::string name, DnsAnswer answer) {
  return [name, answer](const DnsQuestion& question) {
    return question.name == name ? answer : DnsAnswer{.rcode = nxdomain};
  };
}

TEST_CASE("a literal address, a name of the hosts file and localhost need no query") {
  struct Row {
    std::string name;
    Names expected;
  };
  const std::vector<Row> rows = {{"10.1.2.3", {"10.1.2.3"}},          {"[fd00::1]", {"fd00::1"}},
                                 {"job-0", {"10.1.2.4", "fd00::4"}},  {"job-0.", {"10.1.2.4", "fd00::4"}},
                                 {"localhost", {"127.0.0.1", "::1"}}, {"x.localhost", {"127.0.0.1", "::1"}}};
  for (const Row& row : rows) {
    CAPTURE(row.name);
    Fixture fixture(row.name, always({.rcode = nxdomain}));
    fixture.hosts.write("10.1.2.4 JOB-0\nfd00::4 job-0\n");
    CHECK(fixture.addresses() == row.expected);
    CHECK(fixture.server.asked().empty());
  }
}

TEST_CASE("the hosts file is read again at each look") {
  Fixture fixture("job-0", always({.rcode = nxdomain}));
  CHECK(fixture.addresses().empty());
  fixture.hosts.write("10.1.2.4 job-0\n");
  CHECK(fixture.addresses() == Names{"10.1.2.4"});
}

TEST_CASE("one address family suffices, whatever the other's answer") {
  for (const Rcode other : {noerror, nxdomain, servfail, rcode_refused}) {
    for (const std::uint16_t family : {type_a, type_aaaa}) {
      CAPTURE(int(other), family);
      Fixture fixture("job-0.", [=](const DnsQuestion& question) -> DnsAnswer {
        if (question.type != family) return {.rcode = other};
        return {.addresses = {"10.0.0.1", "fd00::1"}};
      });
      CHECK(fixture.addresses() == Names{family == type_a ? "10.0.0.1" : "fd00::1"});
    }
  }
}

TEST_CASE("a server that answers A and drops AAAA costs no timeout") {
  Timing timing = quick();
  Fixture fixture(
      "job-0.",
      [](const DnsQuestion& question) -> DnsAnswer {
        return {.addresses = {"10.0.0.1"}, .silent = question.type == type_aaaa};
      },
      {}, timing);
  CHECK(fixture.addresses() == Names{"10.0.0.1"});
}

TEST_CASE("IPv4 comes before IPv6, and a CNAME is followed") {
  Fixture fixture("job-0.",
                  always({.addresses = {"10.0.0.1", "10.0.0.2", "fd00::1"}, .cname = "pod.example"}));
  CHECK(fixture.addresses() == Names{"10.0.0.1", "10.0.0.2", "fd00::1"});
}

TEST_CASE("a CNAME into nowhere is no address") {
  Fixture fixture("job-0.", always({.cname = "pod.example"}));
  CHECK(fixture.look().status == QueryStatus::no_address);
}

TEST_CASE("a truncated answer is asked for again by TCP") {
  Fixture fixture("job-0.", [](const DnsQuestion& question) -> DnsAnswer {
    return {.addresses = {"10.0.0.1"}, .truncated = !question.tcp};
  });
  CHECK(fixture.addresses() == Names{"10.0.0.1"});
  CHECK(std::count(fixture.server.asked().begin(), fixture.server.asked().end(), "job-0 A tcp") == 1);
}

TEST_CASE("with use-vc all queries go by TCP") {
  Fixture fixture("job-0.", always({.addresses = {"10.0.0.1"}}), "options use-vc\n");
  CHECK(fixture.addresses() == Names{"10.0.0.1"});
  for (const std::string& asked : fixture.server.asked()) CHECK_THAT(asked, Catch::EndsWith(" tcp"));
}

TEST_CASE("where the first name of the search list has the address nothing else is asked") {
  Fixture fixture("job-0", always({.addresses = {"10.0.0.1"}}), k8s);
  CHECK(fixture.addresses() == Names{"10.0.0.1"});
  CHECK(fixture.server.asked() == Names{"job-0.ns.svc.cluster.local A", "job-0.ns.svc.cluster.local AAAA"});
}

TEST_CASE("the first name of the search list that has an address wins") {
  Fixture fixture(
      "job-0",
      [](const DnsQuestion& question) -> DnsAnswer {
        if (question.name == "job-0") return {.addresses = {"10.0.0.9"}};
        if (question.name == "job-0.cluster.local") return {.addresses = {"10.0.0.3"}};
        return {.rcode = nxdomain};
      },
      k8s);
  CHECK(fixture.addresses() == Names{"10.0.0.3"});
}

TEST_CASE("queries and answers are described in words") {
  struct Row {
    DnsServer::Handler handler;
    QueryStatus status;
    std::string reason;
    std::string account;
  };
  const std::vector<Row> rows = {
      {always({.rcode = nxdomain}), QueryStatus::no_name, "no such name yet (asked S)",
       "asked S for job-0.a.example, job-0 (A, AAAA): no such name (NXDOMAIN)"},
      {always({}), QueryStatus::no_address, "the name exists, but has no address yet (asked S)",
       "asked S for job-0.a.example, job-0 (A, AAAA): no address (NODATA)"},
      {always({.rcode = servfail}), QueryStatus::server_failure, "the name server failed (SERVFAIL from S)",
       "asked S for job-0.a.example, job-0 (A, AAAA): server failure (SERVFAIL)"},
      {always({.rcode = rcode_refused}), QueryStatus::refused,
       "the name server refuses to answer (REFUSED from S)",
       "asked S for job-0.a.example, job-0 (A, AAAA): refused (REFUSED)"},
      {always({.silent = true}), QueryStatus::silent, "no answer from the name server S",
       "asked S for job-0.a.example, job-0 (A, AAAA): no answer"},
      {only("job-0", {.silent = true}), QueryStatus::no_name, "no such name yet (asked S)",
       "asked S for job-0.a.example (A, AAAA): no such name (NXDOMAIN); for job-0 (A, AAAA): no answer"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.reason);
    const bool waits = row.account.ends_with("no answer");
    Fixture fixture("job-0", row.handler, "search a.example\n",
                    waits ? quick(std::chrono::milliseconds(200)) : quick());
    const auto with_server = [&](std::string text) {
      return text.replace(text.find(" S") + 1, 1, fixture.server.address());
    };
    const bool cut = row.status == QueryStatus::silent;  // waiting for the timeout would add nothing
    const Answer& answer = fixture.look(cut ? std::chrono::milliseconds(50) : std::chrono::seconds(10));
    CHECK(answer.status == row.status);
    CHECK(answer.reason() == with_server(row.reason));
    CHECK(answer.account() == with_server(row.account));
  }
}

TEST_CASE("a server whose port is closed is one that cannot be reached") {
  asio::io_context context;
  asio::ip::udp::socket closed(context, {asio::ip::address_v4::loopback(), 0});
  const std::string server = "127.0.0.1:" + std::to_string(closed.local_endpoint().port());
  closed.close();
  Fixture fixture("job-0.", always({}));
  fixture.resolv_conf.write("nameserver " + server + "\n");
  CHECK(fixture.look().status == QueryStatus::unreachable);
  CHECK(fixture.look().servers == server);
}

TEST_CASE("the second server is asked where the first fails, is silent or is no address") {
  asio::io_context other;
  for (const DnsAnswer& first : {DnsAnswer{.rcode = servfail}, DnsAnswer{.silent = true}}) {
    Fixture fixture("job-0.", always({.addresses = {"10.0.0.1"}}), {},
                    first.silent ? quick(std::chrono::milliseconds(30)) : quick());
    DnsServer bad(fixture.context, always(first));
    fixture.resolv_conf.write("nameserver " + bad.address() + "\nnameserver no-address\nnameserver " +
                              fixture.server.address() + "\n");
    CHECK(fixture.addresses() == Names{"10.0.0.1"});
    CHECK_FALSE(bad.asked().empty());
  }
}

TEST_CASE("without resolv.conf the name server is this node, and we say why") {
  asio::io_context context;
  TemporaryFile hosts;
  Resolver resolver("job-0.", {"/nonexistent/resolv.conf", hosts.path()}, quick());
  const auto look = [&]() -> asio::awaitable<int> {
    co_await resolver.look(Clock::now() + std::chrono::milliseconds(200));
    co_return 0;
  };
  run(context, look());
  CHECK(resolver.answer().servers == "127.0.0.1 (no nameserver in /nonexistent/resolv.conf)");
}

TEST_CASE("resolv.conf is read again at each look") {
  Fixture fixture("job-0", only("job-0.b.example", {.addresses = {"10.0.0.1"}}), "search a.example\n");
  CHECK(fixture.addresses().empty());
  fixture.resolv_conf.write("search b.example\nnameserver " + fixture.server.address() + "\n");
  CHECK(fixture.addresses() == Names{"10.0.0.1"});
}

TEST_CASE("a text that cannot be a name is reported as none") {
  for (const std::string& name :
       {std::string("a..b"), std::string("a b"), std::string(64, 'x'), std::string(300, 'x')}) {
    CAPTURE(name);
    Fixture fixture(name, always({.rcode = nxdomain}), k8s);
    CHECK(fixture.look().status == QueryStatus::bad_name);
    CHECK(fixture.server.asked().empty());
  }
}

TEST_CASE("underscores are fine in a name") {
  Fixture fixture("job_master_0.", always({.addresses = {"10.0.0.1"}}));
  CHECK(fixture.addresses() == Names{"10.0.0.1"});
}

TEST_CASE("between full searches only the likeliest name is queried, by one query") {
  Timing timing = quick();
  timing.search_interval = std::chrono::hours(1);
  bool there = false;
  Fixture fixture(
      "job-0.ns",
      [&](const DnsQuestion& question) -> DnsAnswer {
        if (there && question.name == "job-0.ns.svc.cluster.local") return {.addresses = {"10.0.0.1"}};
        return {.rcode = nxdomain};
      },
      k8s, timing);
  fixture.look();
  CHECK(fixture.server.asked().size() == 8);
  CHECK(fixture.look().account() == "asked " + fixture.server.address() +
                                        " for job-0.ns.ns.svc.cluster.local, job-0.ns.svc.cluster.local, "
                                        "job-0.ns.cluster.local, job-0.ns (A, AAAA): "
                                        "no such name (NXDOMAIN)");
  REQUIRE(fixture.server.asked().size() == 9);
  CHECK(fixture.server.asked().back() == "job-0.ns.svc.cluster.local A");
  there = true;
  CHECK(fixture.addresses() == Names{"10.0.0.1"});
}

/// A large job's schedule, a hundred times faster than in production: 2,048 nodes search every 24 s.
Schedule of_many() { return {quick(), 2048}; }

TEST_CASE("the first look of a large job's node asks one question, and the whole list comes later") {
  Fixture fixture("job-0", always({.rcode = nxdomain}), k8s, of_many(), 0.2);
  const Names first = {"job-0.ns.svc.cluster.local A"};
  const auto begin = Clock::now();
  fixture.look();
  CHECK(Clock::now() - begin >= std::chrono::milliseconds(200));  // its turn
  CHECK(fixture.server.asked() == first);
  CHECK(fixture.resolver.answer().account() ==
        "asked " + fixture.server.address() +
            " for job-0.ns.svc.cluster.local (A, AAAA): no such name (NXDOMAIN)");
  fixture.look();
  CHECK(fixture.server.asked().size() == 2);
}

TEST_CASE("the first of a large job's nodes, as node 0, searches at once") {
  Fixture fixture("job-0", always({.rcode = nxdomain}), k8s, of_many());
  fixture.look();
  CHECK(fixture.server.asked().size() == 8);
}

TEST_CASE("a large job's node finds the address with two questions") {
  Fixture fixture("job-0", always({.addresses = {"10.0.0.1", "fd00::1"}}), k8s, of_many(), 0.001);
  CHECK(fixture.addresses() == Names{"10.0.0.1", "fd00::1"});
  CHECK(fixture.server.asked() == Names{"job-0.ns.svc.cluster.local A", "job-0.ns.svc.cluster.local AAAA"});
}

TEST_CASE("a large job's node does not take the likeliest name before those that come first") {
  Fixture fixture("job-0.ns", always({.addresses = {"10.0.0.1"}}), k8s, of_many(), 0.01);
  CHECK(fixture.addresses() == Names{"10.0.0.1"});
  CHECK(fixture.server.asked().back() == "job-0.ns.ns.svc.cluster.local AAAA");
}

TEST_CASE("a large job's node asks a name server that fails for the likeliest name alone") {
  Fixture fixture("job-0", always({.rcode = rcode_refused}), k8s, of_many(), 0.2);
  for (std::size_t look = 1; look <= 3; ++look) {
    CHECK(fixture.look().status == QueryStatus::refused);
    CHECK(fixture.server.asked() == Names(2 * look, "job-0.ns.svc.cluster.local A"));  // each question twice
  }
}

TEST_CASE("a large job's node does not wait for its turn where it asks no name server") {
  Fixture fixture("job-0", always({.rcode = nxdomain}), k8s, of_many(), 1);
  fixture.hosts.write("10.1.2.4 job-0\n");
  CHECK_FALSE(fixture.look(std::chrono::milliseconds(0)).addresses.empty());
}

TEST_CASE("a server that answers A and drops AAAA costs a look between searches no timeout") {
  Timing timing = quick();
  timing.search_interval = std::chrono::hours(1);
  timing.query_timeout = std::chrono::seconds(30);
  bool there = false;
  Fixture fixture(
      "job-0.",
      [&](const DnsQuestion& question) -> DnsAnswer {
        if (there) return {.addresses = {"10.0.0.1"}, .silent = question.type == type_aaaa};
        return {.rcode = nxdomain};
      },
      {}, timing);
  fixture.look();
  there = true;
  CHECK(fixture.addresses() == Names{"10.0.0.1"});
}

TEST_CASE("a name that exists without an address is watched in both families") {
  Timing timing = quick();
  timing.search_interval = std::chrono::hours(1);
  bool there = false;
  Fixture fixture(
      "job-0",
      [&](const DnsQuestion&) -> DnsAnswer {
        if (there) return {.addresses = {"fd00::1"}};
        return {};
      },
      k8s, timing);
  CHECK(fixture.look().status == QueryStatus::no_address);
  CHECK(fixture.look().status == QueryStatus::no_address);
  CHECK(fixture.server.asked().size() == 10);
  there = true;
  CHECK(fixture.addresses() == Names{"fd00::1"});
}

TEST_CASE("the whole search list is asked for again now and then") {
  Timing timing = quick();
  timing.search_interval = std::chrono::milliseconds(0);
  bool there = false;
  Fixture fixture(
      "job-0",
      [&](const DnsQuestion& question) -> DnsAnswer {
        if (there && question.name == "job-0") return {.addresses = {"10.0.0.1"}};
        return {.rcode = nxdomain};
      },
      k8s, timing);
  CHECK(fixture.look().status == QueryStatus::no_name);
  there = true;
  const auto enough = Clock::now() + std::chrono::seconds(10);
  while (fixture.look().addresses.empty() && Clock::now() < enough)
    continue;  // ten times as long as the first took
  CHECK(fixture.addresses() == Names{"10.0.0.1"});
}

TEST_CASE("a look cut short leaves the last answer alone") {
  bool silent = false;
  Fixture fixture("job-0.",
                  [&](const DnsQuestion&) -> DnsAnswer { return {.rcode = nxdomain, .silent = silent}; });
  CHECK(fixture.look().status == QueryStatus::no_name);
  silent = true;
  CHECK(fixture.look(std::chrono::milliseconds(5)).status == QueryStatus::no_name);
}

TEST_CASE("a negative answer is valid only while its TTL is seen to run down") {
  std::uint32_t ttl = 30;
  Fixture fixture("job-0.",
                  [&](const DnsQuestion&) -> DnsAnswer { return {.rcode = nxdomain, .soa_ttl = ttl}; });
  struct Row {
    std::uint32_t ttl;
    std::chrono::milliseconds valid_for;
  };
  using std::chrono::seconds;
  for (const Row& row : {Row{30, seconds(0)}, Row{30, seconds(0)}, Row{20, seconds(19)}, Row{2, seconds(1)},
                         Row{1, seconds(0)}, Row{30, seconds(0)}, Row{29, seconds(28)}}) {
    CAPTURE(row.ttl);
    ttl = row.ttl;
    fixture.look();
    CHECK(fixture.resolver.answer().valid_for == row.valid_for);
  }
}

TEST_CASE("a FIFO in the place of the hosts file or resolv.conf is ignored with a warning", "[attack]") {
  asio::io_context context;
  const TemporaryFile hosts, conf;
  for (const TemporaryFile* file : {&hosts, &conf}) {
    REQUIRE(unlink(file->path().c_str()) == 0);
    REQUIRE(mkfifo(file->path().c_str(), 0600) == 0);
  }
  CapturedStderr captured;
  Resolver resolver("job-0.", {conf.path(), hosts.path()}, quick());
  for (int look = 0; look < 2; ++look) {
    run(context, [&]() -> asio::awaitable<int> {
      co_await resolver.look(Clock::now() + std::chrono::milliseconds(50));
      co_return 0;
    }());
  }
  const std::string printed = captured.text();
  for (const TemporaryFile* file : {&hosts, &conf}) {
    const auto first =
        printed.find(file->path() + " cannot be read (it is not a regular file): it is treated as empty");
    CHECK(first != std::string::npos);
    CHECK(printed.find(file->path(), first + 1) == std::string::npos);  // logged once
  }
}

TEST_CASE("what is beyond the limits of the hosts file and resolv.conf is ignored with a warning",
          "[attack]") {
  struct Row {
    std::string hosts, conf, warning;
  };
  std::string addresses, long_file, servers, search = "search";
  for (unsigned host = 0; host < 200; ++host) addresses += "10.0.0." + std::to_string(host) + " job-0\n";
  while (long_file.size() <= largest_file) long_file += "10.0.0.1 other\n";
  for (unsigned one = 0; one < 5; ++one) servers += "nameserver 127.0.0.1:1\n";
  for (unsigned one = 0; one < 100; ++one) search += " d" + std::to_string(one);
  for (const Row& row : {Row{addresses, "", "gives job-0 at least 48 addresses: only the first 48 are tried"},
                         Row{long_file, "", "is larger than 1 MiB: the rest of it is ignored"},
                         Row{"", servers, "has 5 name servers: only the first 3 are asked"},
                         Row{"", search + "\n", "has 100 search domains: only the first 32 are tried"}}) {
    CAPTURE(row.warning);
    asio::io_context context;
    const TemporaryFile hosts(row.hosts), conf(row.conf);
    CapturedStderr captured;
    Resolver resolver("job-0", {conf.path(), hosts.path()}, quick());
    for (int look = 0; look < 2; ++look)
      run(context, [&]() -> asio::awaitable<int> {
        co_await resolver.look(Clock::now() + std::chrono::milliseconds(50));
        co_return 0;
      }());
    const std::string printed = captured.text();
    REQUIRE(printed.find((row.hosts.empty() ? conf : hosts).path() + " " + row.warning) != std::string::npos);
    CHECK(printed.find(row.warning) == printed.rfind(row.warning));  // logged once
  }
}

}  // namespace
}  // namespace rankshim::wait
