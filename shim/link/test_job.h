#pragma once

#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/write.hpp>
#include <catch2/catch.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "link/connection.h"
#include "link/link.h"
#include "link/test_options.h"
#include "link/wording.h"

/// Helpers for the link's tests: the nodes of a job on one event loop, and others who may connect.
namespace rankshim::link::test {

using namespace std::chrono_literals;
namespace asio = boost::asio;

/// Reserves a port for a test: bound, but available to a listener with SO_REUSEADDR.
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

/// How the job ended for a node.
struct Ended {
  std::optional<Stop> stop;
};

/// A few nodes on one event loop, each with its own link, over loopback.
struct TestJob {
  explicit TestJob(unsigned count = 3) : nnodes(count), met(count), ended(count), stops(count) {
    for (unsigned rank = 0; rank < count; ++rank) {
      Options of_node = options_of(rank, count, port.number(), "host-");
      of_node.rules = {.relink = 1000ms,
                       .ended = 1000ms,
                       .first_report = 200ms,
                       .answer = 100ms,
                       .settle = 100ms,
                       .patience = 300ms,
                       .clients = 300ms,
                       .hold = 500ms};
      of_node.timing = {.hello = 100'000ms,
                        .retry = 20ms,
                        .store = 300ms,
                        .stranger = 50ms,
                        .farewell = 500ms,
                        .end = 2000ms};
      of_node.second_port = second_port.number();
      options.push_back(of_node);
      links.emplace_back();
    }
  }

  void start(unsigned rank, std::chrono::milliseconds time = 100'000ms) {
    links[rank] = Link::make(io, options[rank]);
    asio::co_spawn(io, links[rank]->meet(std::chrono::steady_clock::now() + time),
                   [this, rank](const std::exception_ptr& thrown, MeetingResult result) {
                     if (!thrown) met[rank] = std::move(result);
                   });
  }
  void start_all() {
    for (unsigned rank = 0; rank < nnodes; ++rank) start(rank);
  }
  void end(unsigned rank, int code) {
    asio::co_spawn(io, links[rank]->finish({.code = code}),
                   [this, rank, link = links[rank]](const std::exception_ptr& thrown) {
                     if (!thrown) ended[rank] = Ended{link->stop()};
                   });
  }
  /// Runs the loop until `holds` returns true; false if it does not within 100 s.
  bool run_until(const std::function<bool()>& holds) {
    bool late = false;
    loop::Timer limit(io.get_executor(), std::chrono::steady_clock::now() + 100'000ms);
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
      REQUIRE(std::holds_alternative<Go>(*met[rank]));
      links[rank]->on_stop([this, rank](const Stop& stop) { stops[rank] = stop; });
    }
  }
  /// Why this node was not launched; empty if it was.
  std::string refusal(unsigned rank) { return met[rank] ? in_words(*met[rank]) : ""; }
  /// How many nodes node 0 waits for.
  unsigned missing() {
    const std::string line = links[0]->waiting();
    return line.empty() ? 0 : first_number<unsigned>(text_after(line, "waiting for ")).value();
  }
  /// Why this node has no link.
  std::string unlinked(unsigned rank) {
    CHECK(std::holds_alternative<Unlinked>(*met[rank]));
    return refusal(rank);
  }
  bool told(unsigned rank) {
    return run_until([&] { return stops[rank].has_value(); });
  }

  unsigned nnodes;
  KeptPort port;
  KeptPort second_port;
  asio::io_context io{1};
  asio::executor_work_guard<asio::io_context::executor_type> work{io.get_executor()};
  std::vector<Options> options;
  std::vector<std::optional<MeetingResult>> met;
  std::vector<std::optional<Ended>> ended;
  std::vector<std::optional<Stop>> stops;
  std::vector<std::shared_ptr<Link>> links;
};

/// Somebody who connects to the hub but is not a peer, with some blocking calls.
struct RawClient {
  RawClient(TestJob& to, std::uint16_t port) : job(to), socket(to.io) {
    socket.connect({asio::ip::address_v4::loopback(), port});
    socket.non_blocking(true);
  }
  explicit RawClient(TestJob& to) : RawClient(to, to.port.number()) {}
  void write(std::string_view bytes) { asio::write(socket, asio::buffer(bytes)); }
  /// Whether the hub closes the connection; what it sends before that is in `received`.
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

/// Passes bytes between the peers and the hub, until told to cut the connection.
struct Relay {
  explicit Relay(TestJob& of) : job(of), acceptor(of.io) {
    REQUIRE_FALSE(open_listener(acceptor, 0, 16));
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
                            const auto pass_on = [=, this] {
                              boost::system::error_code failed;
                              asio::write(*to, asio::buffer(buffer->data(), size), failed);
                              passed += size;
                              pass(from, to);
                            };
                            if (!holds) return pass_on();
                            held.emplace_back(pass_on);
                          });
  }
  /// Lets nothing through until let_go().
  void hold() { holds = true; }
  void let_go() {
    holds = false;
    for (const auto& pass_on : std::exchange(held, {})) pass_on();
  }
  void cut() {
    for (const auto& end : ends) end->close();
  }
  TestJob& job;
  tcp::acceptor acceptor;
  std::vector<std::shared_ptr<tcp::socket>> ends;
  std::vector<std::function<void()>> held;
  bool holds = false;
  std::size_t passed = 0;
};

}  // namespace rankshim::link::test
