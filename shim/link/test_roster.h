#pragma once

#include <catch2/catch.hpp>
#include <map>
#include <string>

#include "base/fault.h"
#include "link/roster.h"
#include "link/wording.h"

/// Helpers shared by the roster's tests.

namespace rankshim::link::test {

using namespace std::chrono_literals;

inline Hello hello_of(unsigned rank, unsigned nnodes = 3) {
  return {.run = "job",
          .instance = "instance-" + std::to_string(rank),
          .rank = rank,
          .nnodes = nnodes,
          .workers = 2,
          .launcher = "torchrun",
          .master = "host-0",
          .port = 29500,
          .host = "host-" + std::to_string(rank)};
}

inline const Culprit stopped{.cause = Cause::stop_requested, .code = 143, .signal = 15};

/// What the nodes are told, in the words of the last line.
inline std::string words(const Stop& stop) {
  std::string text = in_words(stop.culprit);
  for (const Culprit& other : stop.others) text += "; " + in_words(other);
  return text;
}

/// A roster of three nodes, its clock, and what it last said to each connection.
struct Story {
  explicit Story(Hello own = hello_of(0), Roster::Rules rules = {}) : roster(std::move(own), rules, now) {
    roster.listens(now);
  }

  void arrive(ConnectionId id, const Hello& hello) {
    Hello seen = hello;
    seen.seen = "10.0.0." + std::to_string(id);
    if (seen.address.empty()) seen.address = seen.seen;  // no proxy is between
    roster.arrived(id, seen, now);
    collect();
  }
  void arrive(unsigned rank) { arrive(rank, hello_of(rank)); }
  void say(ConnectionId id, const Message& message) { roster.received(id, message, now), collect(); }
  void leave(ConnectionId id, const Roster::Disconnect& how = {}) {
    roster.disconnected(id, now, how), collect();
  }
  /// Lets time pass as the hub does, with each tick when it is due.
  void pass(std::chrono::milliseconds time) {
    const Time end = now + time;
    for (Time next = roster.tick(now); next <= end && next > now; next = roster.tick(now)) {
      collect();
      now = next;
    }
    collect();
    now = end;
  }
  [[nodiscard]] bool ready() const { return roster.ready(now); }
  void all_launch() {
    arrive(1), arrive(2);
    REQUIRE(ready());
    roster.launch(now);
    collect();
  }
  void collect() {
    for (Outgoing& outgoing : roster.take_outgoing()) {
      for (const ConnectionId to : outgoing.to) {
        if (outgoing.message) last[to] = *outgoing.message;
        if (outgoing.closes()) closed[to] = true;
      }
    }
  }
  template <class Type>
  const Type* told(ConnectionId id) {
    const auto found = last.find(id);
    return found == last.end() ? nullptr : std::get_if<Type>(&found->second);
  }
  /// Why a connection was sent away; empty if it was not.
  std::string refusal(ConnectionId id) {
    const auto found = last.find(id);
    if (found == last.end()) return "";
    if (const auto* stranger = std::get_if<link::Stranger>(&found->second)) return in_words(stranger->why);
    const auto result = failed_meeting(found->second);
    return result ? in_words(*result) : "";
  }
  /// What this node and the nodes that it informs wait for.
  [[nodiscard]] std::string waiting() const { return in_words(roster.waiting()); }
  std::string waiting(ConnectionId id) { return in_words(*told<Waiting>(id)); }

  Time now = Time(1000s);
  Roster roster;
  std::map<ConnectionId, Message> last;
  std::map<ConnectionId, bool> closed;
};

}  // namespace rankshim::link::test
