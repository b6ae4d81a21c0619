#include "link/roster.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <ranges>
#include <tuple>
#include <utility>

#include "base/fault.h"
#include "base/text.h"
#include "node/addresses.h"

namespace rankshim::link {
namespace {

constexpr std::size_t most_strangers = 64;
constexpr std::chrono::seconds between_news{1};  // that something is wrong, in node 0's log

constexpr std::size_t most_ranks_shown = 10;

/// The names of the nodes for which the condition holds.
template <class Condition>
Few<NodeName> names_of(const std::vector<Node>& nodes, std::size_t most, Condition condition) {
  Few<NodeName> names;
  for (const Node& node : nodes)
    if (condition(node)) names.add({.rank = node.hello.rank, .host = node.hello.host, .address = {}}, most);
  return names;
}

}  // namespace

std::string with_node_names(std::string_view text, const std::vector<Node>& nodes) {
  return node::with_names(text, [&](const std::string& address) {
    const auto has_it = [&](const Node& node) {
      return node.hello.seen == address || node.hello.address == address;
    };
    const auto node = std::ranges::find_if(nodes, has_it);
    const bool is_one = std::ranges::count_if(nodes, has_it) == 1;
    return is_one ? node_name(node->hello.rank, node->hello.host, address) : std::string();
  });
}

std::string_view word(Node::State state) {
  static constexpr std::array<std::string_view, 9> words = {
      "missing", "here", "running", "failed", "stopping", "lost", "stopped", "done", "spare"};
  return words[static_cast<std::size_t>(state)];
}

Roster::Roster(Hello own, Rules rules, Time now)
    : rules_(std::move(rules)),
      own_members_(own.nnodes, 0),
      members_(rules_.members ? *rules_.members : own_members_),
      nodes_(own.nnodes),
      own_(own.rank),
      term_(own.term),
      last_arrival_(now),
      is_here_(own.nnodes) {
  this->own() = {.state = Node::State::here, .hello = std::move(own), .connection = myself, .term = term_};
  if (term_) first_term_ = term_->last;
  places_[myself] = own_;
  count(this->own(), now);
}

// ---- meeting ----

/// What this node says otherwise than the hub, although it must be the same; nullopt if nothing.
std::optional<Problem> Roster::difference(const Hello& hello) const {
  const Hello& own = this->own().hello;
  const bool is_foreign = hello.run != own.run;  // it must learn neither the run id nor a name
  struct Row {
    Agreed agreed;
    std::string theirs, ours;
  };
  const Row rows[] = {
      {Agreed::run_id, hello.run, own.run},
      {Agreed::attempt, hello.attempt, own.attempt},
      {Agreed::nnodes, std::to_string(hello.nnodes), std::to_string(own.nnodes)},
      {Agreed::master_port, std::to_string(hello.port), std::to_string(own.port)},
      {Agreed::launcher, hello.launcher, own.launcher},
      {Agreed::job_restarts, hello.job_restarts, own.job_restarts},
      {Agreed::spares, std::to_string(hello.spares), std::to_string(own.spares)},
      {Agreed::nproc_per_node, std::to_string(hello.workers),
       std::to_string(rules_.equal_workers ? own.workers : hello.workers)},
  };
  for (const auto& [agreed, theirs, ours] : rows)
    if (theirs != ours)
      return Problem{.kind = ProblemKind::differs,
                     .agreed = agreed,
                     .node = name_of(hello),
                     .other = NodeName{.rank = own_, .host = is_foreign ? "" : own.host, .address = {}},
                     .theirs = theirs,
                     .ours = is_foreign ? "" : ours,
                     .master = is_foreign ? hello.master : ""};
  return std::nullopt;
}

/// Why the node cannot join the job; nullopt if it can.
std::optional<Problem> Roster::problem_of(const Hello& hello) const {
  if (auto differs = difference(hello)) return differs;
  const Hello& own = this->own().hello;
  const NodeName name = name_of(hello);
  if (hello.workers > most_workers)
    return Problem{
        .kind = ProblemKind::too_many_workers, .node = name, .number = hello.workers, .most = most_workers};
  // A new container knows of no restart, but none can know of more than are allowed. Restarts after a spare
  // replaced a drained node are not counted.
  const unsigned counted =
      own.job_restarts.empty() ? 0 : parse_number<unsigned>(own.job_restarts).value_or(most_restarts);
  const unsigned allowed = std::min(members_.has_spares() ? most_restarts : counted, most_restarts);
  if (hello.restarts > allowed)
    return Problem{
        .kind = ProblemKind::too_many_restarts, .node = name, .number = hello.restarts, .most = allowed};
  if (hello.rank >= own.nnodes)
    return Problem{.kind = ProblemKind::rank_out_of_range, .node = name, .most = own.nnodes};
  const Node& node = nodes_[hello.rank];
  if (!node.connection || hello.instance == node.hello.instance) return std::nullopt;
  // A node that is alive comes back when its place is taken.
  const bool is_back = contains(node.displaced, hello.instance);
  if (hello.rank != own_ && !is_back && node.displaced.size() < most_strangers) return std::nullopt;
  return Problem{.kind = ProblemKind::rank_twice, .node = name_of(node.hello), .other = name};
}

void Roster::arrived(ConnectionId id, const Hello& hello, Time now) {
  if (hello.instance == own().hello.instance) return close(id);  // it has connected to itself
  const Hello& own = this->own().hello;
  const bool is_ours_by_name = hello.attempt == own.attempt && hello.run == own.run;
  if (hello.leads && is_ours_by_name && members_.has_spares()) return other_hub_came(id, hello);
  const bool knows_more = hello.term && (!term_ || !accepts(hello.term, term_->last));
  if (launched() && !knows_more) return come_back(id, hello, now);
  if (hello.running) return close(id);  // it saw that this hub is new, and comes when its command has ended
  const std::optional<Problem> problem = problem_of(hello);
  if (!is_ours_by_name) return foreign_came(id, hello, *problem);
  if (knows_more)
    return send(id, Stranger{{.kind = ProblemKind::attempt_unknown,
                              .node = NodeName{.rank = own_, .host = own.host, .address = {}}}});
  if (met_) {
    if (hello.rank < nodes_.size()) nodes_[hello.rank].state = Node::State::here;
    return send(id, to_message(*met_));
  }
  last_arrival_ = std::max(last_arrival_, now);
  // A node that leaves need not agree with the rest. But a stranger may have the same run id, such as the
  // default.
  const bool is_ours = hello.nnodes == own.nnodes && hello.port == own.port;
  if (hello.failure && is_ours && hello.rank != own_ && hello.rank < nodes_.size()) {
    connect(nodes_[hello.rank], id);
    nodes_[hello.rank].hello = hello;
    return fail(nodes_[hello.rank], *hello.failure, now);
  }
  if (problem) return keep({id, hello, *problem});
  take_place(nodes_[hello.rank], id, hello, now);
}

/// Gives a node that agrees with the hub its place. If somebody else has it, that one has a moment to show
/// that it is alive.
void Roster::take_place(Node& node, ConnectionId id, const Hello& hello, Time now) {
  if (node.connection && hello.instance != node.hello.instance) {
    node.displaced.push_back(node.hello.instance);
    last_arrival_ = now + rules_.answer;
  }
  connect(node, id);
  const bool is_same = hello.instance == node.hello.instance;
  node.hello = hello;
  node.term = hello.term;
  node.state = Node::State::here;
  if (term_) tell_of_term(node, is_same);
  if (hello.holds && rules_.to_come != 0)
    members_.held(*hello.holds, hello.rank, hello.host, rules_.last_launch);
  if (members_.all()[hello.rank].is_gone()) members_.came_back(hello.rank);
  count(node, now);
  if (hindrance_) send(id, waiting());
}

/// Handles another hub, which is not counted, because one of the two must yield: the one that knows of a
/// later go leads, together with the nodes that it knows.
void Roster::other_hub_came(ConnectionId id, const Hello& hello) {
  const bool is_later = hello.term && hello.term->last.number > term();
  if (met_ || !is_later) return close(id);
  end_meeting(Moved{{.index = hello.rank, .address = hello.seen, .port = hello.listen_port}});
  send(id, to_message(*met_));
}

/// Keeps a rejected node until the meeting ends; if there are too many, the newest are kept.
void Roster::keep(RejectedNode wrong) {
  if (rejected_.size() >= nodes_.size() + most_strangers) {
    close(rejected_.front().id);
    rejected_.erase(rejected_.begin());
  }
  rejected_.push_back(std::move(wrong));
  has_news_ = true;
}

/// Sends a node of another job away, at once and alone. It may be meant for this job, or a name may lead here
/// only for a moment; there is no way to know.
void Roster::foreign_came(ConnectionId id, const Hello& hello, const Problem& problem) {
  const auto theirs = parse_number<std::uint64_t>(hello.attempt);
  const auto ours = parse_number<std::uint64_t>(own().hello.attempt);
  const bool is_old = theirs && ours && *theirs < *ours;  // it is about to be removed
  if (is_old) return send(id, refusal(Cause::configuration, problem));
  if (hello.rank == 0)  // its job's name leads here for a while, which is neither's fault
    return send(id, Unlinked{problem});
  send(id, Stranger{problem});
  note_stranger(hello.rank, problem);
}

/// Keeps only the newest strangers, each once, because a stranger comes again and again.
void Roster::note_stranger(std::optional<unsigned> rank, const Problem& problem) {
  if (met_ || std::ranges::find(strangers_, problem, &NotedStranger::problem) != strangers_.end()) return;
  if (strangers_.size() >= most_strangers) strangers_.erase(strangers_.begin());
  strangers_.push_back({rank, problem});
  has_news_ = true;
}

/// Connects the node, replacing an older connection.
void Roster::connect(Node& node, ConnectionId id) {
  if (node.connection) {
    close(*node.connection);
    places_.erase(*node.connection);
  }
  node.connection = id;
  places_[id] = index_of(node);
}

Node* Roster::node_of(ConnectionId id) {
  const auto found = places_.find(id);
  return found == places_.end() ? nullptr : &nodes_[found->second];
}

std::optional<ListenAddress> Roster::disconnected(ConnectionId id, Time now, const Disconnect& how) {
  std::erase_if(rejected_, [&](const RejectedNode& wrong) { return wrong.id == id; });
  std::erase(early_, id);
  Node* const node = node_of(id);
  if (node == nullptr) return {};
  node->connection.reset();
  places_.erase(id);
  unanswered_.erase(index_of(*node));
  node->away_since = now;
  node->silent = how.silent;
  const bool is_direct = node->hello.address == node->hello.seen;
  node->ended_by = is_direct ? how.ended_by : EndedBy::nothing;
  node->has_ended = false;
  const Time back_by = now + rules_.time_to_return(node->ended_by, nodes_.size());
  for (const RejectedNode& wrong : rejected_)
    if (wrong.hello.rank == node->hello.rank) close(wrong.id);  // it can come again
  if (!met_) {
    node->state = Node::State::missing;
    count(*node, now);
  } else if (node->state == Node::State::running && stop_) {
    node->state = Node::State::stopped;
  } else if (node->state == Node::State::running || node->state == Node::State::spare) {
    node->lost_at = back_by;
  }
  const bool is_told = stop_ || released_ || all_done();
  const bool is_part = node->trains() || node->state == Node::State::spare;
  if (launched() && is_part && !has_left(*node) && (!is_told || how.unheard)) node->back_by = back_by;
  tell_gathered();
  // A firewall sends RST, and might refuse the next connection too.
  const bool may_have_ended = node->ended_by == EndedBy::fin && node->lost_at != Time::max();
  if (!may_have_ended || node->hello.listen_port == 0) return {};
  return ListenAddress{
      .index = index_of(*node), .address = node->hello.seen, .port = node->hello.listen_port};
}

void Roster::refused_connection(const ListenAddress& listener, Time now) {
  Node& node = nodes_[listener.index];
  if (node.connection || node.lost_at == Time::max() || node.hello.listen_port != listener.port) return;
  node.has_ended = true;
  node.lost_at = std::min(node.lost_at, now);
  node.back_by = std::min(node.back_by, now);
}

void Roster::store_client(const std::string& address, Time now) {
  if (met_ || contains(store_clients_, address) || store_clients_.size() >= nodes_.size()) return;
  store_clients_.push_back(address);
  last_arrival_ = std::max(last_arrival_, now);
}

/// Whether the node's own command has failed and ended, so that it does not wait for node 0's verdict.
bool Roster::has_left(const Node& node) const {
  const bool is_waiting = rules_.gathers || rules_.decide || (node.failure && is_inconclusive(*node.failure));
  return node.done && node.done->code != 0 && !is_waiting;
}

void Roster::slept(std::chrono::milliseconds time) {
  const bool all_back = std::ranges::count(nodes_, Time::max(), &Node::lost_at) == std::ssize(nodes_);
  if (time != std::chrono::milliseconds(0) || all_back) slept_ = time;
}

/// The assignment of ranks with which all may be launched; nullopt if there is none.
std::optional<Assignment> Roster::assignment(Time now) const {
  if (met_ || !rejected_.empty() || here_ < members_.ranks()) return std::nullopt;
  if (!has_votes() || awaits_voters(now)) return std::nullopt;
  return members_.assign(is_here_, now < enough_at_ + rules_.spares);
}

/// Counts a node that has come or gone before the launch.
void Roster::count(const Node& node, Time now) {
  const bool is_here = node.connection && !members_.all()[index_of(node)].is_gone();
  if (is_here != is_here_[index_of(node)]) is_here ? ++here_ : --here_;
  is_here_[index_of(node)] = is_here;
  enough_at_ = here_ >= members_.ranks() ? std::min(enough_at_, now) : Time::max();
}

/// When rejected nodes end the meeting: at once if nobody else can come, otherwise when nobody has come for a
/// while. Clients of torch's store may also be strangers, or several nodes at one address: they alone end it
/// only when nobody has come for a while, which is longer if there are too few of them.
Time Roster::refused_at() const {
  if (rejected_.empty() && store_clients_.empty()) return Time::max();
  std::size_t most = nodes_.size(), least = nodes_.size();
  for (const RejectedNode& wrong : rejected_) {
    most = std::max<std::size_t>(most, wrong.hello.nnodes);
    least = std::min<std::size_t>(least, wrong.hello.nnodes);
  }
  const auto to_come = std::ranges::count(nodes_, std::optional<ConnectionId>(), &Node::connection);
  const std::size_t count =
      nodes_.size() - static_cast<std::size_t>(to_come) + rejected_.size() + store_clients_.size();
  if (rejected_.empty()) return last_arrival_ + (count >= most ? rules_.patience : rules_.clients);
  if (count >= most) return last_arrival_;
  return last_arrival_ + (count >= least ? rules_.settle : rules_.patience);
}

/// Ends the meeting because of those that cannot join.
void Roster::end_rejected() {
  if (!rejected_.empty() || store_clients_.empty()) {
    Refuse refuse{.cause = Cause::configuration, .roll_call = {}, .culprit = {}};
    refuse.roll_call.problems = problems();
    return end_meeting(refuse);
  }
  Problem clients{.kind = ProblemKind::store_clients,
                  .addresses = store_clients_,
                  .number = static_cast<unsigned>(store_clients_.size())};
  clients.addresses.resize(std::min(clients.addresses.size(), Few<Problem>::most));
  end_meeting(Unlinked{std::move(clients)});
}

void Roster::end_meeting(const MeetingResult& result) {
  met_ = result;
  send_all(to_message(result));
}

Waiting Roster::waiting() const {
  if (hindrance_) return {.what = WaitingFor::port, .roll_call = {}, .port = hindrance_, .running = {}};
  if (!awaits_answers() && assignment(Time::min())) {
    const bool is_for_silent = rules_.silent_ended_by > rules_.earliest;
    RollCall here;
    here.is_enough = members_.has_spares();
    return {.what = is_for_silent ? WaitingFor::silent_end : WaitingFor::pause,
            .roll_call = std::move(here),
            .port = {},
            .running = {}};
  }
  return {.roll_call = roll_call(false), .port = {}, .running = {}};
}

/// Who is missing. Once the time is over (`is_over`), a node that gave up a moment earlier is not one that
/// never came.
RollCall Roster::roll_call(bool is_over) const {
  RollCall roll_call{.nodes = static_cast<unsigned>(nodes_.size()),
                     .missing = {},
                     .silent = unanswered(),
                     .votes = lacking_votes(),
                     .gone = {},
                     .problems = problems()};
  const auto has_gone = [](const Node& node) { return !node.connection && !node.hello.instance.empty(); };
  for (const Node& node : nodes_)
    if (!node.connection && !(is_over && has_gone(node)))
      roll_call.missing.add(index_of(node), most_ranks_shown);
  roll_call.is_enough =
      members_.has_spares() && enough_at_ != Time::max() && !awaits_answers() && has_votes();
  roll_call.gone = names_of(nodes_, Few<NodeName>::most, has_gone);
  return roll_call;
}

Waiting Roster::running() const {
  const auto runs = [](const Node& node) {
    return node.trains() && !node.done && (node.connection || node.state == Node::State::running);
  };
  Waiting waiting{.what = WaitingFor::ends, .roll_call = {}, .port = {}, .running = {}};
  waiting.roll_call.nodes = static_cast<unsigned>(nodes_.size());
  waiting.running = names_of(nodes_, most_ranks_shown, runs);
  return waiting;
}

Few<Problem> Roster::problems() const {
  Few<Problem> problems;
  for (const RejectedNode& wrong : rejected_) problems.add(wrong.problem);
  for (const NotedStranger& stranger : strangers_) {  // not those that are here by now
    const bool is_here = stranger.rank && *stranger.rank < nodes_.size() && nodes_[*stranger.rank].connection;
    if (!is_here) problems.add(stranger.problem);
  }
  return problems;
}

// ---- running ----

void Roster::launch(Time now) {
  const Assignment ranks = *assignment(now);
  launched_ = now;
  std::vector<std::string> hosts;
  Go go{.nodes = members_.ranks()};
  for (const Node& node : nodes_) {
    hosts.push_back(node.hello.host);
    if (!node.connection) continue;
    go.attempt = std::max(go.attempt, node.hello.restarts);  // a new container knows of none
    go.uncounted = std::max(go.uncounted, node.hello.uncounted);
  }
  go.uncounted = std::min(go.uncounted, go.attempt);
  members_.launched(ranks, is_here_, hosts, now);
  for (const unsigned index : ranks) go.world += nodes_[index].hello.workers;
  met_ = go;
  next_report_ = Time::max();
  for (Node& node : nodes_) {
    node.go = go;  // for a spare
    const Member::State member = members_.all()[index_of(node)].state;
    const bool is_to_come =
        !node.connection && (member == Member::State::spare || member == Member::State::aside);
    if (node.connection || is_to_come) node.state = Node::State::spare;
    if (is_to_come) node.lost_at = now + rules_.spares;
  }
  for (go.rank = 0; *go.rank < ranks.size(); ++*go.rank) {
    Node& node = nodes_[ranks[*go.rank]];
    node.state = Node::State::running;
    node.go = go;
    go.offset += node.hello.workers;
  }
  if (members_.has_spares()) {
    if (!term_) begin_term();
    Lead lead{.hub_rank = own().go.rank, .ballot = {}, .candidates = candidates()};
    if (ranks.front() != 0) lead.master = nodes_[ranks.front()].hello.seen;
    for (Node& node : nodes_) {
      node.go.lead = lead;
      node.go.lead->ballot = ballot(node);
    }
  }
  for (const Node& node : nodes_)
    if (node.connection) send(*node.connection, node.go);
}

/// Handles a node that joins while the job runs. A new instance of a node that trains has no place in this
/// attempt, but shows that the old one, if it has no connection, is lost; it will come again for the next
/// attempt. A node without a rank becomes a spare.
void Roster::join_late(Node& node, ConnectionId id, const Hello& hello, Time now) {
  const bool is_replaced = node.trains() && stop_;
  if (node.trains()) {
    node.started_anew = node.started_anew || (node.lost_at != Time::max() && !is_replaced);
    if (node.started_anew) node.lost_at = std::min(node.lost_at, now);
  }
  if (stop_ && stop_->again && !hello.running) return keep_for_next_meeting(id);
  if (node.trains() || node.connection || stop_ || hello.running) return close(id);
  node = {.state = Node::State::spare, .hello = hello, .go = node.go, .term = hello.term};
  if (node.go.lead) {
    node.go.lead->ballot = ballot(node);
    node.go.lead->candidates = candidates();
  }
  connect(node, id);
  members_.came_back(index_of(node));
  send(id, node.go);
  if (released_ || all_done()) send(id, End{});
}

/// Keeps the connection of a node that comes while the others still end their commands: it closes with this
/// hub's link, and the node then comes to the next meeting. If it were closed now, the node would take this
/// one for lost, and lead alone until it asks here again.
void Roster::keep_for_next_meeting(ConnectionId id) {
  if (early_.size() >= nodes_.size() + most_strangers) {
    close(early_.front());
    early_.erase(early_.begin());
  }
  early_.push_back(id);
}

void Roster::come_back(ConnectionId id, const Hello& hello, Time now) {
  Node* node = hello.rank < nodes_.size() ? &nodes_[hello.rank] : nullptr;
  if (node == nullptr || hello.instance != node->hello.instance) {
    if (!rules_.decide || problem_of(hello))
      return send(id, refusal(Cause::configuration,
                              {.kind = ProblemKind::too_late,
                               .node = NodeName{.rank = hello.rank, .host = hello.host, .address = {}}}));
    return join_late(*node, id, hello, now);
  }
  connect(*node, id);
  node->lost_at = Time::max();
  node->started_anew = false;
  if (!node->trains() && node->state == Node::State::lost) {
    node->state = Node::State::spare;
    members_.came_back(index_of(*node));
  }
  send(id, node->go);  // the first one may have been lost with the connection
  if (term_) send(id, Voters{ballot(*node), candidates()});
  if (stop_) send(id, *stop_);  // even to a node that was lost, as the others know
  if (released_ || all_done()) send(id, End{});
}

void Roster::received(ConnectionId id, const Message& message, Time now) {
  Node* const node = node_of(id);
  if (node == nullptr) return;
  if (const auto* failure = std::get_if<Culprit>(&message)) {
    fail(*node, *failure, now);
  } else if (const auto* done = std::get_if<Done>(&message); done != nullptr && launched()) {
    if (!node->done) node->done_at = now;  // it is repeated on a new connection
    node->done = *done;
    next_report_ = std::min(next_report_, now + rules_.report);
    if (node->state == Node::State::running) {  // its end had not been reported before
      if (done->code == 0 || stop_)
        node->state = done->code == 0 ? Node::State::done : Node::State::stopped;
      else
        fail(*node, {.cause = Cause::exited, .code = done->code}, now);
      if (!stop_ && all_done()) send_all(End{});
    }
    tell_gathered();
  } else if (const auto* seen = std::get_if<Seen>(&message); seen != nullptr && launched()) {
    if (!node->is_answering) node->seen.clear();
    for (const WorkerReport& worker : seen->workers)
      if (node->seen.size() < node->hello.workers) node->seen.push_back(worker);
    node->is_answering = seen->more;
    if (seen->more) return;
    node->seen_at = now;
    node->answered = seen->number;
  } else if (const auto* look = std::get_if<Looked>(&message); look != nullptr && launched()) {
    looked(*node, *look);
  } else if (const auto* heard = std::get_if<Heard>(&message); heard != nullptr && term_) {
    heard_by(*node, heard->number);
  }
}

Look Roster::ask(bool full) {
  if (full)
    for (Node& node : nodes_) node.looks.clear();
  return {.number = ++questions_, .full = full};
}

void Roster::looked(Node& node, const Looked& looked) const {
  if (looked.number != questions_ || !node.trains() || looked.local_rank >= node.hello.workers) return;
  outcome::WorkerLook worker = looked.worker;
  worker.rank = node.go.offset + looked.local_rank;
  const auto known = std::ranges::find(node.looks, worker.rank, &outcome::WorkerLook::rank);
  if (known == node.looks.end()) return node.looks.push_back(std::move(worker));
  for (outcome::GroupProgress& group : worker.groups)  // another part
    if (known->groups.size() < most_groups) known->groups.push_back(std::move(group));
}

/// Handles what a node reports of itself: that a worker failed, that it cannot join, or that it was
/// stopped.
void Roster::fail(Node& node, Culprit failure, Time now) {
  failure.node = node.hello.rank;
  failure.host = node.hello.host;
  if (!met_) return leave_meeting(node, failure, now);
  if (!launched()) return;
  const Stop stop{failure};
  const bool is_hub_leaving = index_of(node) == own_ && stop.drained();
  if (!node.trains() && !is_hub_leaving)
    return lose_spare(node, stop.drained() ? Node::State::drained : Node::State::lost);
  if (stop.drained()) return stop_node(node, stop);
  fail_running(node, std::move(failure), now);
}

/// Handles a node that takes no part in what all are about to begin: it ends the meeting, unless spares are
/// enough to do without it.
void Roster::leave_meeting(Node& node, const Culprit& failure, Time now) {
  const bool is_drained = failure.cause == Cause::stop_requested;
  node.state = is_drained ? Node::State::drained : Node::State::failed;
  node.failure = failure;
  members_.gone(index_of(node), is_drained ? Member::State::drained : Member::State::lost);
  count(node, now);
  const auto is_gone = [](const Member& member) { return member.is_gone(); };
  const auto left = std::ranges::count_if(members_.all(), std::not_fn(is_gone));
  const bool is_replaced = index_of(node) != own_ || (term_ && is_drained);
  if (is_replaced && left >= members_.ranks())
    return note_stranger(node.hello.rank, {.kind = ProblemKind::failed, .culprit = failure});
  end_meeting(Refuse{.cause = Cause::peer_lost, .roll_call = {}, .culprit = failure});
}

/// Keeps a failure as evidence. A node's first one stops all, at once or, if it alone does not show who is to
/// blame, once there was time for others.
void Roster::fail_running(Node& node, Culprit failure, Time now) {
  const bool is_loss = is_inconclusive(failure);
  if (is_loss && failure.hang && failure.rank && node.waits.size() < node.hello.workers)
    node.waits.try_emplace(*failure.rank, *failure.hang);
  if (!stop_) failure.text = with_node_names(failure.text, nodes_);
  if (node.failure) {
    const bool tells_why =  // the peer was lost
        node.failure->cause == Cause::peer_lost && failure.cause == Cause::timed_out;
    if (tells_why) node.failure = failure;
    if (is_inconclusive(*node.failure) && !is_loss && !node.further) node.further = failure;
    return;
  }
  node.failure = failure;
  node.failed_at = now;
  if (node.state == Node::State::running) node.state = Node::State::failed;
  if (rules_.gathers) return;
  if (!is_loss) return stop_all({failure});
  if (held_until_ != Time::max()) return;
  held_until_ = now + rules_.hold;
  look_at_ = held_until_ - rules_.look;
}

void Roster::stop_node(Node& node, const Stop& stop) {
  if (!stop_) count_voters_again();  // a spare that has just come may be needed to go on
  if (node.state == Node::State::running) node.state = Node::State::drained;
  members_.gone(index_of(node), Member::State::drained);
  if (!stop_ || !stop_->again) return stop_all(stop);
  reconsider(stop.culprit);
}

/// Reconsiders a restart when this node, or spare, was stopped or lost: cancels it if there are not enough
/// spares for all that are gone.
void Roster::reconsider(const Culprit& gone, bool was_spare) {
  if (!stop_ || !stop_->again || can_replace()) return;
  using outcome::NotRestarted;
  stop_->again = false;
  stop_->not_restarted =
      NotRestarted{.why = NotRestarted::Why::node_gone, .gone = gone, .was_spare = was_spare};
  send_all(*stop_);
}

/// Whether there are enough spares, here or about to come, for the nodes that were stopped, and the others
/// may go on without them.
bool Roster::can_replace() const {
  std::size_t holes = 0, spares = 0;
  for (const Node& node : nodes_) {
    const bool is_gone = members_.all()[index_of(node)].is_gone();
    if (node.trains() && is_gone) ++holes;
    if (node.state == Node::State::spare && !is_gone) ++spares;
  }
  return members_.has_spares() && holes <= spares && will_have_votes();
}

/// Whether spares that were lost in silence may be training without this node. Nodes with a rank are not
/// lost, or other rules would have decided.
bool Roster::is_outvoted() const {
  if (released_ || all_done()) return false;  // all may leave
  const auto may_live = [](const Node& node) {
    return !node.trains() && !node.connection && node.state == Node::State::lost &&
           node.ended_by == EndedBy::nothing;
  };
  const auto is_away = [](const Node& node) { return node.trains() && node.lost_at != Time::max(); };
  return std::ranges::any_of(nodes_, may_live) && std::ranges::none_of(nodes_, is_away) && !will_have_votes();
}

/// Handles a spare that was stopped or lost, which ends nobody.
void Roster::lose_spare(Node& node, Node::State how) {
  const bool is_drained = how == Node::State::drained;
  node.state = how;
  node.lost_at = Time::max();
  node.back_by = {};
  members_.gone(index_of(node), is_drained ? Member::State::drained : Member::State::lost);
  if (stop_ && stop_->drained())
    reconsider({.cause = is_drained ? Cause::stop_requested : Cause::node_lost,
                .node = index_of(node),
                .host = node.hello.host},
               true);
}

/// Tells all nodes of all failures, once each node has ended. A node without a connection has not ended: it
/// may come back, or will be lost.
void Roster::tell_gathered() {
  const auto has_ended = [](const Node& node) {
    return node.done || (!node.connection && node.state != Node::State::running);
  };
  if (rules_.gathers && !failed().empty() && std::ranges::all_of(nodes_, has_ended))
    stop_all(all_failures({}));
}

std::vector<const Node*> Roster::failed() const {
  std::vector<const Node*> failed;
  for (const Node& node : nodes_)
    if (node.failure) failed.push_back(&node);
  std::ranges::sort(failed, {}, [](const Node* node) { return std::pair(node->failed_at, node); });
  return failed;
}

/// The lost node, or else the first failure, and a few of the others.
Stop Roster::all_failures(const std::optional<Culprit>& lost) const {
  constexpr std::size_t most = 4;
  const auto all = failed();
  Stop stop{.culprit = lost ? *lost : *all.front()->failure};
  for (const Node* node : all | std::views::drop(lost ? 0 : 1) | std::views::take(most))
    stop.others.push_back(*node->failure);
  return stop;
}

void Roster::stop_all(Stop stop) {
  if (stop_) return;
  stop_ = std::move(stop);
  if (stop_->failed() && !is_of_all(stop_->culprit) && stop_->culprit.node < nodes_.size())
    members_.failed(stop_->culprit.node);
  if (rules_.decide) rules_.decide(*stop_);
  if (rules_.decide && stop_->drained()) {
    using outcome::NotRestarted;
    stop_->again = can_replace();
    if (members_.has_spares() && !stop_->again)
      stop_->not_restarted = NotRestarted{.why = NotRestarted::Why::no_spare};
  }
  send_all(*stop_);
}

// ---- time ----

namespace {

/// Tells what is due now, and collects when something is due next.
struct Due {
  Time now;
  Time next = Time::max();

  bool operator()(Time when) {
    if (when > now) next = std::min(next, when);
    return when <= now;
  }
};

}  // namespace

Time Roster::tick(Time now) {
  if (!met_) return tick_meeting(now);
  return launched() ? tick_running(now) : Time::max();
}

Time Roster::tick_meeting(Time now) {
  Due is_due{now};
  const auto report_again = [&] { is_due(next_report_ = now + rules_.report); };
  if (members_.has_spares() && enough_at_ != Time::max()) is_due(enough_at_ + rules_.spares);
  settle();
  const bool is_complete = !awaits_answers() && assignment(now).has_value();
  if (is_complete && starts_at() > now) {
    if (is_due(next_report_)) {
      report_again();
      send_all(waiting());
    }
    return std::min(is_due.next, starts_at());
  }
  if (is_complete && term_ && !is_counted_) {
    is_counted_ = true;
    count_voters();
  }
  if (ready(now)) return now;
  if (is_due(refused_at())) end_rejected();
  if (!met_ && is_due(deadline_))
    end_meeting(Refuse{.cause = Cause::unreachable, .roll_call = roll_call(true), .culprit = {}});
  if (met_) return is_due.next;
  const bool is_time = is_due(next_report_);
  if (is_time || (has_news_ && is_due(last_report_ + between_news))) {
    if (is_time) report_again();
    last_report_ = now;
    has_news_ = false;
    is_time ? send_all(waiting()) : send(myself, waiting());
  }
  return is_due.next;
}

Time Roster::tick_running(Time now) {
  Due is_due{now};
  for (Node& node : nodes_)
    if (node.state == Node::State::spare && node.lost_at != Time::max() && is_due(node.lost_at))
      lose_spare(node, Node::State::lost);
  settle();
  if (stop_) return is_due.next;
  count_voters_again();
  if (is_due(next_report_)) {
    is_due(next_report_ = now + rules_.report);
    send_all(running(), true);
  }
  const bool holds = held_until_ != Time::max();
  // While somebody has lost its peer, a node without a connection is that peer. If this process did not run
  // for a while, the others may have gone on without it.
  const bool is_late = members_.has_spares() && slept_ != std::chrono::milliseconds(0);
  const bool is_lost = std::ranges::any_of(nodes_, [&](const Node& node) {
    return node.trains() && node.lost_at != Time::max() && (holds || is_late || is_due(node.lost_at));
  });
  if (is_lost || is_due(held_until_) || is_outvoted()) {
    decide(now);
  } else if (is_due(look_at_)) {
    look_at_ = Time::max();
    asked_at_ = now;
    send_all(ask(true));
  }
  return is_due.next;
}

std::optional<outcome::WorkerLook> Roster::look_at(const Node& node, unsigned rank) {
  const auto found = std::ranges::find(node.looks, rank, &outcome::WorkerLook::rank);
  return found == node.looks.end() ? std::nullopt : std::optional(*found);
}

std::optional<outcome::Hang> Roster::wait_of(const Node& node, unsigned rank) {
  const auto found = node.waits.find(rank);
  return found == node.waits.end() ? std::nullopt : std::optional(found->second);
}

std::vector<outcome::WorkerLook> Roster::take_looks() {
  std::vector<outcome::WorkerLook> all;
  for (Node& node : nodes_) {
    std::ranges::copy(node.looks, std::back_inserter(all));
    if (!is_judging()) node.looks = {};
  }
  return all;
}

Culprit Roster::located(Culprit culprit) const {
  const auto& ranks = culprit.ranks.empty() ? culprit.victims : culprit.ranks;
  const unsigned first = ranks.empty() ? 0 : ranks.front().first;
  const auto has_it = [first](const Node& node) {
    return node.trains() && node.go.offset <= first && first < node.go.offset + node.hello.workers;
  };
  if (const auto node = std::ranges::find_if(nodes_, has_it); node != nodes_.end()) {
    culprit.node = node->hello.rank;
    culprit.host = node->hello.host;
  }
  return culprit;
}

/// How a node without a connection was lost, and what has become of it.
outcome::Loss Roster::loss_of(const Node& node, Time now) const {
  using outcome::Loss;
  Loss loss;
  if (node.silent != std::chrono::milliseconds(0)) loss = {.sign = Loss::Sign::silent, .time = node.silent};
  if (node.started_anew) {
    loss.then = Loss::Then::restarted;
  } else if (node.has_ended) {
    loss.then = Loss::Then::not_listening;
  } else if (node.lost_at <= now) {
    loss.then = Loss::Then::not_back;
    loss.within = std::chrono::duration_cast<std::chrono::milliseconds>(node.lost_at - node.away_since);
  }
  return loss;
}

/// What is known about the nodes, to find out who is to blame.
outcome::Evidence Roster::evidence(Time now) const {
  outcome::Evidence evidence{
      .nodes = {}, .launched = launched_, .slept = slept_, .hub = own_, .is_outvoted = is_outvoted()};
  const bool all_lost = std::ranges::all_of(nodes_, [this](const Node& node) {
    return !node.trains() || node.lost_at != Time::max() || index_of(node) == own_;
  });
  for (const Node& node : nodes_) {
    outcome::NodeEvidence& known = evidence.nodes.emplace_back();
    known.host = node.hello.host;
    known.address = node.hello.seen;
    if (!node.trains()) {  // it is nobody's peer, but shows whether this node has a network
      const bool has_come = node.connection || node.away_since != Time();
      known.took_part = has_come && node.state != Node::State::drained;
      if (all_lost && !node.connection) known.lost = loss_of(node, now);
      known.lost_since = now;
      continue;
    }
    known.failure = node.failure;
    known.failed = node.failed_at;
    known.further = node.further;
    const bool has_answered = asked_at_ != Time() && node.seen_at >= asked_at_;
    known.is_silent = asked_at_ != Time() && !has_answered && !node.done && index_of(node) != own_;
    if (node.lost_at != Time::max()) {
      known.lost = loss_of(node, now);
      known.lost_since = node.away_since;
    }
    std::vector<WorkerReport> workers;
    if (node.done)
      workers = node.done->workers;
    else if (has_answered)
      workers = node.seen;
    const auto add = [&](const WorkerReport& worker) {
      const Time said = node.done ? node.done_at : node.seen_at;
      const Time ended = std::max(launched_, said - std::chrono::milliseconds(worker.age));
      if (worker.local_rank < node.hello.workers)
        known.workers.push_back({.rank = node.go.offset + worker.local_rank,
                                 .code = worker.code,
                                 .ended = ended,
                                 .look = look_at(node, node.go.offset + worker.local_rank),
                                 .waited = wait_of(node, node.go.offset + worker.local_rank)});
    };
    std::ranges::for_each(workers, add);
    if (!node.done || node.done->code != 0) continue;
    // If a launcher succeeded, so did all its workers, whether or not the kernel showed their ends.
    for (unsigned local_rank = 0; local_rank < node.hello.workers; ++local_rank)
      if (std::ranges::find(workers, local_rank, &WorkerReport::local_rank) == workers.end())
        add({.local_rank = local_rank, .code = 0});
  }
  return evidence;
}

/// Stops all nodes because of whomever the evidence blames. If failures are gathered, they are told together
/// with the lost node.
void Roster::decide(Time now) {
  outcome::Evidence evidence = this->evidence(now);
  if (rules_.gathers)
    for (outcome::NodeEvidence& node : evidence.nodes) node.failure.reset();
  Culprit culprit = *judge(evidence);
  for (Node& node : nodes_) {
    const bool is_culprit = culprit.cause == Cause::node_lost && culprit.node == node.hello.rank;
    if (!node.trains() || (node.lost_at > now && !is_culprit)) continue;
    node.state = Node::State::lost;
    node.back_by = {};
    if (node.ended_by == EndedBy::nothing) all_ended_by_ = now + rules_.silent_end;
    if (index_of(node) != own_) members_.gone(index_of(node), Member::State::lost);
  }
  stop_all(rules_.gathers ? all_failures(culprit) : Stop{.culprit = std::move(culprit)});
}

/// Sends a message to all connected nodes, or only to those whose command has ended, and to those that cannot
/// join the job.
void Roster::send_all(Message message, bool only_ended) {
  Outgoing outgoing{{}, std::move(message)};
  for (const Node& node : nodes_)
    if (node.connection && ((node.done && node.trains()) || !only_ended))
      outgoing.to.push_back(*node.connection);
  for (const RejectedNode& wrong : rejected_) outgoing.to.push_back(wrong.id);
  outgoing_.push_back(std::move(outgoing));
}

}  // namespace rankshim::link
