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
  std::chrono::milliseconds hello{5'000};     ///< for a new connection to say who it is
  std::chrono::milliseconds welcome{3'000};   ///< for the hub's answer, before the peer connects again
  std::chrono::milliseconds retry{100};       ///< between attempts to connect; longer with many nodes
  std::chrono::milliseconds store{10'000};    ///< before torch's store in node 0's place is taken for its own
  std::chrono::milliseconds stranger{1'000};  ///< between attempts while another job's node 0 answers
  std::chrono::milliseconds verdict{5'000};   ///< more than its own time that a peer gives node 0 to end …
                                              ///< … the meeting, so that all say the same
  std::chrono::milliseconds farewell{1'000};  ///< at most, for the last messages
  std::chrono::milliseconds leave{3'000};     ///< for a node that cannot join to reach those that it tells
  std::chrono::milliseconds late{10'000};     ///< the same for node 0, unless its platform may kill it soon
  std::chrono::milliseconds look{2'000};      ///< for all nodes' answers about their workers
  std::chrono::milliseconds end{600'000};     ///< for all nodes' commands to end, when all start again
  std::chrono::milliseconds successor{35'000};  ///< for a node that may be the next hub to end its command
  std::chrono::milliseconds other_hub{1'000};   ///< between looks for another hub
  std::chrono::milliseconds scout{500};         ///< for an answer to such a look
  std::chrono::milliseconds old_hub{60'000};    ///< for a hub that only fell silent to end its command
};

struct Options {
  /// What this node says about itself. The link sets `instance`, `address` and `nonce`.
  Hello self;
  wait::MasterTarget master;           ///< only its name and port are used
  std::vector<std::string> addresses;  ///< the master's literal addresses, if it was just looked up
  bool leads_elsewhere = false;        ///< for node 0: none of these is its own
  /// The port on which node 0 listens while another process has the master's port, the same on all nodes; 0:
  /// none.
  std::uint16_t second_port = 0;
  std::optional<Key> token;
  std::chrono::milliseconds timeout{30'000};  ///< `--link-timeout`
  wait::Limits dns;                           ///< how names are looked up
  Roster::Rules rules;
  std::shared_ptr<Succession> succession;  ///< for a job with spares
  bool has_mesh = false;                   ///< this node's connections pass through a mesh's proxy
  std::optional<ListenAddress> scout;      ///< for a hub that only asks whether there is another one
  Timing timing;
};

/// How many consecutive pings may remain unanswered. The kernel keeps the connection of a stopped process
/// open, so nothing else shows its silence.
inline constexpr unsigned most_unanswered = 3;
inline constexpr std::chrono::milliseconds shortest_ping_interval{10};

/// The time between pings, chosen so that `timeout` (`--link-timeout`) has passed when the last of them is
/// unanswered.
constexpr std::chrono::milliseconds ping_interval(std::chrono::milliseconds timeout) {
  return std::clamp<std::chrono::milliseconds>(timeout / most_unanswered, shortest_ping_interval,
                                               std::chrono::hours(1));
}

/// LogLimiter limits what other nodes can make this one log: one line per second, and the same line twice a
/// minute.
struct LogLimiter {
  bool allows(const std::string& line);
  std::string last;
  Time when;
};

/// How all nodes are asked about their workers.
struct LookMode {
  bool full = false;    ///< also what the workers are doing
  bool gently = false;  ///< wakes no node: each is asked with the answer to its next ping
};

/// What a node sees of its workers.
struct Observation {
  std::vector<WorkerReport> workers;
  std::map<unsigned, outcome::WorkerLook> looks;  ///< of the running ones, by local rank
};

/// Link is this node's side of the link: node 0 (the hub) listens, and the others connect to it. It runs on
/// the event loop. After meet() it does not throw, and a link that breaks does no harm.
class Link : public std::enable_shared_from_this<Link> {
 public:
  /// Creates the hub's side if this node is the hub (node 0, or its successor), else a peer's. Throws if the
  /// system refuses what it needs.
  static std::shared_ptr<Link> make(boost::asio::io_context& io, Options options);
  virtual ~Link() = default;
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  /// Waits until all nodes are here and agree, or it is clear that they will not. Cancelling it (terminal)
  /// ends it at once. If the system refuses what it needs, there is no link. After a Moved, create another
  /// link: this node has become the hub, or is no longer the hub.
  boost::asio::awaitable<MeetingResult> meet(Time deadline);

  /// Sets the function that is called once, when another node ends this one; it is called at once if that has
  /// already happened.
  void on_stop(std::function<void(const Stop&)> told);
  /// Sets the function that answers node 0 how this node's workers are and, if `full`, what they are doing.
  /// It runs on the event loop, and must not throw.
  void on_look(std::function<boost::asio::awaitable<Observation>(bool full)> asked) {
    asked_ = std::move(asked);
  }
  /// On node 0, asks all nodes, and waits at most Timing::look for their answers, which nodes() then has. On
  /// other nodes, does nothing.
  virtual boost::asio::awaitable<void> look(LookMode /*mode*/) { co_return; }
  /// On node 0, takes the looks at all nodes' workers out of nodes(), because they are large.
  virtual std::vector<outcome::WorkerLook> take_looks() { return {}; }
  /// On node 0, ends the job on all nodes because of `culprit`.
  virtual void end_job(const Culprit& /*culprit*/) {}
  /// On node 0, adds the culprit's node, which follows from the ranks.
  [[nodiscard]] virtual Culprit located(Culprit culprit) const { return culprit; }
  /// Reports that a worker of this node has failed; or, before all have met, that this node cannot join,
  /// which ends the meeting.
  void report_failure(Culprit failure);
  /// Reports that this node was stopped from outside, by this signal.
  void report_stop(int signal);

  /// Whether this node coordinates the job.
  [[nodiscard]] virtual bool is_hub() const { return false; }
  /// Whether this node was launched without a rank, to wait as a spare.
  [[nodiscard]] bool is_spare() const { return launched() && !std::get<Go>(*met_).rank; }
  /// On a spare, waits until the job is over or starts again, as stop() then says. Call finish() after it.
  boost::asio::awaitable<void> stand_by();

  /// Reports that the command and its leftover processes have ended. A node that succeeded waits for the
  /// others to end; any other node only until its last messages are sent, and one that was stopped only for a
  /// moment. If stop() then still says that all start again, node 0 has not heard that this node was stopped.
  /// Cancelling it ends it at once. After a cancelled meet(), sends what was reported to the nodes that wait
  /// or are about to join.
  boost::asio::awaitable<void> finish(Done done);

  /// Like finish(), for a node that was stopped after its command had succeeded: it does not wait for the
  /// others, and they go on. If it is node 0, they go on without a link.
  boost::asio::awaitable<void> leave(Done done);

  /// What ended the job, as far as this node knows; nullopt if all succeeded, or nothing is known.
  [[nodiscard]] const std::optional<Stop>& stop() const { return stop_; }
  /// When this node was told to launch. Node 0 tells itself before it tells the others.
  [[nodiscard]] Time launched_at() const { return launched_at_; }
  /// Sets the function that is called on the event loop when nodes() may have changed. It must not throw.
  void on_news(std::function<void()> news) { news_ = std::move(news); }
  /// On node 0, all nodes, by rank; on other nodes, empty.
  [[nodiscard]] virtual std::vector<Node> nodes() const { return {}; }
  /// On node 0, the ranks that several nodes have had, and which.
  [[nodiscard]] virtual std::vector<Members::Tenure> history() const { return {}; }
  /// Who or what this node waits for, in the meeting and after its command's end; empty if nothing, or
  /// unknown.
  [[nodiscard]] virtual std::string waiting() const;
  /// The limit on open files that the command must get (setrlimit(2) in its process), because rankshim's own
  /// is raised while it has the connections; nullopt if it is not raised.
  [[nodiscard]] virtual std::optional<rlimit> inherited_limit() const { return std::nullopt; }

 protected:
  Link(boost::asio::io_context& io, Options options);

  /// Handles a message from node 0.
  void handle(const Message& message);
  /// Whether all nodes were told to launch.
  [[nodiscard]] bool launched() const { return met_ && std::holds_alternative<Go>(*met_); }
  [[nodiscard]] bool is_over() const { return stop_ || is_over_; }
  /// Whether this node's command has ended, and finish() waits for other nodes.
  [[nodiscard]] bool is_finishing() const { return is_finishing_; }
  /// What this node waits for, as the hub said last or, once its command has ended, as it knows itself;
  /// nullopt if that is not known.
  [[nodiscard]] const std::optional<Waiting>& waits_for() const { return waiting_; }
  /// Whether a node that ends its connection and then refuses another one has certainly ended: with spares,
  /// where each listens as long as its rankshim runs, and unless a mesh's proxy does both in its name.
  [[nodiscard]] bool shows_ends() const { return options_.succession && !options_.has_mesh; }
  /// Whether this node was stopped from outside, so that its platform may kill it soon.
  [[nodiscard]] bool is_stopping() const { return is_stopping_; }
  /// Waits until something changes, or until that time. Logs what it waits for every Rules::report, unless
  /// node 0 does.
  boost::asio::awaitable<void> wait_for_change(Time until, std::function<Waiting()> for_what);

  boost::asio::io_context& io_;
  Options options_;
  loop::Event changed_;  ///< for hold_meeting() and wait_for_end()
  std::optional<MeetingResult> met_;
  std::optional<Stop> stop_;
  /// Whether all have succeeded, or this node has ended in some other way and said so, or there is no way
  /// back to node 0.
  bool is_over_ = false;
  std::function<void()> news_;

 private:
  virtual void send(const Message& message) = 0;
  /// Sets met_.
  virtual boost::asio::awaitable<void> hold_meeting(Time deadline) = 0;
  /// Tells the others that the link is over, if this node is the one to end it.
  virtual void release() {}
  /// `succeeded`: the command has exited 0.
  virtual boost::asio::awaitable<void> wait_for_end(bool succeeded) = 0;

  void wait_as_told(const Waiting& waiting);
  void stop_as_told(const Stop& stop);
  void tell_stop();
  void hear(const Ballot& ballot);
  void remember(const Go& go);
  boost::asio::awaitable<void> answer(std::weak_ptr<Link> weak, Look look);

  bool is_finishing_ = false;
  bool is_stopping_ = false;
  std::optional<Waiting> waiting_;
  Time next_line_ = Time::max();  ///< for waits after the command's end
  Time launched_at_;
  LogLimiter waits_;
  std::function<void(const Stop&)> told_;
  std::function<boost::asio::awaitable<Observation>(bool full)> asked_;
};

/// Create node 0's side, and any other node's. Node 0 also uses the latter, to ask who answers where the
/// master's name leads.
std::shared_ptr<Link> make_hub(boost::asio::io_context& io, Options options);
std::shared_ptr<Link> make_peer(boost::asio::io_context& io, Options options);

}  // namespace rankshim::link
