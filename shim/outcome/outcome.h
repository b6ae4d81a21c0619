#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Why something ended: one form, from a worker's death to the wire, the report and the exit code.
namespace rankshim::outcome {

/// Why a worker, a command or a node ended. The names are those on the wire and in the report.
enum class Cause : std::uint8_t {
  none,
  exited,          ///< with a code other than 0; nothing else is known
  signalled,       ///< killed by a signal
  exception,       ///< an uncaught Python exception
  out_of_memory,   ///< a process was killed at the memory limit
  hang,            ///< it still ran while all others waited for it
  exited_early,    ///< it exited 0 while others still waited for it
  peer_lost,       ///< it lost its connection to a worker elsewhere: a victim
  node_lost,       ///< its node went away
  stop_requested,  ///< it was stopped from outside
  timed_out,       ///< it waited for others in vain: a victim
  unreachable,     ///< the master or another node did not join in time
  configuration,   ///< the environment or the configuration is incomplete or contradictory
  system,          ///< the system refused something
};

/// "out_of_memory".
std::string_view name(Cause cause);
/// The cause with that name; nullopt if there is none.
std::optional<Cause> cause_named(std::string_view name);

/// Whether a worker that ended for this cause only suffered from a failure elsewhere.
constexpr bool is_victim(Cause cause) { return cause == Cause::peer_lost || cause == Cause::timed_out; }

/// Whether the culprit is found by comparing what all nodes know (outcome/judge.h), not by a failure of its
/// own.
constexpr bool is_found(Cause cause) {
  return cause == Cause::hang || cause == Cause::exited_early || cause == Cause::node_lost;
}

/// A stop that was requested while the command ran. A platform stops a pod by a signal, which looks the same
/// from anybody else, so it is not told apart.
struct StopRequest {
  enum class By : std::uint8_t {
    signal,  ///< from outside: a user, the platform, the terminal
    order,   ///< rankshim's own decision, because of another node or of what it found here
  };
  By by = By::signal;
  int signal = 0;  ///< the one that came, or that was sent for the order
  std::chrono::steady_clock::time_point when;

  /// Whether whoever runs this node stopped it, rather than rankshim itself.
  [[nodiscard]] bool from_outside() const { return by == By::signal; }
};

/// Ranks `first`, `first` + `step` and so on, up to `last`. A data-parallel group has every eighth rank.
struct RankRange {
  unsigned first = 0;
  unsigned last = 0;
  unsigned step = 1;

  [[nodiscard]] bool contains(unsigned rank) const {
    return first <= rank && rank <= last && (rank - first) % step == 0;
  }
  [[nodiscard]] std::uint64_t size() const { return std::uint64_t{last - first} / step + 1; }
  bool operator==(const RankRange&) const = default;
};

/// Whether the ranges contain exactly one rank.
bool is_one(const std::vector<RankRange>& ranges);

/// The ranks as the fewest ranges of step 1, lowest first; duplicates count once.
std::vector<RankRange> to_ranges(std::vector<unsigned> ranks);

/// Where a thread of a Python program is.
struct Frame {
  std::string file;   ///< as Python names it: "/app/train.py"
  unsigned line = 0;  ///< 0 if unknown
  std::string function;

  bool operator==(const Frame&) const = default;
};

/// How a job hangs.
enum class HangKind : std::uint8_t {
  missing,   ///< ranks have not entered a collective in which others wait
  ended,     ///< as `missing`, and these ranks have exited 0
  stopped,   ///< ranks are stopped (SIGSTOP, a debugger), or stuck in the kernel (state D)
  mismatch,  ///< all have entered a collective, but not all the same one
  order,     ///< the ranks wait for each other in a cycle: they enter the groups' collectives in different
             ///< orders
  nobody_missing,  ///< all have entered the same one: a GPU or the network is stuck
  elsewhere,       ///< all visible members have entered it, but some members are not visible
  store,           ///< all wait for torch's store, which is on node 0
  outlier,         ///< no numbers, but a few ranks are somewhere else than all others
  undecided,       ///< no numbers, and no small group of ranks stands out
};

/// "missing".
std::string_view name(HangKind kind);
/// The kind with that name; nullopt if there is none.
std::optional<HangKind> hang_kind_named(std::string_view name);

/// Whether a process in that state (proc(5)) is stopped.
constexpr bool is_stopped(char state) { return state == 'T' || state == 't'; }

/// What ranks are doing, as far as one line can say.
struct Place {
  Frame line;                 ///< the innermost line of the user's own code; no file if unknown
  std::string call;           ///< the library function that this line called: "all_reduce"; may be empty
  char state = '?';           ///< as in WorkerLook
  std::string kernel;         ///< as in WorkerLook
  bool holds_gil = false;     ///< as in WorkerLook
  std::optional<bool> works;  ///< as in WorkerLook
  bool polls = false;         ///< as in WorkerLook
  std::string below;          ///< as in WorkerLook

  bool operator==(const Place&) const = default;
};

/// What is known of a hang, besides the ranks.
struct Hang {
  HangKind kind = HangKind::undecided;
  Place place;                           ///< of the first rank to blame
  Place waits_at;                        ///< of the first rank that waits
  std::string group;                     ///< the process group in which they wait; empty if unknown
  std::uint64_t number = 0;              ///< of the collective in that group; 0 if unknown
  std::string operation;                 ///< in which they wait: "all_reduce"; empty if unknown
  std::string other_operation;           ///< for mismatch: the one that those to blame are in
  std::uint64_t further = 0;             ///< for mismatch: how many more they are in
  std::optional<std::uint32_t> stalled;  ///< for how long no collective has completed, in ms; nullopt: …
  std::optional<std::uint32_t> timeout;  ///< … the victims' own timeout shows it, of that many ms if known

  bool operator==(const Hang&) const = default;
};

/// Why a node is taken for lost.
struct Loss {
  enum class Sign : std::uint8_t {
    ended,       ///< its connection ended
    silent,      ///< its rankshim has not answered for `time`
    unanswered,  ///< its rankshim did not answer when it was asked about its workers
    suspended,   ///< its rankshim did not run for `time` (SIGSTOP), so the others have lost it
    cut_off,     ///< its connections to all `others` other nodes ended
    outvoted,    ///< its connections to more than half of all nodes ended, which may go on without it
  };
  enum class Then : std::uint8_t {
    unknown,
    restarted,      ///< another instance of it has come
    not_listening,  ///< its rankshim no longer listens
    not_back,       ///< it did not reconnect within `within`
    not_reached,    ///< the connection could not be made again, within that time if one is given
  };
  Sign sign = Sign::ended;
  Then then = Then::unknown;
  std::chrono::milliseconds time{0};
  std::optional<std::chrono::milliseconds> within;
  unsigned others = 0;

  bool operator==(const Loss&) const = default;
};

/// Who is to blame, and how it ended. Also describes any failure before it is known who is to blame. A node
/// fills in what it knows of its own failure; node 0 sets `node` and `host`.
struct Culprit {
  std::optional<unsigned> rank;  ///< of the worker in the whole job; nullopt if it is not a single worker
  std::string program;           ///< what failed, if not a worker: "sh", "torchrun"
  Cause cause = Cause::none;
  int code = 0;               ///< the exit code, or 128 + the signal
  std::optional<int> signal;  ///< that killed it or, for stop_requested, stopped it
  /// What its own node adds to that, on one line and without secrets: an exception ("ValueError: boom"), what
  /// the kernel shows ("out of memory: …"), or why a whole node cannot join. This one text travels between
  /// nodes, and not values: an exception is a text anyway, and what else it says comes from one node's
  /// settings, files and kernel, of more kinds than the protocol could name. Nothing is decided by its words;
  /// a repeated exception is the same one if its text is. Empty if unknown.
  std::string text;
  unsigned node = 0;
  std::string host;
  std::string frame;  ///< the last of an exception's traceback: "File "/app/train.py", line 7, in main"
  std::string peer;   ///< the address that a victim's exception names; empty if none
  std::vector<RankRange> ranks;        ///< for hang and exited_early: the workers to blame; for an exception:
                                       ///< the rank whose collective differs, according to torch
  std::vector<RankRange> victims;      ///< for hang and exited_early: the workers that waited for them; for
                                       ///< node_lost: those that lost a peer
  std::optional<std::uint32_t> after;  ///< how long it had run, in ms; nullopt if unknown
  std::optional<Hang> hang;  ///< for a hang that was looked at; for exited_early and a victim, where the
                             ///< victims waited, if known
  std::optional<Loss> loss;  ///< for node_lost

  bool operator==(const Culprit&) const = default;
};

/// Whether this failure alone does not show who is to blame: the worker only lost a peer, or timed out, or
/// torch has compared its collective with the others' and found that they differ.
inline bool is_inconclusive(const Culprit& failure) {
  return is_victim(failure.cause) || (failure.cause == Cause::exception && !failure.ranks.empty());
}

/// Whether all ranks hang, and none of them is to blame.
inline bool is_of_all(const Culprit& culprit) {
  return culprit.cause == Cause::hang && culprit.ranks.empty();
}

}  // namespace rankshim::outcome
