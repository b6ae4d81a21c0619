#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "init/tree.h"

namespace boost::asio {
class io_context;
}

/// The seam between PID 1 and whatever starts workers. The supervisor knows no launcher: it asks this one.
namespace rankshim::supervise {

/// How one worker ended.
struct WorkerEnd {
  pid_t pid = 0;
  unsigned local_rank = 0;
  std::optional<unsigned> rank;  ///< in the whole job, where its environment could be read
  int status = 0;                ///< as wait(2) gives it
  bool status_known = false;     ///< the kernel told; otherwise only that it ended
  std::chrono::steady_clock::time_point when;
};

/// A worker of the current set.
struct WorkerState {
  pid_t pid = 0;
  unsigned local_rank = 0;
  std::optional<unsigned> rank;
  bool ended = false;
};

/// Where the launcher placed this node when it started its last set of workers: an elastic job's nodes come
/// and go.
struct NodePlace {
  unsigned node_rank = 0;
  unsigned nodes = 0;
};

/// What a launcher knows of its workers.
struct WorkerRecord {
  std::vector<WorkerEnd> ends;     ///< of the last set, in the order of their ends
  unsigned seen = 0;               ///< how many that set had
  std::optional<NodePlace> place;  ///< of this node among that set's
  std::optional<std::chrono::steady_clock::time_point> first_at;  ///< when the first worker of all was seen
  std::string error_folder;  ///< LOCAL_RANK/error.json in it is what a worker of the last set left
  unsigned attempts = 0;     ///< 1 + the launcher's restarts; 0 where no worker was seen
  bool never_met = false;    ///< the other nodes did not come, and it was killed for that
  std::string
      trains_alone;  ///< "worker 12 has WORLD_SIZE=8, but the job has 16"; empty where nothing looks so
  bool ended_for_it = false;  ///< and it was stopped for that
};

/// What a look at the command asks the supervisor to do.
struct Request {
  enum class Kind : std::uint8_t {
    nothing,
    name_hanging,  ///< say who has not stopped; `text` follows that in the line
    stop,          ///< as if a TERM had come
    kill,          ///< kill everything; `text` says why
  };
  Kind kind = Kind::nothing;
  std::string text;
};

/// A command as one that may have workers of its own. What is here is a program that has none; a launcher
/// answers otherwise. All calls come from the event loop, from the command's start to the end of all it
/// started, and none may block.
class Launcher {
 public:
  using Clock = std::chrono::steady_clock;

  Launcher() = default;
  virtual ~Launcher() = default;
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  // ---- which processes are workers, and how each ended ----

  /// Whether workers() and record() say anything.
  [[nodiscard]] virtual bool follows_workers() const { return false; }
  /// The current set, by process number.
  [[nodiscard]] virtual std::vector<WorkerState> workers() const { return {}; }
  [[nodiscard]] virtual WorkerRecord record() const { return {}; }
  /// Whether there may be a worker now whom a stop would interrupt.
  [[nodiscard]] virtual bool has_work() const { return true; }

  // ---- which signals go to them ----

  /// Whether it stops its workers itself, by the first stop signal that it gets: it is given no second one,
  /// nor one that it should ignore; a second INT kills everything. It runs without the terminal's foreground,
  /// so that what is typed (Ctrl-C) comes to us and not to the workers too. And while it has workers that
  /// hang, its own stacks are of no interest.
  [[nodiscard]] virtual bool stops_workers() const { return false; }
  /// Whether this signal goes to the workers instead of the command.
  [[nodiscard]] virtual bool is_for_workers(int /*signal*/) const { return false; }
  /// Who takes such a signal now. Nobody: there is no worker yet, or one that is not ready; it is kept.
  [[nodiscard]] virtual std::vector<Process> receivers(int /*signal*/) const { return {}; }

  // ---- what happens ----

  /// The command runs since `when`, with this environment, which stays valid.
  virtual void started(boost::asio::io_context& /*io*/, pid_t /*command*/, Clock::time_point /*when*/,
                       const std::vector<std::string>& /*environment*/) {}
  /// A process that the command had left was reaped, with this wait status.
  virtual void reaped(pid_t /*process*/, int /*status*/) {}
  /// A stop signal has come.
  virtual void stop_came() {}
  /// It was passed on to the command. Whoever is left after `grace` is killed by us.
  virtual void stop_passed_on(int /*signal*/, std::optional<std::chrono::milliseconds> /*grace*/) {}
  /// The command itself has ended; workers may be left.
  virtual void command_ended() {}
  /// Everything has ended. Nothing is watched any more.
  virtual void finish() {}

  // ---- may it be ended ----

  /// When look() is to be called, while the command runs and is not being killed; nothing: not at all. Asked
  /// after each signal and each look: what happens on the event loop in between may put it off, and never
  /// brings it forward.
  [[nodiscard]] virtual std::optional<Clock::time_point> due() const { return std::nullopt; }
  virtual Request look() { return {}; }
};

}  // namespace rankshim::supervise
