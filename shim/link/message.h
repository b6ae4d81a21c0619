#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/fault.h"
#include "link/problem.h"
#include "link/quorum.h"
#include "outcome/look.h"
#include "outcome/not_restarted.h"
#include "outcome/outcome.h"
#include "outcome/wording.h"
#include "wait/wait.h"

/// The messages of the whole job's link: node 0 (the hub) and the others (its peers) say who they are, agree,
/// and tell each other how the job ends. docs/protocol.md specifies the wire format.
namespace rankshim::link {

using outcome::Cause;
using outcome::Culprit;
using outcome::in_words;
using outcome::node_name;

/// Where a node listens for the others. With spares it does so as long as its rankshim runs.
struct ListenAddress {
  unsigned index = 0;  ///< the node's number among all nodes
  std::string address;
  unsigned port = 0;
};

/// What a node says about itself. `instance` is a random number, by which a node that comes back is
/// recognised.
struct Hello {
  std::string run;         ///< the run id
  std::string attempt;     ///< the platform's count of the job's attempts; empty if it has none
  unsigned restarts = 0;   ///< how often the job was restarted in place, as far as this node knows
  unsigned uncounted = 0;  ///< of these, how often a spare replaced a drained node, which uses up no restart
  std::string job_restarts;  ///< --job-restarts; empty if the job is never restarted
  unsigned spares = 0;       ///< --spares: how many of the nodes wait
  std::string instance;
  unsigned rank = 0;    ///< its number among all nodes; with spares, its rank in the job may differ
  unsigned nnodes = 0;  ///< the number of all nodes, including spares
  unsigned workers = 0;
  std::string launcher;
  std::string master;   ///< its name, as this node was told
  unsigned port = 0;    ///< the master's, as this node was told
  std::string address;  ///< its own end of the connection
  std::string host;     ///< the host name
  std::string pod;      ///< Kubernetes' names, if known
  std::string platform_node;
  std::string version;             ///< rankshim's
  bool running = false;            ///< its command is running, and it seeks the hub that told it to launch
  std::optional<Culprit> failure;  ///< why it cannot join, if it connects only to say so
  // In a job with spares:
  unsigned listen_port = 0;       ///< the port where the others find it if it becomes the hub
  std::optional<unsigned> holds;  ///< its rank in the previous attempt
  std::optional<KnownTerm> term;  ///< what it knows of the last go
  bool leads = false;             ///< it is a hub, and asks who answers here
  std::string nonce;              ///< only with a token
  std::string seen;               ///< its end of the connection, as the hub sees it; not on the wire
};

/// The hub's answer to a hello. `instance` is its own.
struct Welcome {
  std::string instance;
  unsigned rank = 0;        ///< the hub's number among all nodes
  std::string host;         ///< empty if the hello has another run id
  unsigned port = 0;        ///< where to reconnect if the connection is lost; 0: nowhere
  std::uint32_t pings = 0;  ///< how often the hub expects a ping, in ms; it answers each. 0: it does neither
  std::string seen;         ///< the peer's end of the connection, as the hub sees it
  unsigned term = 0;        ///< the number of the last term that the hub knows; 0: none
  bool running = false;     ///< all nodes were told to launch
  std::string nonce;        ///< only with a token
};

/// Proves that the peer knows the token, by the line's tag.
struct Proof {};

/// What nodes wait for.
enum class WaitingFor : std::uint8_t {
  nodes,       ///< those that are missing
  pause,       ///< the end of the pause before another attempt
  silent_end,  ///< the time when the command of a node that fell silent must have ended
  port,        ///< the master's, which another process has
  ends,        ///< of other nodes' commands

  // What a node knows itself, once its command has ended; not on the wire:
  all_ended,  ///< `hub` to say that all nodes have ended
  verdict,    ///< `hub` to say what ends the job
  restart,    ///< `hub`, which ends its processes before all start again
  all_told,   ///< on the hub: all nodes to know how the job ends
};

/// Tells what those that are here, or whose command has ended, wait for.
struct Waiting {
  WaitingFor what = WaitingFor::nodes;
  RollCall roll_call;
  std::optional<Problem> port;  ///< for `port`: the process that has it
  Few<NodeName> running;        ///< for `ends`: the first ten
  unsigned hub = 0;             ///< its number among all nodes; not on the wire

  /// Whether something is wrong, so that waiting may not help.
  [[nodiscard]] bool is_wrong() const { return !roll_call.problems.empty(); }
};

/// Why a node has not met the hub in time. Only this node knows it, so it is not on the wire.
struct HubNotMet {
  enum class State : std::uint8_t {
    not_tried,     ///< no time was left
    not_reached,   ///< `last` says why
    disconnected,  ///< it was here, and the connection ended, as `last` says
    waits,         ///< it is connected; `waiting` says for whom it waits, if it has said that
    not_found,     ///< node 0's name or address did not appear, as `name` says; `last`, if anything: who was
                   ///< there before
  };
  State state = State::not_tried;
  std::string master;  ///< node 0's name and port; empty if the hub may be another node
  std::optional<Problem> last;
  std::optional<Waiting> waiting;
  std::optional<wait::Unreachable> name;
};

/// Tells all nodes, or one that has come too late, that the job does not start.
struct Refuse {
  /// configuration: it cannot run as it is; unreachable: not all nodes came in time; peer_lost: a node cannot
  /// join, or was stopped.
  Cause cause = Cause::configuration;
  RollCall roll_call;                      ///< who did not come, and what is wrong
  std::optional<Culprit> culprit;          ///< with peer_lost: that node, and why
  ErrorCode error_code = ErrorCode::none;  ///< of a name or address out of reach; not on the wire
  std::optional<HubNotMet> hub;            ///< why this node alone gave up; not on the wire
};

/// Tells all nodes that the job continues without a link between them.
struct Unlinked {
  Problem why;
};

/// Tells where the hub is now. Nothing has ended.
struct Moved {
  ListenAddress hub;
  bool is_hearsay = false;  ///< told by a node that did not have to prove it; not on the wire
};

/// Tells a node that it does not belong to the hub's job, or not yet, and that its own hub is elsewhere.
struct Stranger {
  Problem why;
};

/// Says who leads a job with spares, and who votes on what follows (link/quorum.h).
struct Lead {
  std::string master;                ///< the address of the node with rank 0; empty if that is node 0
  std::optional<unsigned> hub_rank;  ///< the hub's rank in the job
  Ballot ballot;
  std::vector<ListenAddress> candidates;  ///< the hub and its successors, in order
};

/// Tells a node to launch, because all are here and agree.
struct Go {
  unsigned attempt = 0;          ///< how often the job was restarted in place
  unsigned uncounted = 0;        ///< of these, how often a spare replaced a drained node
  std::optional<unsigned> rank;  ///< this node's rank in the job; nullopt: it waits as a spare
  unsigned nodes = 0;            ///< the number of nodes that train
  unsigned offset = 0;           ///< the rank of this node's first worker
  unsigned world = 0;            ///< the number of workers in the job
  std::optional<Lead> lead;      ///< only with spares
};

/// Announces a count of the voters, because all are about to start again, because nodes have come or gone, or
/// because enough of them have heard the term.
struct Voters {
  Ballot ballot;
  std::vector<ListenAddress> candidates;  ///< as in Lead; empty: unchanged
};

/// The answer to a go or to Voters.
struct Heard {
  unsigned number = 0;  ///< of the term
};

/// How the meeting of the nodes ended.
using MeetingResult = std::variant<Go, Refuse, Unlinked, Moved>;

/// Tells each node to end its command because of `culprit`.
struct Stop {
  Culprit culprit;
  std::vector<Culprit> others;                         ///< for a check: a few of the others that failed
  bool again = false;                                  ///< the job is restarted: all nodes meet again
  std::optional<outcome::NotRestarted> not_restarted;  ///< why not, if it could have been
  std::optional<Problem> unreached;  ///< why this node could not reach the lost hub again; not on the wire

  /// Whether that node was stopped from outside.
  [[nodiscard]] bool drained() const { return culprit.cause == Cause::stop_requested; }
  /// Whether that node went away.
  [[nodiscard]] bool lost() const { return culprit.cause == Cause::node_lost; }
  /// Whether a worker, or the whole command, failed there.
  [[nodiscard]] bool failed() const { return !drained() && !lost(); }
};

/// Asks, from node 0, how this node's workers are. The answer is, if `full` is set, a Looked for each running
/// worker, and then a Seen.
struct Look {
  std::uint32_t number = 0;  ///< of the question
  bool full = false;         ///< also ask what they are doing
};

/// Tells what a worker is doing. If it has many groups, they come in several of these messages.
struct Looked {
  std::uint32_t number = 0;  ///< of the question
  unsigned local_rank = 0;
  outcome::WorkerLook worker;
};

/// How a worker is.
struct WorkerReport {
  unsigned local_rank = 0;
  std::optional<int> code;    ///< the exit code, or 128 + the signal; nullopt while it runs
  std::uint32_t age = 0;      ///< how long ago it ended, in ms
  std::uint64_t entered = 0;  ///< while it runs, how many collectives it has entered; 0 if it did not say
  std::uint64_t ended = 0;    ///< and how many of them have ended
};

/// The answer to a Look, or the last part of it.
struct Seen {
  std::vector<WorkerReport> workers;  ///< at most `most_reports`
  std::uint32_t number = 0;           ///< of the question
  bool more = false;                  ///< another Seen follows, with more workers
};

/// Tells that this node's command and its leftover processes have ended.
struct Done {
  int code = 0;
  std::vector<WorkerReport> workers;  ///< those whose end is known
};

/// Ends the link: every node has succeeded, or node 0 has and ends before the others.
struct End {};

/// From a peer, asks whether the hub's event loop is awake; from the hub, the answer.
struct Ping {};

using Message = std::variant<Hello, Welcome, Proof, Waiting, Refuse, Go, Culprit, Stop, Done, End, Ping, Look,
                             Seen, Looked, Voters, Heard, Unlinked, Moved, Stranger>;

/// The message that tells how the meeting ended.
inline Message to_message(const MeetingResult& result) {
  return std::visit([](const auto& inner) { return Message(inner); }, result);
}

/// How the meeting ended without a launch, according to this message; nullopt if it does not end it.
inline std::optional<MeetingResult> failed_meeting(const Message& message) {
  if (const auto* refuse = std::get_if<Refuse>(&message)) return *refuse;
  if (const auto* unlinked = std::get_if<Unlinked>(&message)) return *unlinked;
  if (const auto* moved = std::get_if<Moved>(&message)) return *moved;
  return std::nullopt;
}

/// Whether the hub closes a connection after this message.
inline bool sends_away(const Message& message) {
  return std::holds_alternative<Stranger>(message) || failed_meeting(message).has_value();
}

/// A refusal because of one problem.
inline Refuse refusal(Cause cause, Problem problem) {
  Refuse refuse{.cause = cause};
  refuse.roll_call.problems.add(std::move(problem));
  return refuse;
}

/// Limits that no job exceeds. A larger number from another node is never used as a size, an index or a rank.
inline constexpr unsigned most_nodes = 1U << 16U;
inline constexpr unsigned most_workers = 1U << 15U;  ///< per node: as many as it has process ids
inline constexpr unsigned most_ranks = most_nodes * most_workers;
inline constexpr unsigned most_restarts = 1'000'000;
inline constexpr std::size_t most_reports = 30;  ///< of workers, in one message
inline constexpr std::size_t most_groups = 64;   ///< of a worker; only the first ones are sent
inline constexpr unsigned most_terms = 1U << 31U;
inline constexpr std::size_t most_successors = 8;
inline constexpr std::size_t most_frames =
    16;  ///< of a worker's stack; a deeper one is sent without calls of libraries

inline constexpr std::size_t longest_text = 4096;
inline constexpr std::size_t longest_line = longest_text + 64;  ///< with the tag, without the line end

/// The message as a text of at most `longest_text` bytes, without a line end: its type, and its members as
/// JSON, by the names above. Texts in it are made printable, and truncated if too long.
std::string to_text(const Message& message);

/// Parses a message; nullopt if the type is unknown, the rest is not JSON of that form, a problem is of an
/// unknown kind, or a number cannot be meant. (The numbers in a Hello are checked by the roster, so that the
/// hub can say what is wrong.)
/// Unknown members are ignored; missing ones have their default.
std::optional<Message> from_text(std::string_view text);

/// The beginning of the stream, on each side: first what a client of torch's TCPStore says (VALIDATE and the
/// magic number, 5 bytes, since torch 2.1; pytorch, torch/csrc/distributed/c10d/TCPStoreBackend.hpp) and a
/// question to the store (GETNUMKEYS, which changes nothing), so that a peer knows at once if a store is in
/// the hub's place; then a word that no other protocol uses, and the version. Lines follow.
inline constexpr std::string_view greeting(
    "\x00\xce\xf7\x85\x3c\x07"
    "RSHM\x02",
    11);

/// A message's text and its tag; the tag is empty if there is no token.
struct Line {
  std::string text;
  std::string tag;
};

/// Why a stream cannot be read.
enum class StreamError : std::uint8_t {
  no,
  store_client,  ///< it begins like that of a client of torch's TCPStore
  store,         ///< torch's store has answered the question
  version,       ///< another version of the protocol
  other,         ///< a browser, a port scanner, another server; or a line that is too long
};

/// Splits a stream into lines. Keeps at most one unfinished line.
class Decoder {
 public:
  /// Adds the next bytes of the stream.
  void feed(std::string_view bytes) { bytes_ += bytes; }
  /// The next complete line; nullopt if there is none yet.
  std::optional<Line> next();
  [[nodiscard]] StreamError broken() const { return broken_; }
  /// The same, if nothing follows.
  [[nodiscard]] StreamError at_end() const;

 private:
  void read_greeting();

  std::string bytes_;
  bool greeted_ = false;
  StreamError broken_ = StreamError::no;
};

/// The node's name, as in all messages.
inline NodeName name_of(const Hello& hello) { return {hello.rank, hello.host, hello.seen}; }
inline std::string node_name(const Hello& hello) { return node_name(hello.rank, hello.host, hello.seen); }

}  // namespace rankshim::link
