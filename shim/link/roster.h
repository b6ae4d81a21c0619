#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "link/members.h"
#include "link/message.h"
#include "outcome/judge.h"

namespace rankshim::link {

using Time = std::chrono::steady_clock::time_point;

/// Identifies a connection of the hub. Node 0 itself is treated as one.
using ConnectionId = std::uint64_t;
inline constexpr ConnectionId myself = 0;

/// How the other side's kernel ended a connection: it sends FIN for a process that ends, and RST if that had
/// not read everything. A firewall sends RST.
enum class EndedBy : std::uint8_t {
  nothing,  ///< this side closed it, because of silence
  rst,
  fin,
};

/// What node 0 knows about a node.
struct Node {
  enum class State : std::uint8_t {
    missing,
    here,     ///< it waits for the others
    running,  ///< its command runs
    failed,   ///< a worker, or the command, failed
    drained,  ///< it was stopped from outside
    lost,     ///< its connection ended and it did not come back
    stopped,  ///< its command ended because of another node
    done,     ///< its command succeeded
    spare,    ///< it waits, without a rank in this attempt
  };

  State state = State::missing;
  Hello hello;
  std::optional<ConnectionId> connection;   ///< nullopt if it is not connected
  std::vector<std::string> displaced;       ///< instances whose place it took while they were connected
  Go go;                                    ///< set once all were told to launch
  std::optional<KnownTerm> term;            ///< what it knows about the last term, as far as the hub knows
  bool votes = false;                       ///< it is one of the voters of the hub's last term
  std::optional<Culprit> failure;           ///< the first that it reported; a timeout outranks a lost peer
  std::map<unsigned, outcome::Hang> waits;  ///< where its victims waited, by rank
  Time failed_at;                           ///< when it reported that
  std::optional<Culprit> further;           ///< after a victim's failure, the first that no peer caused
  std::vector<WorkerReport> seen;           ///< how its workers were when it was last asked, …
  Time seen_at;                             ///< … by node 0's clock
  bool is_answering = false;                ///< more workers follow
  std::uint32_t answered = 0;               ///< the number of the last question that it has answered
  std::vector<outcome::WorkerLook> looks;   ///< what its workers were doing when it was last asked
  std::optional<Done> done;                 ///< set once its command has ended, …
  Time done_at;                             ///< … by node 0's clock
  Time away_since;                          ///< when its connection last ended
  std::chrono::milliseconds silent{0};      ///< as in Roster::Disconnect, when that was, …
  EndedBy ended_by = EndedBy::nothing;      ///< … not set if a proxy may have done it
  bool has_ended = false;                   ///< its kernel has refused another connection since
  bool started_anew = false;                ///< another instance of it has come since
  Time lost_at = Time::max();               ///< when it counts as lost unless it comes back
  Time back_by;                             ///< until then it may come back to hear how the job ends

  /// Whether it has a rank in this attempt.
  [[nodiscard]] bool trains() const { return go.rank.has_value(); }
};

/// The word in reports and the status: "missing", "here", "running", …
std::string_view word(Node::State state);

/// The text with the nodes' addresses replaced by their names. gloo, NCCL and torch's store know only
/// addresses, "Connection closed by peer [10.0.0.9]:4711", which becomes "peer node 7 (e, 10.0.0.9)". An
/// address that several nodes have is left alone. Pure.
std::string with_node_names(std::string_view text, const std::vector<Node>& nodes);

/// A message that the hub must send to some connections. If that sends them away, or there is no message, it
/// closes them.
struct Outgoing {
  std::vector<ConnectionId> to;
  std::optional<Message> message;

  [[nodiscard]] bool closes() const { return !message || sends_away(*message); }
};

/// Roster is the job as node 0 sees it: who is here, whether they agree, who failed first. Pure: events with
/// their times go in, messages come out. A hello is passed in only once its sender has proven that it has the
/// token.
///
/// The job goes through these states:
///
/// - Hindered: another process has the master's port. No node is called missing, and nodes connect to the
///   second port.
/// - Meeting: each hello either gives a node its place or is rejected. The meeting ends with launch() when
///   all are here, none was rejected, and the pause before another attempt is over; or with a Refuse to all,
///   because something is wrong and nobody else can come, a node cannot join, or the time is up.
/// - Running: `go` was sent. This ends with a Stop to all, or with End when all are done.
/// - Held: a victim has reported its failure, but all go on. Another failure, or a node without a connection,
///   stops all at once; otherwise all are asked how their workers are, and the judge decides
///   (outcome/judge.h).
/// - Stopping: the Stop was sent. Only a node that is stopped from outside can still change it, so that the
///   job is not restarted.
///
/// A node goes through these states (Node::State):
///
/// | state   | becomes                                                                             |
/// |---------|-------------------------------------------------------------------------------------|
/// | missing | here, by its hello                                                                  |
/// | here    | missing, when its connection ends; running, by launch(); failed or drained, before  |
/// | running | done, by a Done with 0; failed, by its failure or another Done; drained, when it is |
/// |         | stopped from outside; lost, when it stays without a connection; stopped, by a Done  |
/// |         | after a Stop, or when its connection ends then                                      |
/// | others  | nothing: they say how it ended                                                      |
///
/// With spares, any node may be the hub: another one takes over when the hub is lost or stopped (Succession),
/// and needs the votes of more than half of those that were last counted (roster_votes.cpp). A node to which
/// launch() gives no rank is a spare, whose end ends nobody. While the job runs, a node without a rank may
/// join as another spare.
class Roster {
 public:
  struct Rules {
    bool equal_workers = false;                ///< the launcher needs the same number of workers on each node
    std::chrono::milliseconds relink{10'000};  ///< a node without a connection is lost after this, …
    std::chrono::milliseconds ended{2'000};    ///< … or, if its own kernel ended the connection, after this
    std::chrono::milliseconds first_report{5'000};  ///< before the first report on who is missing …
    std::chrono::milliseconds report{30'000};       ///< … and between further reports
    std::chrono::milliseconds answer{500};  ///< for a node whose place was taken, to show that it is alive
    std::chrono::milliseconds settle{800};  ///< after the last arrival, before the job is refused
    std::chrono::milliseconds patience{10'000};  ///< the same, while nodes are also missing
    std::chrono::milliseconds clients{60'000};   ///< the same, if only clients of torch's store have come
    /// How long to wait for the cause after a worker has lost its peer. Others may still end, or save,
    /// meanwhile.
    std::chrono::milliseconds hold{5'000};
    /// How long before the end of `hold` all nodes are asked how their workers are. A look at thousands of
    /// workers takes time, and at one whose Python does not answer, half a second.
    std::chrono::milliseconds look{2'000};
    /// A failure ends no other node: all are told of the failures when each node has ended on its own.
    bool gathers = false;
    /// Decides Stop::again, once for each stop. Null: the job is never restarted.
    std::function<void(Stop&)> decide;
    /// Which node has which rank, in a job with spares; it outlives the roster. Null: there are no spares.
    std::shared_ptr<Members> members;
    std::chrono::milliseconds spares{10'000};  ///< for all to come, once there are enough to train
    /// For the successor of a hub: how many voters of its go may still be alive, including this node, …
    unsigned to_come = 0;
    Time last_launch;                 ///< … when that was …
    std::optional<unsigned> old_hub;  ///< … and who: a new container in its place shows that it has ended
    /// How long the command of a node that was lost in silence may take to end: it might run beside the next
    /// attempt.
    std::chrono::milliseconds silent_end{0};
    Time earliest;         ///< no launch before this, the end of the pause before another attempt, …
    Time silent_ended_by;  ///< … nor before this, when the commands of nodes lost in silence have ended

    /// How long a node may be without a connection before the other side treats it as lost. `ended_by`: how
    /// its own kernel ended the connection. All `nodes` may come back at the same moment.
    [[nodiscard]] std::chrono::milliseconds time_to_return(EndedBy ended_by, std::size_t nodes) const {
      if (ended_by == EndedBy::nothing) return relink;
      return std::min(relink, ended + std::chrono::milliseconds(nodes / 4));
    }
  };

  /// `own` is node 0's hello, with which the others must agree.
  Roster(Hello own, Rules rules, Time now);

  /// Sets node 0's own address, as the others know it.
  void set_address(const std::string& address) {
    if (own().hello.seen.empty()) own().hello.seen = address;
  }
  /// Call this when nodes can connect; until then it is not their fault if they are missing.
  void listens(Time now) {
    hindrance_.reset();
    next_report_ = now + rules_.first_report;
  }
  /// Says why node 0 cannot begin, whoever is here: another process has the master's port. listens() ends
  /// that.
  void hinder(Problem port_in_use, Time now) {
    if (!hindrance_) next_report_ = now;
    hindrance_ = std::move(port_in_use);
  }
  void arrived(ConnectionId id, const Hello& hello, Time now);
  void received(ConnectionId id, const Message& message, Time now);
  /// How a connection ended.
  struct Disconnect {
    bool unheard = false;                 ///< not everything that was sent to it has reached it
    std::chrono::milliseconds silent{0};  ///< for how long the node had not answered; 0: that was not why
    EndedBy ended_by = EndedBy::nothing;  ///< by the node's own kernel, or a proxy's
  };
  /// Returns, with spares, the address that shows whether the node has ended: where it listens as long as its
  /// rankshim runs.
  std::optional<ListenAddress> disconnected(ConnectionId id, Time now, const Disconnect& how);
  /// Call this when a node refuses connections at that address. One that comes back meanwhile is not lost.
  void refused_connection(const ListenAddress& listener, Time now);
  /// Takes for how long this process did not run (SIGSTOP); 0, which counts once all are back, means that it
  /// did.
  void slept(std::chrono::milliseconds time);
  /// Notes what is wrong with a node that was rejected, as a hint for those who wait for it. `rank`: what it
  /// says that it is, if it has said that.
  void note_stranger(std::optional<unsigned> rank, const Problem& problem);
  /// Notes that a client of torch's store connected from that address, so that a node lacks rankshim.
  void store_client(const std::string& address, Time now);
  /// Does what is due. Returns when something is due next, or when ready() will hold.
  Time tick(Time now);

  /// Whether launch() may be called: all are here and agree, and nodes whose place was taken have had time to
  /// come back.
  [[nodiscard]] bool ready(Time now) const { return is_told() && assignment(now) && starts_at() <= now; }
  /// Whether this node would have rank 0 if all were launched now, so that its port must be free for the
  /// job's store.
  [[nodiscard]] bool hosts_master(Time now) const {
    const auto ranks = assignment(now);
    return ranks && ranks->front() == own_;
  }
  /// Tells all nodes to launch.
  void launch(Time now);
  /// Tells all nodes how the meeting has ended without a launch.
  void end_meeting(const MeetingResult& result);
  /// Tells the others that the link is over, because node 0 ends before them.
  void release() {
    released_ = true;
    send_all(End{});
  }
  /// Sets when all nodes are told that the time for meeting is up.
  void give_up_at(Time deadline) { deadline_ = deadline; }

  /// A new question to all nodes. Answers to earlier ones no longer count.
  Look ask(bool full);
  /// Whether every connected node whose command runs has answered the last question.
  [[nodiscard]] bool has_answers() const {
    return std::ranges::all_of(nodes_, [this](const Node& node) {
      return node.done || !node.trains() || !node.connection || node.answered == questions_;
    });
  }
  /// Whether all nodes were asked in order to find out who is to blame. Until that is decided, nobody else
  /// may ask.
  [[nodiscard]] bool is_judging() const { return asked_at_ != Time() && !stop_; }
  /// Takes the looks at all workers out of nodes(), unless they are still needed to judge.
  std::vector<outcome::WorkerLook> take_looks();
  /// The culprit, with the node of the first rank to blame, or else of the first rank that waits.
  [[nodiscard]] Culprit located(Culprit culprit) const;
  /// Ends the job now, by this node's own decision.
  void end(Culprit culprit) {
    if (launched()) stop_all({.culprit = std::move(culprit)});
  }

  /// Takes the messages that must be sent since the last call.
  std::vector<Outgoing> take_outgoing() { return std::exchange(outgoing_, {}); }

  [[nodiscard]] Waiting waiting() const;
  [[nodiscard]] const std::vector<Node>& nodes() const { return nodes_; }
  /// When no lost node's command can still be running.
  [[nodiscard]] Time all_ended_by() const { return all_ended_by_; }
  /// The number of the last term; 0 if there was none.
  [[nodiscard]] unsigned term() const { return term_ ? term_->last.number : 0; }
  [[nodiscard]] const Members& members() const { return members_; }
  /// Whether every node has been here at some time.
  [[nodiscard]] bool all_came() const {
    return std::ranges::find(nodes_, Node::State::missing, &Node::state) == nodes_.end();
  }
  /// For nodes whose command has ended: which nodes still run.
  [[nodiscard]] Waiting running() const;
  /// Whether no node has anything left to report.
  [[nodiscard]] bool all_ended() const {
    return std::ranges::all_of(nodes_, [](const Node& node) { return node.done || !node.connection; });
  }
  /// Whether a node that is not connected may come back to learn how the job ends.
  [[nodiscard]] bool awaits_return(Time now) const {
    return std::ranges::any_of(nodes_,
                               [now](const Node& node) { return !node.connection && node.back_by > now; });
  }

 private:
  /// A node of the job that cannot join as it is.
  struct RejectedNode {
    ConnectionId id;
    Hello hello;
    Problem problem;
  };
  /// A node that was sent away, or a client that is none.
  struct NotedStranger {
    std::optional<unsigned> rank;
    Problem problem;
  };
  [[nodiscard]] bool launched() const { return met_ && std::holds_alternative<Go>(*met_); }
  [[nodiscard]] bool all_done() const {
    return std::ranges::all_of(
        nodes_, [](const Node& node) { return node.state == Node::State::done || !node.trains(); });
  }
  [[nodiscard]] Node& own() { return nodes_[own_]; }
  [[nodiscard]] const Node& own() const { return nodes_[own_]; }
  Node* node_of(ConnectionId id);
  [[nodiscard]] unsigned index_of(const Node& node) const {
    return static_cast<unsigned>(&node - nodes_.data());
  }
  [[nodiscard]] std::optional<Assignment> assignment(Time now) const;
  Time tick_meeting(Time now);
  Time tick_running(Time now);

  // For jobs with spares (roster_votes.cpp).
  [[nodiscard]] bool has_heard(const Node& node) const;
  [[nodiscard]] bool is_told() const;
  [[nodiscard]] bool awaits_answers() const { return is_counted_ && !unanswered_.empty(); }
  [[nodiscard]] bool has_votes() const;
  [[nodiscard]] bool will_have_votes() const;
  [[nodiscard]] unsigned voters_here(bool KnownTerm::* is_voter) const;
  [[nodiscard]] bool awaits_voters(Time now) const;
  void begin_term();
  void count_voters();
  void count_voters_again();
  [[nodiscard]] Ballot ballot(const Node& node) const;
  void tell_voters();
  void tell_of_term(Node& node, bool is_same);
  void heard_by(Node& node, unsigned number);
  void settle();
  [[nodiscard]] std::vector<ListenAddress> candidates() const;
  [[nodiscard]] Few<NodeName> unanswered() const;
  [[nodiscard]] std::optional<LackingVotes> lacking_votes() const;
  void count(const Node& node, Time now);
  void join_late(Node& node, ConnectionId id, const Hello& hello, Time now);
  void keep_for_next_meeting(ConnectionId id);
  [[nodiscard]] bool can_replace() const;
  void lose_spare(Node& node, Node::State how);
  [[nodiscard]] bool is_outvoted() const;
  void reconsider(const Culprit& gone, bool was_spare = false);
  [[nodiscard]] Time starts_at() const {
    return hindrance_ ? Time::max() : std::max({last_arrival_, rules_.earliest, rules_.silent_ended_by});
  }
  [[nodiscard]] std::optional<Problem> difference(const Hello& hello) const;
  [[nodiscard]] std::optional<Problem> problem_of(const Hello& hello) const;
  void keep(RejectedNode wrong);
  void other_hub_came(ConnectionId id, const Hello& hello);
  void foreign_came(ConnectionId id, const Hello& hello, const Problem& problem);
  [[nodiscard]] bool has_left(const Node& node) const;
  void connect(Node& node, ConnectionId id);
  void come_back(ConnectionId id, const Hello& hello, Time now);
  [[nodiscard]] RollCall roll_call(bool is_over) const;
  [[nodiscard]] Few<Problem> problems() const;
  void end_rejected();
  [[nodiscard]] Time refused_at() const;
  void stop_node(Node& node, const Stop& stop);
  void take_place(Node& node, ConnectionId id, const Hello& hello, Time now);
  void fail(Node& node, Culprit failure, Time now);
  void leave_meeting(Node& node, const Culprit& failure, Time now);
  void fail_running(Node& node, Culprit failure, Time now);
  void looked(Node& node, const Looked& looked) const;
  static std::optional<outcome::WorkerLook> look_at(const Node& node, unsigned rank);
  static std::optional<outcome::Hang> wait_of(const Node& node, unsigned rank);
  void stop_all(Stop stop);
  [[nodiscard]] outcome::Loss loss_of(const Node& node, Time now) const;
  [[nodiscard]] outcome::Evidence evidence(Time now) const;
  void decide(Time now);
  void tell_gathered();
  /// The nodes that reported a failure, earliest first.
  [[nodiscard]] std::vector<const Node*> failed() const;
  [[nodiscard]] Stop all_failures(const std::optional<Culprit>& lost) const;
  void send(ConnectionId to, Message message) { outgoing_.push_back({{to}, std::move(message)}); }
  void close(ConnectionId id) { outgoing_.push_back({{id}, std::nullopt}); }
  void send_all(Message message, bool only_ended = false);

  Rules rules_;
  Members own_members_;
  Members& members_;
  std::vector<Node> nodes_;
  std::unordered_map<ConnectionId, unsigned> places_;  ///< each connection's node, by its index
  unsigned own_;                                       ///< this node's index
  std::optional<KnownTerm> term_;   ///< what this node knows about the last term; nullopt if there was none
  std::optional<Term> first_term_;  ///< the last term before this meeting
  bool is_counted_ = false;         ///< the voters were counted for the launch
  std::set<unsigned> unanswered_;   ///< the nodes that are connected and have not heard the last term
  std::vector<RejectedNode> rejected_;
  std::vector<ConnectionId> early_;  ///< the connections that are kept for the next meeting
  std::vector<NotedStranger> strangers_;
  std::vector<std::string> store_clients_;
  std::optional<Problem> hindrance_;
  std::vector<Outgoing> outgoing_;
  std::optional<MeetingResult> met_;
  std::optional<Stop> stop_;
  Time deadline_ = Time::max();
  Time launched_;
  std::uint32_t questions_ = 0;    ///< how many questions were asked
  Time look_at_ = Time::max();     ///< when all nodes are asked how their workers are, to judge
  Time asked_at_;                  ///< when they were asked
  Time held_until_ = Time::max();  ///< for a cause to come; then the first that lost its peer counts
  std::chrono::milliseconds slept_{0};
  Time all_ended_by_;
  Time last_arrival_;
  std::vector<bool> is_here_;     ///< before the launch, by index
  unsigned here_ = 0;             ///< how many are here
  Time enough_at_ = Time::max();  ///< since when there are enough nodes to train
  Time next_report_ = Time::max();
  Time last_report_;
  bool has_news_ = false;  ///< for node 0's own log
  bool released_ = false;
};

}  // namespace rankshim::link
