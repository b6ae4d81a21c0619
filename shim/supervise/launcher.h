#pragma once

#include <sys/types.h>

#include <algorithm>
#include <boost/core/noncopyable.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "supervise/spawn.h"
#include "supervise/tree.h"

namespace boost::asio {
class io_context;
}

/// The interface between PID 1 and whatever starts workers. The supervisor knows no launcher: it asks this
/// class.
namespace rankshim::supervise {

struct Ending;

/// How one worker ended.
struct WorkerEnd {
  pid_t pid = 0;
  unsigned local_rank = 0;
  std::optional<unsigned> rank;  ///< in the whole job, if its environment could be read
  int status = 0;                ///< as wait(2) gives it
  bool status_known = false;     ///< the kernel reported it; otherwise it is only known to have ended
  std::chrono::steady_clock::time_point when;
};

/// A worker of the current set.
struct WorkerState {
  pid_t pid = 0;
  unsigned local_rank = 0;
  std::optional<unsigned> rank;
  bool ended = false;
};

/// This node's numbers when the launcher started its last set of workers: an elastic job's nodes come and go.
struct NodeNumbers {
  unsigned node_rank = 0;
  unsigned nodes = 0;
};

/// What a launcher knows about its workers.
struct WorkerRecord {
  bool followed = false;               ///< they are followed; if not, only the last three members can be set
  std::vector<WorkerState> states;     ///< the last set, in the order in which its workers were seen
  std::vector<WorkerEnd> ends;         ///< of that set, in the order of their ends
  std::optional<NodeNumbers> numbers;  ///< of this node in that set
  std::optional<std::chrono::steady_clock::time_point> first_at;  ///< when the first worker was seen
  std::string error_folder;   ///< a worker of the last set left its error in LOCAL_RANK/error.json below it
  unsigned attempts = 0;      ///< 1 + the launcher's restarts; 0 if no worker was seen
  bool never_met = false;     ///< the other nodes did not come, and the command was killed for that
  std::string trains_alone;   ///< "this node trains alone: worker 12 has WORLD_SIZE=8, but …"; empty if there
                              ///< is no sign
  bool ended_for_it = false;  ///< the command was stopped because of trains_alone

  /// Those of the last set that run, as /proc shows them.
  [[nodiscard]] std::vector<Process> running() const {
    std::vector<Process> found;
    for (const WorkerState& worker : states) {
      const auto process = worker.ended ? std::nullopt : read_process(worker.pid);
      if (process && process->alive()) found.push_back(*process);
    }
    return found;
  }

  /// Adds the end of one of the last set, with its wait status if that is known. Null if there is none of
  /// that number that has not ended.
  const WorkerEnd* add_end(pid_t pid, std::optional<int> status) {
    const auto worker =
        std::ranges::find_if(states, [pid](const WorkerState& one) { return one.pid == pid && !one.ended; });
    if (worker == states.end()) return nullptr;
    worker->ended = true;
    ends.push_back({pid, worker->local_rank, worker->rank, status.value_or(0), status.has_value(),
                    std::chrono::steady_clock::now()});
    return &ends.back();
  }
};

/// Something that the supervisor of a running command has to do.
struct Order {
  enum class Kind : std::uint8_t {
    name_hanging,  ///< log what has not stopped; `why` follows it in the line
    stop,          ///< as if a TERM had come
    kill,          ///< kill everything
  };
  Kind kind = Kind::stop;
  std::string why;
};

/// The orders for one command, from its launcher or from other nodes. To be used on the event loop.
class Orders {
 public:
  /// Is carried out in the supervisor's next step. One that comes before the command's start is carried out
  /// when it runs, and one that comes when it is being killed or has ended is dropped.
  void give(Order order) {
    given_.push_back(std::move(order));
    if (wake_) wake_();
  }
  /// The oldest order that was not taken yet; nothing if there is none.
  std::optional<Order> take() {
    if (given_.empty()) return std::nullopt;
    Order order = std::move(given_.front());
    given_.erase(given_.begin());
    return order;
  }
  [[nodiscard]] bool any() const { return !given_.empty(); }
  /// `wake` is called for each order; it makes the supervisor take its next step.
  void set_wake(std::function<void()> wake) { wake_ = std::move(wake); }

 private:
  std::vector<Order> given_;
  std::function<void()> wake_;
};

/// Gets to know what happens while the command runs. Every call comes from the event loop and returns at
/// once. What an observer cannot do changes nothing for the command.
class Observer : boost::noncopyable {
 public:
  virtual ~Observer() = default;

  /// The command runs.
  virtual void started(pid_t /*command*/) {}
  /// A worker has ended, as soon as the kernel shows it.
  virtual void worker_ended(const WorkerEnd& /*worker*/) {}
  /// The first stop signal was passed on.
  virtual void stopping(int /*signal*/) {}
  /// The command has ended; what it left behind may still run.
  virtual void command_ended() {}
};

/// What supervise() asks about a command that may have workers. This base class is a program without workers;
/// a launcher overrides it. All calls come from the event loop, between the command's start and the end of
/// everything that it started, and none may block.
class Launcher : boost::noncopyable {
 public:
  using Clock = std::chrono::steady_clock;

  virtual ~Launcher() = default;

  // ---- what is started ----

  /// The workers to start instead of the command, sorted by local rank, each in a new session. The first that
  /// fails ends the others, and its end counts as the command's. None: the command itself is started. Called
  /// once.
  [[nodiscard]] virtual std::vector<Command> workers_to_start(const Command& /*command*/) { return {}; }

  // ---- which processes are workers, and how each ended ----

  [[nodiscard]] const WorkerRecord& record() const { return record_; }

  // ---- which signals go to them ----

  /// Whether the launcher stops its workers itself when it gets a stop signal. If so, it gets no second one
  /// and none that it should ignore; a second INT kills everything. It is not in the terminal's foreground,
  /// so that Ctrl-C sends its signal to rankshim and not to the workers as well. As long as workers hang, the
  /// launcher's stacks are not shown.
  [[nodiscard]] virtual bool stops_workers() const { return false; }
  /// Whether this signal goes to the workers instead of the command.
  [[nodiscard]] virtual bool is_for_workers(int /*signal*/) const { return false; }
  /// The workers that run now and get such a signal. As long as there are none, or one of them cannot take
  /// it, the signal is kept.
  [[nodiscard]] virtual std::vector<Process> receivers() const { return {}; }

  /// The workers that get this stop instead of the launcher, which then follows their ends; none: the
  /// launcher gets it itself.
  [[nodiscard]] virtual std::vector<Process> receivers_of_stop(int /*signal*/) { return {}; }

  // ---- what happens ----

  /// The command runs since `when` with this environment, which stays valid. `processes` has its process
  /// number, or those of the workers that were started instead: fewer than planned if the system refused one.
  virtual void started(boost::asio::io_context& /*io*/, const std::vector<pid_t>& /*processes*/,
                       Clock::time_point /*when*/, const std::vector<std::string>& /*environment*/) {}
  /// A process was reaped, with this wait status: a worker, or a process that the command had left.
  virtual void reaped(pid_t /*process*/, int /*status*/) {}
  /// The first stop signal was passed on to the command. Processes that are left after `grace` are killed.
  virtual void stop_passed_on(int /*signal*/, std::optional<std::chrono::milliseconds> /*grace*/) {}
  /// The command itself has ended; workers may be left.
  virtual void command_ended() {}
  /// Everything has ended, and nothing is watched any more.
  virtual void finish() {}
  /// Whether the workers' last output is still being written, after everything has ended.
  [[nodiscard]] virtual bool has_output() const { return false; }

  // ---- what it tells ----

  /// What the supervisor of this command has to do, for the launcher or for other nodes.
  [[nodiscard]] Orders& orders() { return orders_; }
  /// To be called before started(). The observer outlives the command.
  void set_observer(Observer& observer) { observer_ = &observer; }

 protected:
  void give(Order order) { orders_.give(std::move(order)); }
  /// Says at once that a worker has ended.
  void tell_end(const WorkerEnd& worker) const {
    if (observer_ != nullptr) observer_->worker_ended(worker);
  }

  WorkerRecord record_;

 private:
  Orders orders_;
  Observer* observer_ = nullptr;
};

}  // namespace rankshim::supervise
