#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/log.h"
#include "loop/loop.h"
#include "supervise/ending.h"
#include "supervise/launcher.h"
#include "supervise/signal_forwarder.h"
#include "supervise/signal_queue.h"
#include "supervise/spawn.h"
#include "supervise/supervise.h"
#include "supervise/terminal.h"

/// The parts of supervise(): supervisor.cpp has its steps, its deadlines and the effects of signals,
/// supervisor_ends.cpp how everything ends.
namespace rankshim::supervise {

/// The grace for leftovers, and for the other workers when one has failed, if there is no --grace.
constexpr std::chrono::milliseconds grace_after_stop{30'000};
/// The time until a refused call is tried again.
constexpr std::chrono::milliseconds try_again{5};

/// One command from its start to the end of everything it started. What is still to be done is stored in
/// members (`reap_due_`, the deadlines, the signals in `forwarder_`) before it is tried, so that a refused
/// call, or one that throws, loses none of it.
class Supervisor {
 public:
  Supervisor(boost::asio::io_context& io, SignalQueue& signals, const Command& command, const Policy& policy)
      : io_(io),
        signals_(signals),
        command_(command),
        policy_(policy),
        launcher_(policy.launcher != nullptr ? *policy.launcher : program_),
        observer_(policy.observer != nullptr ? *policy.observer : nobody_),
        workers_(launcher_.workers_to_start(command)),
        starts_workers_(!workers_.empty()),
        terminal_(policy.ctty, launcher_.stops_workers() || starts_workers_),
        forwarder_(signals, policy.scope, launcher_) {}

  /// Starts the command. Returns false if that failed: then step() must not be called.
  bool start();

  /// Does everything that is due: signals that have come, deadlines that have passed, children that have
  /// ended. Once the command runs, only its end may end this.
  void step();
  [[nodiscard]] bool finished() const { return progress_ == Progress::finished; }

  /// When there is something to do that no signal announces.
  SignalQueue::Deadline due();

  /// Takes back what was lent to the command. Returns how it ended.
  Ending end();

 private:
  using Clock = SignalQueue::Clock;
  using Deadline = SignalQueue::Deadline;

  enum class Progress : std::uint8_t { running, leftovers, killing, finished };

  /// One process of the command: itself, or a worker that is started in its place.
  struct Started {
    std::unique_ptr<Spawn> spawn;
    bool ended = false;  // and reaped
  };

  [[nodiscard]] pid_t command_pid() const { return processes_.front().spawn->pid(); }
  [[nodiscard]] Started* find_process(pid_t pid);
  void act_on_deadlines();

  void on_signal(const Signal& arrived);
  void on_running_signal(const Signal& signal, bool stop, int arrived);
  void begin_stop(int signal, std::optional<std::chrono::milliseconds> grace);
  void take_orders();

  void reap();
  void on_process_end(Started& process, int status);
  void record_end(Started& process, int status);
  void end_other_workers();
  void on_command_end(int status);
  void on_orphan_end(pid_t pid, int status);
  [[nodiscard]] bool was_killed(int status) const;
  void on_command_stopped(int signal);
  void continue_command();
  void record_failed_start(SpawnFailure failed);
  void begin_leftovers();
  void kill_by(Clock::time_point start, std::chrono::milliseconds grace);
  bool asks_for_stacks();
  void on_kill_due();
  void name_hanging(const std::vector<Process>& left, std::string_view what_now);
  void kill_all(std::string_view why);
  void give_up();

  /// Does what the command's end does not depend on. An exception is logged, the first time.
  template <class Act>
  void secondary(const Act& act) {
    try {
      act();
    } catch (const std::exception& error) {
      if (!std::exchange(warned_secondary_, true)) log::error("{}; rankshim goes on", loop::reason(error));
    }
  }

  boost::asio::io_context& io_;
  SignalQueue& signals_;
  const Command& command_;
  const Policy policy_;
  Launcher program_;  // for a command without workers
  Launcher& launcher_;
  Observer nobody_;
  Observer& observer_;
  std::vector<Command> workers_;  // these are started instead of the command
  const bool starts_workers_;
  Terminal terminal_;
  std::vector<Started> processes_;
  SignalForwarder forwarder_;
  Progress progress_ = Progress::running;
  bool command_ended_ = false;  // and reaped: its number may belong to another process
  Deadline failed_at_;          // when the first of its processes had failed, which is how the command ends
  bool reap_due_ = false;
  bool interrupted_ = false;      // by INT
  bool command_stopped_ = false;  // by the terminal
  bool asked_for_stacks_ = false;
  std::chrono::milliseconds time_for_stacks_{0};
  bool looked_at_leftovers_ = false;

  // The deadlines, in the order in which they are checked; forwarder_ has one more.
  Deadline reap_again_;    // the kernel refused to report ends
  Deadline kill_;          // the first KILL, and those that follow
  Deadline leave_behind_;  // not even KILL helps

  std::string working_directory_;  // that was left
  bool observed_ = false;
  bool warned_reap_ = false;
  bool warned_traced_ = false;
  bool warned_secondary_ = false;
  Ending ending_;
};

}  // namespace rankshim::supervise
