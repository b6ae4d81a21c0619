#pragma once

#include <boost/asio/awaitable.hpp>
#include <memory>
#include <optional>
#include <string>

#include "base/fault.h"
#include "launchers/launcher.h"
#include "link/connection.h"
#include "link/link.h"
#include "report/reason.h"
#include "report/verdict.h"
#include "run/attempts.h"
#include "run/hang_watch.h"
#include "run/lookout.h"
#include "run/run.h"
#include "supervise/supervise.h"
#include "wait/wait.h"

/// The whole job: this node, linked with the others (link/).
namespace rankshim::run {

/// This node's link while its command runs: reports failures of this node to the others, and stops the
/// command because of failures elsewhere.
class WholeJob {
 public:
  /// `has_launcher_restarts`: the launcher restarts its workers when one has failed, so that only the
  /// launcher's end counts. `is_check`: a node whose command has failed keeps that result, whatever
  /// ends the others. `may_restart`: the job may be restarted, so that after the command's end only stops
  /// count.
  WholeJob(std::shared_ptr<link::Link> link, unsigned node_rank, bool has_launcher_restarts, bool is_check,
           bool may_restart)
      : link_(std::move(link)),
        node_rank_(node_rank),
        has_launcher_restarts_(has_launcher_restarts),
        is_check_(is_check),
        may_restart_(may_restart) {}

  /// Call this when all nodes have met. From now on this launcher gets the orders that the others cause, for
  /// as long as it exists. `lookout` looks at its workers for node 0.
  void begin(const std::shared_ptr<supervise::Workers>& launcher, const std::shared_ptr<Lookout>& lookout);
  /// Whether worker_failed() should report this end to the others: the first failure here and, as long as
  /// only victims have failed, each further one, except workers that the launcher stopped.
  [[nodiscard]] bool concerns_job(const supervise::WorkerEnd& worker, const outcome::Culprit& failure) const;
  /// Reports that a worker of this node has failed. Call it if concerns_job().
  void worker_failed(const outcome::Culprit& failure);
  /// Call this when this node's command is stopped: reports a stop from outside, and from now on no worker's
  /// end counts. Why rankshim itself stops the command, report_end() tells.
  void on_own_stop(const outcome::StopRequest& stop);
  /// Tells the others that this node's command has ended, if it failed or was stopped and they do not know
  /// yet.
  void report_end(const report::Verdict& verdict);

  /// Whether this node waits as a spare, without a rank in this attempt.
  [[nodiscard]] bool is_spare() const { return link_->is_spare(); }
  [[nodiscard]] const link::Link& link() const { return *link_; }
  [[nodiscard]] const std::shared_ptr<link::Link>& shared_link() const { return link_; }
  /// How the hub sees the whole job, to watch it for hangs.
  [[nodiscard]] HangWatch::Target job_to_watch(decltype(HangWatch::Target::end) end) const;
  /// Tells the others that the system refused what this node needs to start its command.
  boost::asio::awaitable<void> report_refusal(const report::Reason& why);

  /// What ended the job, as far as this node knows.
  [[nodiscard]] const std::optional<link::Stop>& stop() const { return stop_; }

  /// Finishes this node's part, when its command has ended as the verdict says and its workers as given. If
  /// the command succeeded, waits until the job is over; then changes the verdict to what ended the whole
  /// job.
  boost::asio::awaitable<void> wait_for_job(const Run& run, report::Verdict& verdict,
                                            const supervise::ExitRecord& record,
                                            std::vector<link::WorkerReport> workers);

 private:
  /// Returns the signal that ended the wait, if one did. Afterwards stop_ says what ended the job.
  boost::asio::awaitable<std::optional<int>> wait_for_others(const Run& run, const link::Done& done);

  std::shared_ptr<link::Link> link_;
  const unsigned node_rank_;
  const bool has_launcher_restarts_;
  const bool is_check_;
  const bool may_restart_;
  std::optional<link::Stop> stop_;
  bool told_failure_ = false;
  bool told_cause_ = false;  ///< a failure that no peer caused
  bool told_stop_ = false;
  bool is_stopping_ = false;
};

/// Reads the key of the job's token from a file, trimmed: at least 16 bytes, with at least four different
/// ones. A file larger than 1 MiB, or writable by every user, is a fault.
Outcome<link::Key> read_token(const std::string& path);

/// Tells the other nodes, which wait for this one, that it cannot join, so that they end and name it.
/// Uses a link made just for that. Takes a few seconds at most, because node 0 may not be there yet. Does
/// nothing if the nodes are not linked. If a stop signal ends it, adds that to the verdict.
boost::asio::awaitable<void> tell_early_end(const Run& run, const launchers::Job& job,
                                            report::Verdict& verdict);

/// Waits, as a spare, until it may get a rank or the job is over. Returns how this node ends; nullopt if all
/// nodes start again. Throws an EarlyEnd if it was stopped.
boost::asio::awaitable<std::optional<report::Verdict>> wait_as_spare(const Run& run, Attempts& attempts,
                                                                     WholeJob& whole);

/// Waits for the master as chosen or, with --link, for all nodes. Throws an EarlyEnd if a node never came,
/// the nodes do not agree, or a signal arrived. Call it before each attempt: afterwards `attempts` knows
/// which one it is, and the topology which node hosts the master. `reached` is where the previous attempt
/// found the master, and is updated if the master was looked up. Returns null if the nodes are not linked.
boost::asio::awaitable<std::unique_ptr<WholeJob>> join_job(const Run& run, launchers::Job& job,
                                                           Attempts& attempts, wait::Reached& reached);

}  // namespace rankshim::run
