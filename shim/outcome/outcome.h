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
  exited,          ///< with a code other than 0, and nothing else is known
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

/// Whether who ended so only suffered from a failure elsewhere.
constexpr bool is_victim(Cause cause) { return cause == Cause::peer_lost || cause == Cause::timed_out; }

/// Whether who ended so is to blame by what all nodes know (outcome/judge.h), not by a failure of its own.
constexpr bool is_found(Cause cause) {
  return cause == Cause::hang || cause == Cause::exited_early || cause == Cause::node_lost;
}

/// A stop that was requested while the command ran.
struct StopRequest {
  enum class By : std::uint8_t {
    signal,  ///< from outside: a user, the platform, the terminal
    order,   ///< rankshim's own decision, because of another node or of what it has found here
  };
  By by = By::signal;
  int signal = 0;  ///< that came, or was sent for the order
  std::chrono::steady_clock::time_point when;
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

/// Whether that is one rank alone.
bool is_one(const std::vector<RankRange>& ranges);

/// "7", "2-15".
std::string in_words(const RankRange& range);

/// The ranks as few ranges of step 1, the lowest first; the same rank counts once.
std::vector<RankRange> to_ranges(std::vector<unsigned> ranks);

/// "rank 1", "ranks 0 and 2-15", "ranks 0, 2, 4, 6, 8, 10, 12, 14 and more".
std::string in_words(const std::vector<RankRange>& ranges);

/// Where a thread of a Python program is.
struct Frame {
  std::string file;   ///< as Python has it: "/app/train.py"
  unsigned line = 0;  ///< 0 if it is unknown
  std::string function;

  bool operator==(const Frame&) const = default;
};

/// How a job hangs.
enum class HangKind : std::uint8_t {
  missing,   ///< ranks have not entered a collective in which others wait
  ended,     ///< the same, and these ranks have exited 0
  stopped,   ///< ranks are stopped (SIGSTOP, a debugger), or wait in the kernel without an end (state D)
  mismatch,  ///< all have entered it, and not all the same one
  order,     ///< the ranks wait for each other in a cycle: they enter the groups' collectives in
             ///< different orders
  nobody_missing,  ///< all have entered the same one: a GPU or the network is stuck
  elsewhere,       ///< all that can be seen have entered it, and not all members can be seen
  store,           ///< all wait for torch's store, which is on node 0
  outlier,         ///< no numbers: a few ranks are elsewhere than all others
  undecided,       ///< no numbers, and no few ranks that differ from all others
};

/// "missing".
std::string_view name(HangKind kind);
/// The kind with that name; nullopt if there is none.
std::optional<HangKind> hang_kind_named(std::string_view name);

/// Whether a process in that state of proc(5) is stopped.
constexpr bool is_stopped(char state) { return state == 'T' || state == 't'; }

/// What ranks do, as far as one line can say it.
struct Place {
  Frame line;              ///< the innermost of the user's own code; without a file if it is not known
  std::string call;        ///< the library's function that this line has called: "all_reduce"; may be empty
  char state = '?';        ///< as in WorkerLook
  std::string kernel;      ///< as in WorkerLook
  bool holds_gil = false;  ///< as in WorkerLook
  std::optional<bool> works;  ///< as in WorkerLook
  bool polls = false;         ///< as in WorkerLook
  std::string below;          ///< as in WorkerLook

  bool operator==(const Place&) const = default;
};

/// What is known of a hang besides the ranks.
struct Hang {
  HangKind kind = HangKind::undecided;
  Place place;                           ///< of the first of those to blame
  Place waits_at;                        ///< of the first that waits
  std::string group;                     ///< the process group in which they wait; empty if it is not known
  std::uint64_t number = 0;              ///< of the collective in that group; 0: unknown
  std::string operation;                 ///< in which they wait: "all_reduce"; empty if it is not known
  std::string other_operation;           ///< of mismatch: in which those to blame are
  std::uint64_t further = 0;             ///< of mismatch: in how many others some of them are
  std::optional<std::uint32_t> stalled;  ///< no collective has completed for that long, in ms; nullopt: …
  std::optional<std::uint32_t> timeout;  ///< … their own timeout shows it, of that many ms if it is known
};

/// Who is to blame, and how it ended; also any failure before it is known whether that is the culprit. A node
/// sets what it knows of its own failure, node 0 sets `node` and `host`.
struct Culprit {
  std::optional<unsigned> rank;  ///< of the worker in the whole job; nullopt if it is no single worker
  std::string program;           ///< what failed if it is no worker: "sh", "torchrun"
  Cause cause = Cause::none;
  int code = 0;               ///< as an exit code: N, or 128 + the signal
  std::optional<int> signal;  ///< that killed it, or of stop_requested that stopped it
  std::string text;           ///< why, as one line without secrets: "ValueError: boom"; empty if unknown
  unsigned node = 0;
  std::string host;
  std::string frame;  ///< of an exception, the last of its traceback: "File "/app/train.py", line 7, in main"
  std::string peer;   ///< the address that a victim's exception names; empty if it names none
  std::vector<RankRange> ranks;        ///< of hang and exited_early: the workers to blame
  std::vector<RankRange> victims;      ///< and those that waited for them
  std::optional<std::uint32_t> after;  ///< how long it had run, in ms; nullopt if unknown
  std::optional<Hang> hang;  ///< of a hang at which somebody has looked; of exited_early and of a victim
                             ///< where the victims waited, if that is known
};

/// Whether all ranks hang, and none of them is to blame.
inline bool is_of_all(const Culprit& culprit) {
  return culprit.cause == Cause::hang && culprit.ranks.empty();
}

/// "node 3 (e, 10.0.0.9)"; what is empty is left out.
std::string node_name(unsigned rank, std::string_view host, std::string_view address = {});

/// "exited with code 3", "was killed by SIGKILL".
std::string end_in_words(int code, const std::optional<int>& signal);

/// "in load_batch (train.py:16), which called __next__, above python3 (pid 81): S, hrtimer_nanosleep".
std::string in_words(const Place& place);

/// A hang while the job still runs, with the node if its host is known: "ranks 1 and 2 wait in barrier
/// (train.py:41) for rank 0 on node 0 (job-node-0), which is in validate (train.py:20) and works".
std::string present_hang_in_words(const Culprit& culprit);

/// What happened, without the node: "rank 17 was killed by SIGKILL: out of memory", "rank 1 is still running;
/// ranks 0 and 2 timed out waiting for it".
std::string what_happened(const Culprit& culprit);

/// The same with the node: "node 3 (e) failed: rank 17 was killed by SIGKILL: out of memory".
std::string in_words(const Culprit& culprit);

}  // namespace rankshim::outcome
