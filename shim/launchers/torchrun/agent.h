#pragma once

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launchers/program.h"
#include "launchers/torchrun/worker_watch.h"
#include "supervise/supervise.h"
#include "topology/topology.h"

namespace rankshim::launchers {

/// What is known of torchrun's agent before it starts.
struct AgentPlan {
  /// Its --log_dir, which exists, and through which its workers are followed. Empty: they are not followed.
  std::string log_folder;
  unsigned workers = 0;  ///< how many it starts on this node
  /// The store where it meets the other nodes before it starts its first worker; nullopt if it waits for
  /// none.
  std::optional<topology::Master> meets_at;
  /// How long it may wait there, from its start, before it is killed. nullopt: until it gives up, as in an
  /// elastic job, where only the agent knows whether there are enough nodes.
  std::optional<std::chrono::milliseconds> limit;
  std::chrono::milliseconds log_interval{30'000};  ///< the interval between log lines about that
};

/// torchrun, as the supervisor sees it. It stops its workers itself, and a second stop signal would give them
/// another 30 s. But it signals each worker's whole group, and so kills the helpers that a worker needs to
/// save its state (the processes of its data loader). Therefore, if all its workers handle a stop, only they
/// get it; torchrun gets it when one of them has failed, when all have ended, or when the time that it would
/// give them is over. Until its first worker starts nothing can be lost: if it does not obey a stop at once,
/// it is killed within two seconds. The same happens if all its workers have ended, because it is deaf in its
/// exit barrier. It waits indefinitely for a worker that it has killed: if that one is stuck in the kernel,
/// torchrun is killed too.
class Agent final : public Program {
 public:
  Agent(AgentPlan plan, const JobSize& job, bool strict) : Program(job, strict), plan_(std::move(plan)) {}

  [[nodiscard]] bool stops_workers() const override { return true; }
  [[nodiscard]] std::optional<std::vector<node::Process>> receivers() const override {
    return workers_of(command(), environment());
  }
  [[nodiscard]] std::vector<node::Process> receivers_of_stop(int signal) override;

  void prepare(boost::asio::io_context& io) override;
  void started(const std::vector<pid_t>& processes, Clock::time_point when,
               const std::vector<std::string>& environment) override;
  void reaped(pid_t process, int status) override {
    if (watch_) watch_->on_end(process, status);
  }
  void stop_passed_on(const outcome::StopRequest& stop,
                      std::optional<std::chrono::milliseconds> grace) override;
  void command_ended(const supervise::ExitRecord& record) override;
  void finish() override {
    if (watch_) watch_->finish();
  }

 private:
  [[nodiscard]] bool had_workers() const { return record_.first_at.has_value(); }
  [[nodiscard]] bool some_run() const {
    return !std::ranges::all_of(record_.states, &supervise::WorkerState::ended);
  }
  [[nodiscard]] std::chrono::milliseconds time_of_workers() const;
  void look_at_meeting();
  [[nodiscard]] bool has_imported();
  void on_worker_change(const supervise::WorkerEnd* ended);
  void stop_agent();
  void expect_end();
  void expect_kill_to_help();
  void look_at_killed();
  void expect_end_within(std::chrono::milliseconds patience) {
    expect_end_at(Clock::now() + patience, patience);
  }
  void expect_end_at(Clock::time_point when, std::chrono::milliseconds patience);

  const AgentPlan plan_;
  std::optional<WorkerWatch> watch_;
  Clock::time_point next_log_;  // about the meeting
  std::size_t memory_ = 0;      // a hash of the agent's memory map at the last look
  int stop_signal_ = 0;         // the one that was passed on
  std::optional<std::chrono::milliseconds> grace_;
  bool seen_dying_ = false;   // at the last look, all that still ran were dying
  bool stops_alone_ = false;  // the workers have got the stop, the agent not yet
};

}  // namespace rankshim::launchers
