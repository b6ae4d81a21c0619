#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/fault.h"

/// The whole job's link: node 0 (the hub) and the others (its peers) say who they are, agree, and tell each
/// other how it ends. docs/protocol.md specifies what is on the wire.
namespace rankshim::link {

/// What a node says of itself. `instance` and `session` are random numbers of processes: the node's own, and
/// that of the hub it was linked with before, if it comes back.
struct Hello {
  std::string run;           ///< the run id
  std::string attempt;       ///< the platform's count of the job's attempts; empty if it has none
  unsigned restarts = 0;     ///< how often the job was started again in place, as far as this node knows
  std::string job_restarts;  ///< --job-restarts; empty if it is never started again
  std::string instance;
  std::string session;
  unsigned rank = 0;
  unsigned nnodes = 0;
  unsigned workers = 0;
  std::string launcher;
  std::string master;   ///< its name as this node was told
  unsigned port = 0;    ///< the master's, as this node was told
  std::string address;  ///< its own end of the connection
  std::string host;     ///< the host name
  std::string pod;      ///< Kubernetes' names, where they are known
  std::string platform_node;
  std::string version;  ///< rankshim's
  std::string nonce;    ///< only with a token
};

/// The hub's answer to a hello.
struct Welcome {
  std::string session;
  std::string host;
  std::string address;  ///< the hub's end of the connection
  std::string seen;     ///< the peer's end of it, as the hub sees it
  unsigned port = 0;    ///< where to come back if the connection is lost; 0: nowhere
  std::string nonce;    ///< only with a token
};

/// The peer knows the token: the frame's tag shows it.
struct Proof {};

/// Who is waited for.
struct Waiting {
  unsigned nnodes = 0;
  unsigned count = 0;             ///< of the missing nodes
  std::vector<unsigned> missing;  ///< the first of them
  std::string note;               ///< what else is wrong
};

/// The nodes do not start together: the job cannot run as it is (78), not everybody came (75), a node was
/// asked to stop (76), or the job goes on without a link (0). The exit code and the sentence for everybody.
struct Refuse {
  int code = 0;
  std::string sentence;
  Anchor anchor = Anchor::none;  ///< of a name or an address that cannot be had; not on the wire
};

/// All are here and agree: launch.
struct Go {
  unsigned attempt = 0;  ///< how often the job was started again in place
  unsigned offset = 0;   ///< the rank of this node's first worker
  unsigned world = 0;    ///< the number of workers in the job
};

/// How the meeting of the nodes ended.
using Met = std::variant<Go, Refuse>;

/// A node's end, or what is about to become it. Its own node tells `rank` to `text`, the hub fills the rest.
struct Failure {
  std::optional<unsigned> rank;  ///< of the worker in the whole job; nothing: it was no single worker
  std::string cause;             ///< "oom", "signal", "exception", "exit"; "stopped" or "lost", as in Stop
  int code = 0;                  ///< as an exit code: N, or 128 + the signal
  std::string text;              ///< what happened, as one line without secrets
  unsigned node = 0;
  std::string host;
};

/// Everybody ends what runs, because of `culprit`.
struct Stop {
  Failure culprit;
  bool again = false;  ///< the job is started again: all nodes meet once more
  std::string note;    ///< why it is not, where it could have been

  /// That node was asked to stop from outside.
  [[nodiscard]] bool drained() const { return culprit.cause == "stopped"; }
  /// That node went away.
  [[nodiscard]] bool lost() const { return culprit.cause == "lost"; }
  /// A worker, or the whole command, failed there.
  [[nodiscard]] bool failed() const { return !drained() && !lost(); }
  /// "node 3 (host e) failed: rank 17 was killed by SIGKILL".
  [[nodiscard]] std::string sentence() const;
};

/// This node was asked to stop from outside.
struct Stopping {
  int signal = 0;
};

/// The end of a worker.
struct WorkerDone {
  unsigned local_rank = 0;
  int code = 0;           ///< as an exit code
  std::uint32_t age = 0;  ///< how long ago it was, in ms
};

/// The command of this node, and all that it left, has ended.
struct Done {
  int code = 0;
  std::vector<WorkerDone> workers;  ///< those whose end is known
};

/// Every node has ended well.
struct End {};

/// Asks whether the other side is there; a `Pong` answers.
struct Ping {};
struct Pong {};

/// Each type's number on the wire is its place in this list, from 1.
using Message = std::variant<Hello, Welcome, Proof, Waiting, Refuse, Go, Failure, Stop, Stopping, Done, End,
                             Ping, Pong>;

inline constexpr std::size_t longest_body = 4096;

/// The number of a message's type.
inline std::uint8_t type_of(const Message& message) { return static_cast<std::uint8_t>(message.index() + 1); }

/// The message as JSON of at most `longest_body` bytes, with each member by its name above. Texts are made
/// printable, and cut where they are too long.
std::string to_json(const Message& message);

/// The message in a frame; nothing if the type is unknown, or the body is not JSON of that form. Unknown
/// members are ignored, missing ones have their default.
std::optional<Message> from_json(std::uint8_t type, std::string_view body);

/// "ranks 5, 9 and 3 more" of the missing nodes.
std::string missing_ranks(const Waiting& waiting);
/// "waiting for 2 of 16 nodes: ranks 5, 9".
std::string waiting_line(const Waiting& waiting);

/// "node 3 (host e, 10.0.0.9)"; what is empty is left out.
std::string node_name(unsigned rank, std::string_view host, std::string_view address = {});

}  // namespace rankshim::link
