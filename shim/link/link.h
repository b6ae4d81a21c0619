#pragma once

#include <sys/resource.h>

#include <algorithm>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "link/connection.h"
#include "link/message.h"
#include "link/roster.h"
#include "link/succession.h"
#include "loop/loop.h"
#include "wait/wait.h"

namespace rankshim::link {

/// The intervals of the link. One struct, so that tests can shorten all of them.
struct Timing {
  std::chrono::milliseconds hello{5'000};    ///< for a new connection to say who it is
  std::chrono::milliseconds welcome{3'000};  ///< for the hub's answer, before the peer connects again
  std::chrono::milliseconds retry{100};      ///< between two tries to connect; more with many nodes
  std::chrono::milliseconds store{10'000};   ///< before torch's store in node 0's place is believed to be its
  std::chrono::milliseconds stranger{1'000};    ///< the same where another job's node 0 has answered
  std::chrono::milliseconds verdict{5'000};     ///< more than its own time that a peer gives node 0 to end …
                                                ///< … the meeting, so that all say the same
  std::chrono::milliseconds farewell{1'000};    ///< for the last words, at most
  std::chrono::milliseconds leave{3'000};       ///< for a node that takes no part to meet those that it tells
  std::chrono::milliseconds late{10'000};       ///< the same for node 0, unless its platform may kill it soon
  std::chrono::milliseconds look{2'000};        ///< for the answers of all nodes how their workers are
  std::chrono::milliseconds end{600'000};       ///< for all nodes' commands to end, when all start again
  std::chrono::milliseconds successor{35'000};  ///< for a node that may be the next hub to end its command
  std::chrono::milliseconds other_hub{1'000};   ///< between two looks whether there is another hub
  std::chrono::milliseconds scout{500};         ///< for an answer to one
  std::chrono::milliseconds old_hub{60'000};    ///< for a hub that was only silent to end its command
};

struct Options {
  /// What this node says of itself. `instance`, `address` and `nonce` are the link's own.
  Hello self;
  wait::MasterTarget master;           ///< only its name and port count
  std::vector<std::string> addresses;  ///< literal ones of the master, if it was just looked up
  bool leads_elsewhere = false;        ///< for node 0: none of them is its own
  /// Where node 0 listens while another process has the master's port, the same on all nodes; 0: nowhere.
  std::uint16_t second_port = 0;
  std::optional<Key> token;
  std::chrono::milliseconds timeout{30'000};  ///< `--link-timeout`
  wait::Limits dns;                           ///< where names are looked up
  Roster::Rules rules;
  std::shared_ptr<Succession> succession;  ///< of a job with spares
  std::optional<Door> scout;               ///< of a hub: it only asks whether another one is there
  Timing timing;
};

/// How many pings in a row may stay without an answer. The kernel keeps the connection of a process that is
/// stopped, so its silence does not show otherwise.
inline constexpr unsigned most_unanswered = 3;
inline constexpr std::chrono::milliseconds shortest_ping_interval{10};

/// The time between two pings, so that `timeout` (`--link-timeout`) is over when the last is unanswered.
constexpr std::chrono::milliseconds ping_interval(std::chrono::milliseconds timeout) {
  return std::clamp<std::chrono::milliseconds>(timeout / most_unanswered, shortest_ping_interval,
                                               std::chrono::hours(1));
}

/// LogLimiter bounds what other nodes make this one log: a line a second, and the same line twice a minute.
struct LogLimiter {
  bool allows(const std::string& line);
  std::string last;
  Time when;
};

/// What a node sees of its workers.
struct Sight {
  std::vector<WorkerReport> workers;
  std::map<unsigned, outcome::WorkerLook> looks;  ///< of those that run, by local rank
};

/// Link is this node's side of the link: node 0 listens (the hub), the others connect to it. It runs on the
/// event loop. After meet() it does not throw, and a link that breaks does no harm.
class Link : public std::enable_shared_from_this<Link> {
 public:
  /// The hub's if this node is it: node 0, or who takes over from it. Throws what the system refuses.
  static std::shared_ptr<Link> make(boost::asio::io_context& io, Options options);
  virtual ~Link() = default;
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  /// Waits until all nodes are here and agree, or it is clear that they will not. Cancelling it (terminal)
  /// ends it at once. What the system refuses means no link. After a Refuse with `moved` another link must be
  /// made: this node has become the hub, or is it no longer.
  boost::asio::awaitable<MeetingResult> meet(Time deadline);

  /// Sets what is called once when another node ends this one; at once if that is known already.
  void on_stop(std::function<void(const Stop&)> told);
  /// `asked` says how this node's workers are when node 0 asks, and what they do if it wants to know that. It
  /// runs on the event loop, and must not throw.
  void on_look(std::function<boost::asio::awaitable<Sight>(bool full)> asked) { asked_ = std::move(asked); }
  /// Node 0: asks all nodes, and waits at most Timing::look for their answers, which nodes() has then.
  /// `gently`: no node is woken for it; each is asked with the answer to its next ping. Others: does nothing.
  virtual boost::asio::awaitable<void> look(bool /*full*/, bool /*gently*/) { co_return; }
  /// Node 0: the looks at the workers of all nodes, which nodes() no longer has: they are large.
  virtual std::vector<outcome::WorkerLook> take_looks() { return {}; }
  /// Node 0: ends the job on all nodes because of `culprit`.
  virtual void end_job(const Culprit& /*culprit*/) {}
  /// Node 0: the culprit with its node, by the ranks.
  [[nodiscard]] virtual Culprit located(Culprit culprit) const { return culprit; }
  /// Reports that a worker of this node has failed; or, if all have not met yet, that this node cannot take
  /// part, which ends the meeting.
  void report_failure(Culprit failure);
  /// Reports that this node was stopped from outside, by this signal.
  void report_stop(int signal);

  /// Whether this node keeps the roster.
  [[nodiscard]] virtual bool is_hub() const { return false; }
  /// Whether this node was launched without a rank, to wait beside the job.
  [[nodiscard]] bool is_spare() const { return launched() && !std::get<Go>(*met_).rank; }
  /// A spare: waits until the job is over or starts again, which stop() says; finish() follows.
  boost::asio::awaitable<void> stand_by();

  /// Reports that the command and its leftover processes have ended. A node that succeeded waits for the end
  /// of the others; any other node only until its last words are sent, and one that was stopped for a moment.
  /// If stop() says even then that all start again, node 0 has not heard of that. Cancelling it ends it at
  /// once. After a meet() that was cancelled: sends what was reported to the nodes that wait, or are about to
  /// come.
  boost::asio::awaitable<void> finish(Done done);

  /// Like finish(), for a command that succeeded on a node that was stopped since: it does not wait for the
  /// others, and they go on. If it is node 0, they go on without a link.
  boost::asio::awaitable<void> leave(Done done);

  /// What ends the job, as far as this node knows; nullopt: all succeeded, or nobody knows.
  [[nodiscard]] const std::optional<Stop>& stop() const { return stop_; }
  /// When this node was told to launch; node 0 tells itself before it tells the others.
  [[nodiscard]] Time launched_at() const { return launched_at_; }
  /// `news` is called on the event loop when nodes() may have changed; it must not throw.
  void on_news(std::function<void()> news) { news_ = std::move(news); }
  /// Node 0: all nodes, by rank. Others: an empty list.
  [[nodiscard]] virtual std::vector<Node> nodes() const { return {}; }
  /// Node 0: the ranks that have had several nodes, and which.
  [[nodiscard]] virtual std::vector<Members::Tenure> history() const { return {}; }
  /// Who or what this node waits for, in the meeting and after its command's end; empty: nothing, or it is
  /// not known.
  [[nodiscard]] virtual std::string waiting() const { return launched() && !parts_ ? "" : waiting_; }
  /// The limit of open files that the command is to get (setrlimit(2) in its process): rankshim's own is
  /// raised as long as it holds the connections. nullopt: it is not.
  [[nodiscard]] virtual std::optional<rlimit> inherited_limit() const { return std::nullopt; }

 protected:
  Link(boost::asio::io_context& io, Options options);

  /// Node 0 says this to this node.
  void handle(const Message& message);
  /// All nodes were told to launch.
  [[nodiscard]] bool launched() const { return met_ && std::holds_alternative<Go>(*met_); }
  [[nodiscard]] bool is_over() const { return stop_ || is_over_; }
  /// This node's command has ended: finish() waits for other nodes.
  [[nodiscard]] bool parts() const { return parts_; }
  /// This node was stopped from outside: its platform may kill it soon.
  [[nodiscard]] bool is_stopping() const { return is_stopping_; }
  /// Waits for something to change, or that moment. Says every Rules::report what it waits for, unless node 0
  /// does.
  boost::asio::awaitable<void> wait_for_change(Time until, std::string for_what);

  boost::asio::io_context& io_;
  Options options_;
  loop::Event changed_;  ///< for hold_meeting() and wait_for_end()
  std::optional<MeetingResult> met_;
  std::optional<Stop> stop_;
  /// All have ended well, or this node has ended otherwise and said so, or there is no way back to node 0.
  bool is_over_ = false;
  std::function<void()> news_;

 private:
  virtual void send(const Message& message) = 0;
  /// Sets met_.
  virtual boost::asio::awaitable<void> hold_meeting(Time deadline) = 0;
  /// Tells the others that the link is over, if it is this node's to end it.
  virtual void release() {}
  /// `well`: the command has ended with 0.
  virtual boost::asio::awaitable<void> wait_for_end(bool well) = 0;

  void tell_stop();
  void hear(const Ballot& ballot);
  void remember(const Go& go);
  boost::asio::awaitable<void> answer(std::weak_ptr<Link> weak, Look look);

  bool parts_ = false;
  bool is_stopping_ = false;
  std::string waiting_;
  Time next_line_ = Time::max();  ///< of waits after the command's end
  Time launched_at_;
  LogLimiter waits_;
  std::function<void(const Stop&)> told_;
  std::function<boost::asio::awaitable<Sight>(bool full)> asked_;
};

/// Node 0's part, and any other node's, by which node 0 asks who answers where the master's name leads.
std::shared_ptr<Link> make_hub(boost::asio::io_context& io, Options options);
std::shared_ptr<Link> make_peer(boost::asio::io_context& io, Options options);

}  // namespace rankshim::link
