#include "link/roster.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ranges>
#include <utility>

#include "base/fault.h"
#include "base/signals.h"
#include "base/text.h"
#include "link/node_names.h"

namespace rankshim::link {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t most_sentences = 3;
constexpr std::size_t most_strangers = 64;

std::string who(const Hello& hello, const std::string& seen) {
  return node_name(hello.rank, hello.host, seen);
}

std::string shown(const std::string& text) { return text.empty() ? "none" : in_quotes(text); }

}  // namespace

std::string_view word(Node::State state) {
  static constexpr std::array<std::string_view, 8> words = {"missing",       "here", "running", "failed",
                                                            "asked to stop", "lost", "stopped", "done"};
  return words[static_cast<std::size_t>(state)];
}

Roster::Roster(Hello own, Rules rules, Time now)
    : rules_(std::move(rules)),
      nodes_(own.nnodes),
      last_arrival_(now),
      next_report_(now + rules_.first_report) {
  nodes_[0].hello = std::move(own);
  nodes_[0].connection = myself;
  nodes_[0].state = Node::State::here;
  rank_of_[myself] = 0;
}

// ---- meeting ----

/// Whether it is none of the job's: the job can start without it.
bool Roster::is_foreign(const Hello& hello) const {
  const Hello& own = nodes_[0].hello;
  return hello.attempt != own.attempt || hello.run != own.run;
}

/// Whether it is about to be removed.
bool Roster::is_of_earlier_attempt(const Hello& hello) const {
  const auto theirs = parse_number<std::uint64_t>(hello.attempt);
  const auto ours = parse_number<std::uint64_t>(nodes_[0].hello.attempt);
  return theirs && ours && *theirs < *ours;
}

/// Why the node cannot be a part of the job; empty: it can.
std::string Roster::fault_of(const Hello& hello, const std::string& seen) const {
  const Hello& own = nodes_[0].hello;
  const std::string name = who(hello, seen), hub = who(own, "");
  if (hello.attempt != own.attempt)
    return fmt::format("{} belongs to attempt {} of the job, {} to attempt {}", name, shown(hello.attempt),
                       hub, shown(own.attempt));
  if (hello.run != own.run)
    return fmt::format(
        "{} belongs to the job {}, {} to the job {}: the master's name {} leads to another "
        "job, or RANKSHIM_RUN_ID is not the same on all nodes",
        name, shown(hello.run), hub, shown(own.run), in_quotes(hello.master));
  struct Agreed {
    std::string_view what;
    std::string theirs, ours;
    std::string_view option;
  };
  const Agreed agreed[] = {
      {"nnodes", std::to_string(hello.nnodes), std::to_string(own.nnodes), "RANKSHIM_NNODES"},
      {"master port", std::to_string(hello.port), std::to_string(own.port), "RANKSHIM_MASTER_PORT"},
      {"launcher", shown(hello.launcher), shown(own.launcher), "RANKSHIM_LAUNCHER"},
      {"job_restarts", shown(hello.job_restarts), shown(own.job_restarts), "RANKSHIM_JOB_RESTARTS"},
      {"workers per node", std::to_string(hello.workers),
       std::to_string(rules_.equal_workers ? own.workers : hello.workers), "RANKSHIM_NPROC_PER_NODE"},
  };
  for (const auto& [what, theirs, ours, option] : agreed)
    if (theirs != ours)
      return fmt::format("{} has {} {}, {} has {}; set {} to the same on all nodes", name, what, theirs, hub,
                         ours, option);
  if (hello.rank >= own.nnodes)
    return fmt::format("{} is out of range: {} nodes have the ranks 0 to {}; set RANKSHIM_NODE_RANK", name,
                       own.nnodes, own.nnodes - 1);
  return hello.rank == 0 ? twice(hello, seen) : "";
}

std::string Roster::twice(const Hello& hello, const std::string& seen) const {
  const Node& older = nodes_[hello.rank];
  return fmt::format("two nodes have the rank {}: {} and {}; set RANKSHIM_NODE_RANK on each", hello.rank,
                     who(older.hello, older.seen), who(hello, seen));
}

void Roster::arrived(ConnectionId id, const Hello& hello, const std::string& seen, Time now) {
  if (launched()) return come_back(id, hello);
  if (met_) {
    if (hello.rank < nodes_.size()) nodes_[hello.rank].state = Node::State::here;
    return send(id, std::get<Refuse>(*met_), true);
  }
  if (wrong_.size() > nodes_.size() + most_strangers) return outgoing_.push_back({{id}, std::nullopt, true});
  last_arrival_ = now;
  if (const std::string fault = fault_of(hello, seen); !fault.empty()) {
    if (is_of_earlier_attempt(hello)) return send(id, Refuse{exit_code::configuration, fault}, true);
    if (is_foreign(hello) && hello.rank == 0)  // its job's name leads here for a while: no fault of either
      return send(id, Refuse{0, fault}, true);
    wrong_.push_back({id, hello, seen, fault});
    if (wrong_.size() <= most_sentences) send(myself, waiting());  // it is logged at once
    return;
  }
  const Node& node = nodes_[hello.rank];
  if (!node.connection || node.hello.instance == hello.instance) return take_place(id, hello, seen);
  wrong_.push_back({id, hello, seen, twice(hello, seen), now + rules_.answer});
  send(*node.connection, Ping{});
}

void Roster::take_place(ConnectionId id, const Hello& hello, const std::string& seen) {
  Node& node = nodes_[hello.rank];
  connect(node, id);
  node.hello = hello;
  node.seen = seen;
  node.state = Node::State::here;
}

/// In place of an older connection.
void Roster::connect(Node& node, ConnectionId id) {
  if (node.connection) {
    rank_of_.erase(*node.connection);
    outgoing_.push_back({{*node.connection}, std::nullopt, true});
  }
  node.connection = id;
  rank_of_[id] = static_cast<unsigned>(&node - nodes_.data());
}

void Roster::gone(ConnectionId id, Time now) {
  std::erase_if(wrong_, [&](const Wrong& wrong) { return wrong.id == id; });
  const auto found = rank_of_.find(id);
  if (found == rank_of_.end()) return;
  const unsigned rank = found->second;
  rank_of_.erase(found);
  Node& node = nodes_[rank];
  node.connection.reset();
  if (!met_) {
    node.state = Node::State::missing;
    come_again(rank, now);
  } else if (node.state == Node::State::running && stop_) {
    node.state = Node::State::stopped;
  } else if (node.state == Node::State::running) {
    node.lost_at = now + rules_.relink;
  }
}

/// Another node with the rank can have the place now.
void Roster::come_again(unsigned rank, Time now) {
  std::vector<Wrong> others;
  for (Wrong& wrong : std::exchange(wrong_, {}))
    (wrong.hello.rank == rank ? others : wrong_).push_back(std::move(wrong));
  for (const Wrong& other : others) arrived(other.id, other.hello, other.seen, now);
}

void Roster::store_client(const std::string& address, Time now) {
  if (met_ || std::ranges::find(store_clients_, address) != store_clients_.end()) return;
  if (store_clients_.size() >= nodes_.size()) return;
  store_clients_.push_back(address);
  last_arrival_ = now;
}

bool Roster::ready() const {
  return !met_ && rank_of_.size() == nodes_.size() &&
         std::ranges::all_of(wrong_, [&](const Wrong& wrong) { return is_foreign(wrong.hello); });
}

/// When what is wrong ends the meeting: at once if nobody else can come, else if nobody has come for a while.
Time Roster::refused_at() const {
  if (wrong_.empty() && store_clients_.empty()) return Time::max();
  std::size_t most = nodes_.size(), least = nodes_.size();
  bool foreign = store_clients_.empty();
  for (const Wrong& wrong : wrong_) {
    if (wrong.contest != Time::max()) return Time::max();  // soon it is clear
    if (is_foreign(wrong.hello)) continue;
    foreign = false;
    most = std::max<std::size_t>(most, wrong.hello.nnodes);
    least = std::min<std::size_t>(least, wrong.hello.nnodes);
  }
  const std::size_t count = rank_of_.size() + wrong_.size() + store_clients_.size();
  if (count >= most && !foreign) return last_arrival_;
  if (count >= least) return last_arrival_ + rules_.settle;
  return foreign ? Time::max() : last_arrival_ + rules_.patience;
}

void Roster::refuse_or_unlink() {
  if (wrong_.empty())
    return end_meeting(
        {.sentence = "a node without rankshim, or without its link, came to the master's port: " +
                     joined(store_clients_)});
  std::string sentence = first_faults();
  if (wrong_.size() > most_sentences)
    sentence += fmt::format("; and {} more", wrong_.size() - most_sentences);
  end_meeting({exit_code::configuration, sentence});
}

void Roster::give_up() {
  const Waiting missing = waiting();
  end_meeting({exit_code::unreachable,
               fmt::format("{} of {} nodes did not come in time: {}{}", missing.count, missing.nnodes,
                           missing_ranks(missing), missing.note.empty() ? "" : "; " + missing.note)});
}

void Roster::end_meeting(const Refuse& verdict) {
  met_ = verdict;
  send_all(verdict, true);
}

Waiting Roster::waiting() const {
  constexpr std::size_t most = 10;
  Waiting waiting{.nnodes = static_cast<unsigned>(nodes_.size())};
  for (unsigned rank = 0; rank < nodes_.size(); ++rank) {
    if (nodes_[rank].connection) continue;
    if (++waiting.count <= most) waiting.missing.push_back(rank);
  }
  waiting.note = first_faults();
  return waiting;
}

std::string Roster::first_faults() const {
  return joined(wrong_ | std::views::take(most_sentences) | std::views::transform(&Wrong::sentence), "; ");
}

// ---- running ----

Go Roster::go_for(unsigned rank) const {
  Go go;
  for (unsigned i = 0; i < nodes_.size(); ++i) {
    go.attempt = std::max(go.attempt, nodes_[i].hello.restarts);  // a new container knows of none
    if (i < rank) go.offset += nodes_[i].hello.workers;
    go.world += nodes_[i].hello.workers;
  }
  return go;
}

void Roster::launch() {
  for (const Wrong& wrong : std::exchange(wrong_, {}))
    send(wrong.id, Refuse{exit_code::configuration, wrong.sentence}, true);
  Go go = go_for(0);
  met_ = go;
  for (Node& node : nodes_) {
    node.state = Node::State::running;
    send(*node.connection, go);
    go.offset += node.hello.workers;
  }
}

void Roster::come_back(ConnectionId id, const Hello& hello) {
  Node* node = hello.rank < nodes_.size() ? &nodes_[hello.rank] : nullptr;
  if (node == nullptr || hello.session != nodes_[0].hello.instance ||
      hello.instance != node->hello.instance || node->state == Node::State::lost) {
    return send(
        id, Refuse{exit_code::configuration, fmt::format("the job has started without {}", who(hello, ""))},
        true);
  }
  connect(*node, id);
  node->lost_at = Time::max();
  send(id, go_for(hello.rank));  // the first one may have been lost with the connection
  if (stop_) send(id, *stop_);
  if (all_done()) send(id, End{});
}

void Roster::said(ConnectionId id, const Message& message, Time now) {
  if (std::holds_alternative<Ping>(message)) return send(id, Pong{});
  const auto found = rank_of_.find(id);
  if (found == rank_of_.end()) return;
  if (!met_ && std::holds_alternative<Pong>(message)) {
    for (Wrong& wrong : wrong_)
      if (wrong.hello.rank == found->second) wrong.contest = Time::max();
    last_arrival_ = now;
    send(myself, waiting());
  }
  Node& node = nodes_[found->second];
  const auto* stopping = std::get_if<Stopping>(&message);
  if (stopping != nullptr && (!met_ || launched())) return stop_node(node, stopping->signal);
  if (!launched()) return;
  if (const auto* failure = std::get_if<Failure>(&message)) fail(node, *failure);
  if (const auto* done = std::get_if<Done>(&message)) {
    const bool again = node.done.has_value();  // it came back, and says it once more
    node.done = *done;
    node.done_at = now;
    if (!again && node.state == Node::State::running) end(node, *done);
    tell_gathered();
  }
}

/// The node's command has ended, and nothing was told of it before.
void Roster::end(Node& node, const Done& done) {
  if (!stop_ && done.code != 0)
    fail(node, {.cause = "exit", .code = done.code});
  else
    node.state = done.code == 0 ? Node::State::done : Node::State::stopped;
  if (!stop_ && all_done()) send_all(End{});
}

void Roster::stop_node(Node& node, int number) {
  const int signal = std::clamp(number, 1, supervise::last_signal);
  const Stop stop{.culprit = {.cause = "stopped",
                              .code = exit_code::signal_base + signal,
                              .text = supervise::signal_name(signal),
                              .node = node.hello.rank,
                              .host = node.hello.host}};
  if (!met_) return end_meeting({exit_code::peer, stop.sentence()});
  if (node.state == Node::State::running) node.state = Node::State::drained;
  if (!stop_ || !stop_->again) return stop_all(stop);
  stop_->again = false;  // it takes no further part
  stop_->note = stop.sentence();
  send_all(*stop_);
}

void Roster::fail(Node& node, Failure failure) {
  if (node.failure) return;
  failure.node = node.hello.rank;
  failure.host = node.hello.host;
  if (!stop_) failure.text = with_node_names(failure.text, nodes_);
  node.failure = failure;
  failed_.push_back(failure.node);
  if (node.state == Node::State::running) node.state = Node::State::failed;
  if (!rules_.gathers) stop_all({failure});
}

/// Tells of all failures, once each node has ended.
void Roster::tell_gathered() {
  constexpr std::size_t most = 5;
  if (!rules_.gathers || stop_ || failed_.empty() || !all_ended()) return;
  Failure first = *nodes_[failed_.front()].failure;
  for (const unsigned rank : failed_ | std::views::take(most) | std::views::drop(1))
    first.text += fmt::format("; {} too: {}", node_name(rank, nodes_[rank].hello.host),
                              nodes_[rank].failure->text);
  if (failed_.size() > most) first.text += fmt::format("; and {} more", failed_.size() - most);
  stop_all({first});
}

void Roster::stop_all(Stop stop) {
  if (stop_) return;
  stop_ = std::move(stop);
  if (rules_.decide) rules_.decide(*stop_);
  send_all(*stop_);
}

bool Roster::all_came() const {
  return std::ranges::none_of(nodes_, [](const Node& node) { return node.state == Node::State::missing; });
}

bool Roster::all_done() const {
  return std::ranges::all_of(nodes_, [](const Node& node) { return node.state == Node::State::done; });
}

bool Roster::all_ended() const {
  return std::ranges::all_of(nodes_, [](const Node& node) { return node.done || !node.connection; });
}

// ---- time ----

Time Roster::next_tick() const {
  Time next = Time::max();
  if (!met_) {
    next = std::min(next_report_, refused_at());
    for (const Wrong& wrong : wrong_) next = std::min(next, wrong.contest);
  } else if (launched() && !stop_) {
    for (const Node& node : nodes_) next = std::min(next, node.lost_at);
  }
  return next;
}

void Roster::tick(Time now) {
  if (!met_) {
    const auto unanswered = [&](const Wrong& wrong) { return wrong.contest <= now; };
    for (auto it = wrong_.begin(); (it = std::ranges::find_if(wrong_, unanswered)) != wrong_.end();) {
      const Wrong newer = std::move(*it);
      wrong_.erase(it);
      take_place(newer.id, newer.hello, newer.seen);
      come_again(newer.hello.rank, now);  // a third one is asked about this one
    }
    if (!ready() && refused_at() <= now) refuse_or_unlink();
    if (!met_ && next_report_ <= now) {
      next_report_ = now + rules_.report;
      if (!ready()) send_all(waiting());
    }
  } else if (launched() && !stop_) {
    for (Node& node : nodes_) {
      if (node.lost_at > now) continue;
      node.lost_at = Time::max();
      node.state = Node::State::lost;
      stop_all({.culprit = {.cause = "lost",
                            .text = fmt::format("its connection ended, and it did not come back within {} s",
                                                rules_.relink.count() / 1000),
                            .node = node.hello.rank,
                            .host = node.hello.host}});
    }
  }
}

/// To all nodes that are connected, also to those that cannot be a part of the job.
void Roster::send_all(Message message, bool close) {
  Outgoing outgoing{{}, std::move(message), close};
  for (const auto& [id, rank] : rank_of_) outgoing.to.push_back(id);
  for (const Wrong& wrong : wrong_) outgoing.to.push_back(wrong.id);
  outgoing_.push_back(std::move(outgoing));
}

std::vector<Outgoing> Roster::take_outgoing() { return std::exchange(outgoing_, {}); }

}  // namespace rankshim::link
