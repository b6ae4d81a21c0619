#pragma once

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launchers/launcher.h"
#include "link/message.h"
#include "look/exception_socket.h"
#include "node/shared_memory.h"
#include "node/slurm_step.h"
#include "outcome/outcome.h"
#include "report/verdict.h"
#include "run/attempts.h"
#include "run/error_files.h"
#include "run/hang_watch.h"
#include "run/job_watch.h"
#include "run/launch.h"
#include "run/lookout.h"
#include "run/run.h"
#include "run/warm.h"
#include "run/whole_job.h"
#include "supervise/supervise.h"
#include "wait/wait.h"

namespace rankshim::run {

/// What a run keeps from one attempt to the next.
struct RunState {
  const std::vector<std::string>& arguments;
  const launchers::FoundTorch& torch;
  const AttemptInput& input;
  const node::SlurmStep step;
  Attempts attempts;
  Warm warm;
  /// The previous attempt, until the next one has started: on a busy disk, removing its folder takes longer
  /// than everything else.
  std::unique_ptr<Launch> previous;
  wait::Reached reached;                     // where the master is, if it was looked up
  std::optional<node::SharedMemory> memory;  // nullopt if there is only one attempt
};

/// Attempt is one start of the command, with everything that watches it, for this node and for the whole job.
/// Call, in this order, watch(), run_command(), end_watch(), gather() and judge().
class Attempt final : public supervise::Observer {
 public:
  /// Creates what is launched. `whole` is null if the nodes are not linked.
  Attempt(const Run& run, const launchers::Job& job, RunState& state, WholeJob* whole);

  /// Begins to watch for exceptions and hangs, and to answer `rankshim status`.
  void watch();
  /// Starts the command, and returns once it and everything that it started have ended.
  boost::asio::awaitable<supervise::ExitRecord> run_command();
  /// The command's workers, until end_watch().
  [[nodiscard]] const supervise::Workers& workers() const { return *launch_->workers; }
  /// Ends the watch, because the command has ended.
  void end_watch();

  /// Collects everything that is known about this end. Call it after end_watch().
  report::Details gather(const supervise::ExitRecord& record);
  [[nodiscard]] report::Verdict judge(const supervise::ExitRecord& record,
                                      const report::Details& details) const;
  /// How each worker of this node ended, for the other nodes.
  [[nodiscard]] std::vector<link::WorkerReport> ends(const supervise::ExitRecord& record,
                                                     const report::Verdict& verdict) const;
  /// Hands over what was launched, because its folder takes a while to remove.
  std::unique_ptr<Launch> take_launch() { return std::move(launch_); }

  void started(const std::vector<pid_t>& processes, Clock::time_point when,
               const std::vector<std::string>& environment) override;
  void start_failed(const supervise::ExitRecord& record) override { report_end(record); }
  void workers_seen() override { run_.monitor.changed(); }
  void worker_ended(const supervise::WorkerEnd& worker) override;
  void stop_passed_on(const outcome::StopRequest& stop,
                      std::optional<std::chrono::milliseconds> grace) override;
  void command_ended(const supervise::ExitRecord& record) override;

 private:
  /// How this node sees the job: the hub of linked nodes sees all of it, any other node its own workers.
  [[nodiscard]] HangWatch::Target job_to_watch();
  /// The same without NCCL's RAS: from what the workers' Python and their stacks tell.
  [[nodiscard]] HangWatch::Target job_by_python();
  /// Tells the other nodes how the command ended, unless it was stopped.
  void report_end(const supervise::ExitRecord& record);
  /// The folder where the workers' Python answers; empty if it does not.
  [[nodiscard]] std::string site_folder() const;
  [[nodiscard]] supervise::Policy plan_policy();
  /// Handles a worker that has raised an exception, and may not have ended yet.
  void worker_raised(unsigned local_rank, const look::ExceptionSocket::Groups& groups);
  /// Ends the whole job, or this node's command if the nodes are not linked, because --hang-timeout is over.
  void end_hang(const outcome::Culprit& culprit, std::vector<outcome::WorkerLook> looks);

  const Run& run_;
  const launchers::Job& job_;
  RunState& state_;
  WholeJob* const whole_;
  std::unique_ptr<Launch> launch_;
  const ErrorFiles errors_;
  const std::shared_ptr<Lookout> lookout_;
  std::optional<look::ExceptionSocket> raised_;
  std::optional<JobWatch> watch_;         // if nodes are linked, the hub's covers all of them
  std::optional<outcome::Culprit> hang_;  // for a node that is not linked
  std::vector<outcome::WorkerLook> hang_looks_;
};

}  // namespace rankshim::run
