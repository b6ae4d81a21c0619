#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <optional>
#include <string>

#include "base/signals.h"
#include "launchers/torchrun/find_workers.h"
#include "launchers/torchrun/meeting.h"
#include "launchers/torchrun/program.h"
#include "launchers/torchrun/worker_watch.h"

namespace rankshim::torchrun {

/// What is known of torchrun's agent before its start.
struct AgentPlan {
  /// Its --log_dir, which exists and by which its workers are followed. Empty: they are not followed.
  std::string log_folder;
  unsigned workers = 0;  ///< how many it starts on this node
  /// These signals go to its workers instead.
  supervise::SignalSet worker_signals = 0;
  /// How it waits for other nodes before it starts its first worker; nothing if it waits for none.
  std::optional<MeetingPlan> meeting;
};

/// torchrun as the supervisor sees it. It stops its workers itself, and a second stop signal would give them
/// another 30 s. But it signals each worker's whole group, and so ends the helpers that a worker needs to
/// save its state (the processes of its data loader). So where all its workers handle a stop, they get it
/// alone, and torchrun when one of them has failed, when all have ended, or when the time is over that it
/// would give them. Until its first worker starts nothing can be lost: if it does not follow a stop at once,
/// it is killed within two seconds. When all its workers have ended, it has the time that it gives its
/// workers, or the grace.
class Agent final : public Program {
 public:
  Agent(AgentPlan plan, const JobSize& job, bool strict) : Program(job, strict), plan_(std::move(plan)) {}

  [[nodiscard]] bool follows_workers() const override { return watch_.has_value(); }
  [[nodiscard]] std::vector<supervise::WorkerState> workers() const override;
  [[nodiscard]] supervise::WorkerRecord record() const override;

  [[nodiscard]] bool stops_workers() const override { return true; }
  [[nodiscard]] bool is_for_workers(int signal) const override;
  [[nodiscard]] std::vector<Process> receivers() const override {
    return workers_of(command(), environment());
  }
  [[nodiscard]] std::vector<Process> receivers_of_stop(int signal) override;

  void started(boost::asio::io_context& io, const std::vector<pid_t>& processes, Clock::time_point when,
               const std::vector<std::string>& environment) override;
  void reaped(pid_t process, int status) override;
  void stop_passed_on(int signal, std::optional<std::chrono::milliseconds> grace) override;
  void command_ended() override;
  void finish() override;

 private:
  [[nodiscard]] std::optional<Clock::time_point> due() const override;
  void look() override;
  [[nodiscard]] bool had_workers() const { return watch_ && watch_->record().first_at; }
  [[nodiscard]] bool waits_for_nodes() const { return meeting_ && !had_workers(); }
  [[nodiscard]] std::chrono::milliseconds time_of_workers() const;
  void look_at_meeting();
  void on_late();
  void on_worker_change();
  void stop_agent();
  void expect_end();
  void expect_end_within(std::chrono::milliseconds patience);

  const AgentPlan plan_;
  std::optional<WorkerWatch> watch_;
  std::optional<Meeting> meeting_;  // until the first worker or a stop
  bool never_met_ = false;
  int passed_on_ = 0;    // to the workers
  int stop_signal_ = 0;  // the one that was passed on
  std::optional<std::chrono::milliseconds> grace_;
  bool stops_alone_ = false;                    // the workers got the stop, and the agent has not got it yet
  unsigned stopped_set_ = 0;                    // the set of these workers
  std::optional<Clock::time_point> agent_due_;  // when it gets the stop at the latest
  std::optional<Clock::time_point> late_due_;   // when it has failed to follow that
  std::chrono::milliseconds late_patience_{0};
  std::optional<Clock::time_point> hangs_due_;  // just before it kills the workers that have not stopped
};

}  // namespace rankshim::torchrun
