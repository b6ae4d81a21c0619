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
#include "link/quorum.h"
#include "outcome/look.h"
#include "outcome/outcome.h"

/// The whole job's link: node 0 (the hub) and the others (its peers) say who they are, agree, and tell each
/// other how it ends. docs/protocol.md specifies what is on the wire.
namespace rankshim::link {

using outcome::Cause;
using outcome::Culprit;
using outcome::in_words;
using outcome::node_name;

/// Where a node listens for the others.
struct Door {
  unsigned index = 0;  ///< the node's number among all
  std::string address;
  unsigned port = 0;
};

/// What a node says of itself. `instance` is a random number: it shows that the same node comes back.
struct Hello {
  std::string run;         ///< the run id
  std::string attempt;     ///< the platform's count of the job's attempts; empty if it has none
  unsigned restarts = 0;   ///< how often the job was started again in place, as far as this node knows
  unsigned uncounted = 0;  ///< of these, how often a spare has replaced a drained node: no restart is used up
  std::string job_restarts;  ///< --job-restarts; empty if it is never started again
  unsigned spares = 0;       ///< --spares: so many of the nodes wait
  std::string instance;
  unsigned rank = 0;    ///< its number among all nodes; with spares another one may be its rank in the job
  unsigned nnodes = 0;  ///< of all nodes, with the spares
  unsigned workers = 0;
  std::string launcher;
  std::string master;   ///< its name as this node was told
  unsigned port = 0;    ///< the master's, as this node was told
  std::string address;  ///< its own end of the connection
  std::string host;     ///< the host name
  std::string pod;      ///< Kubernetes' names, where they are known
  std::string platform_node;
  std::string version;             ///< rankshim's
  bool running = false;            ///< its command runs: it seeks the hub that told it to launch
  std::optional<Culprit> failure;  ///< why it takes no part: it comes only to say that
  // Of a job with spares:
  unsigned door = 0;              ///< the port where the others find it if it becomes the hub
  std::optional<unsigned> holds;  ///< its rank in the attempt before
  std::optional<KnownTerm> term;  ///< what it knows of the last go
  bool leads = false;             ///< it is a hub, and asks who answers here
  std::string nonce;              ///< only with a token
  std::string seen;               ///< its end of the connection as the hub sees it; not on the wire
};

/// The hub's answer to a hello. `instance` is its own.
struct Welcome {
  std::string instance;
  unsigned rank = 0;        ///< the hub's number among all nodes
  std::string host;         ///< empty if the hello has another run id
  unsigned port = 0;        ///< where to come back if the connection is lost; 0: nowhere
  std::uint32_t pings = 0;  ///< how often the hub expects a ping, in ms; it answers each. 0: it does neither
  std::string seen;         ///< the peer's end of the connection as the hub sees it
  unsigned term = 0;        ///< the number of the last one that the hub knows; 0: none
  bool running = false;     ///< all were told to launch
  std::string nonce;        ///< only with a token
};

/// The peer knows the token: the line's tag shows it.
struct Proof {};

/// Who is waited for.
struct Waiting {
  std::string line;    ///< "waiting for 2 of 16 nodes: ranks 5, 9; " and what is wrong
  bool wrong = false;  ///< something is
};

/// The nodes do not start together: the job cannot run as it is (78), not all nodes came (75), a node has
/// failed or was stopped (76), or the job continues without a link (0). The exit code and the sentence for
/// all nodes.
struct Refuse {
  int code = 0;
  std::string sentence;
  std::optional<Culprit> culprit;  ///< the node that takes no part, and why (76)
  bool stranger = false;           ///< only this node, which belongs to another job: its node 0 is elsewhere
  std::optional<Door> moved;       ///< the hub is there: nothing has ended
  ErrorCode error_code = ErrorCode::none;  ///< of a name or an address that cannot be had; not on the wire
};
inline Refuse no_link(std::string why) { return {.sentence = std::move(why)}; }

/// Who leads a job with spares, and who votes on what follows (link/quorum.h).
struct Lead {
  std::string master;                ///< the address of the node that has rank 0; empty: it is node 0
  std::optional<unsigned> hub_rank;  ///< the hub's in the job
  Ballot ballot;
  std::vector<Door> doors;  ///< of the hub, and of those that take over from it, the first first
};

/// All are here and agree: launch.
struct Go {
  unsigned attempt = 0;          ///< how often the job was started again in place
  unsigned uncounted = 0;        ///< of these, how often a spare has replaced a drained node
  std::optional<unsigned> rank;  ///< this node's in the job; nullopt: it waits beside the job as a spare
  unsigned nodes = 0;            ///< that train
  unsigned offset = 0;           ///< the rank of this node's first worker
  unsigned world = 0;            ///< the number of workers in the job
  std::optional<Lead> lead;      ///< only with spares
};

/// The voters are counted, because all are about to start again, because nodes have come or gone, or because
/// enough of them have heard the term.
struct Voters {
  Ballot ballot;
  std::vector<Door> doors;  ///< as in Lead; none: as before
};

/// The answer to a go or to Voters.
struct Heard {
  unsigned number = 0;  ///< of the term
};

/// How the meeting of the nodes ended.
using MeetingResult = std::variant<Go, Refuse>;

/// Each node ends its command because of `culprit`.
struct Stop {
  Culprit culprit;
  std::vector<Culprit> others;  ///< of a check: who failed besides, a few of them
  bool again = false;           ///< the job is started again: all nodes meet once more
  std::string note;             ///< why it is not, where it could have been

  /// That node was stopped from outside.
  [[nodiscard]] bool drained() const { return culprit.cause == Cause::stop_requested; }
  /// That node went away.
  [[nodiscard]] bool lost() const { return culprit.cause == Cause::node_lost; }
  /// A worker, or the whole command, failed there.
  [[nodiscard]] bool failed() const { return !drained() && !lost(); }
};

/// Node 0 asks how this node's workers are: the answer is a Looked for each that runs, where `full` is set,
/// and then one Seen.
struct Look {
  std::uint32_t number = 0;  ///< of the question
  bool full = false;         ///< what they do is wanted too
};

/// What a worker does. Its groups come in several of these messages, where there are many.
struct Looked {
  std::uint32_t number = 0;  ///< of the question
  unsigned local_rank = 0;
  outcome::WorkerLook worker;
};

/// How a worker is.
struct WorkerReport {
  unsigned local_rank = 0;
  std::optional<int> code;    ///< as an exit code; nullopt while it runs
  std::uint32_t age = 0;      ///< how long ago it ended, in ms
  std::uint64_t entered = 0;  ///< while it runs, how many collectives it has entered; 0: it did not say
  std::uint64_t ended = 0;    ///< and how many of them have ended
};

/// The answer to Look, or its end.
struct Seen {
  std::vector<WorkerReport> workers;  ///< at most `most_reports`
  std::uint32_t number = 0;           ///< of the question
  bool more = false;                  ///< another one follows, with further workers
};

/// The command of this node and its leftover processes have ended.
struct Done {
  int code = 0;
  std::vector<WorkerReport> workers;  ///< those whose end is known
};

/// The link is over: every node has succeeded, or node 0 has, and ends before the others.
struct End {};

/// From a peer: a question whether the hub's own loop is awake, and the hub's answer.
struct Ping {};

using Message = std::variant<Hello, Welcome, Proof, Waiting, Refuse, Go, Culprit, Stop, Done, End, Ping, Look,
                             Seen, Looked, Voters, Heard>;

/// Limits that no job exceeds. A larger number from another node is not used as a size, an index or a rank.
inline constexpr unsigned most_nodes = 1U << 16U;
inline constexpr unsigned most_workers = 1U << 15U;  ///< of a node: as many as it has process ids
inline constexpr unsigned most_ranks = most_nodes * most_workers;
inline constexpr unsigned most_restarts = 1'000'000;
inline constexpr std::size_t most_reports = 30;  ///< of workers, in one message
inline constexpr std::size_t most_groups = 64;   ///< of a worker; only the first are sent
inline constexpr unsigned most_terms = 1U << 31U;
inline constexpr std::size_t most_successors = 8;
inline constexpr std::size_t most_frames = 16;  ///< of a worker's stack; only the innermost are sent

inline constexpr std::size_t longest_text = 4096;
inline constexpr std::size_t longest_line = longest_text + 64;  ///< with a tag, without the line end

/// The message as a text of at most `longest_text` bytes without a line end: its type, and its members as
/// JSON, each by its name above. Their texts are made printable, and cut where they are too long.
std::string to_text(const Message& message);

/// The message in a text; nullopt if the type is unknown, the rest is not JSON of that form, or a number is
/// none that a node can mean (those of a Hello, which the hub refuses with a sentence, are the roster's to
/// check). Unknown members are ignored, missing ones have their default.
std::optional<Message> from_text(std::string_view text);

/// What the stream of each side begins with: what a client of torch's TCPStore says first (VALIDATE and the
/// magic number, 5 bytes, since torch 2.1; pytorch, torch/csrc/distributed/c10d/TCPStoreBackend.hpp), a
/// question to the store (GETNUMKEYS, which changes nothing), so that a peer knows at once if that has the
/// hub's place, a word that no other protocol says, and the version. Lines follow.
inline constexpr std::string_view greeting(
    "\x00\xce\xf7\x85\x3c\x07"
    "RSHM\x02",
    11);

/// A message's text, and the tag that stands for it; no tag without a token.
struct Line {
  std::string text;
  std::string tag;
};

/// What makes a stream unreadable.
enum class StreamError : std::uint8_t {
  no,
  store_client,  ///< it begins as a client of torch's TCPStore does
  store,         ///< torch's store has answered the question
  version,       ///< another version of the protocol
  other,         ///< a browser, a port scanner, another server; or a line above the limit
};

/// Cuts a stream into lines. It keeps at most one unfinished line.
class Decoder {
 public:
  /// The next bytes of the stream.
  void feed(std::string_view bytes) { bytes_ += bytes; }
  /// The next whole line.
  std::optional<Line> next();
  [[nodiscard]] StreamError broken() const { return broken_; }
  /// The same if nothing follows.
  [[nodiscard]] StreamError at_end() const;

 private:
  void read_greeting();

  std::string bytes_;
  bool greeted_ = false;
  StreamError broken_ = StreamError::no;
};

/// Its name, as all messages have it.
inline std::string node_name(const Hello& hello) { return node_name(hello.rank, hello.host, hello.seen); }

}  // namespace rankshim::link
