#pragma once

#include <boost/asio/awaitable.hpp>
#include <memory>
#include <optional>
#include <string>

#include "base/fault.h"
#include "launchers/launcher.h"
#include "link/connection.h"
#include "link/link.h"
#include "report/verdict.h"
#include "run/attempts.h"
#include "run/hang_watch.h"
#include "run/lookout.h"
#include "run/run.h"
#include "supervise/supervise.h"
#include "wait/wait.h"

/// The whole job: this node linked with the others (link/).
namespace rankshim::run {

/// This node's link while its command runs: tells the others of what fails here, and stops the command for
/// what fails there.
class WholeJob {
 public:
  /// `restarts`: the launcher starts its workers again when one has failed, so that only its end counts.
  /// `gathers`: a node whose command has failed keeps that end, whatever ends the others.
  /// `tried_again`: the job may be started again, so that after the command's end only stops count.
  WholeJob(std::shared_ptr<link::Link> link, unsigned node_rank, bool restarts, bool gathers,
           bool tried_again)
      : link_(std::move(link)),
        node_rank_(node_rank),
        restarts_(restarts),
        gathers_(gathers),
        tried_again_(tried_again) {}

  /// All nodes are here. This launcher gets what the others cause from now on, as long as it is there.
  /// `lookout` sees its workers for node 0.
  void begin(const std::shared_ptr<supervise::Workers>& launcher, const std::shared_ptr<Lookout>& lookout);
  /// Whether the others are to be told of this end, by worker_failed(): of the first failure here and, as
  /// long as only victims have failed, of each further one that is not the launcher's stop of the others.
  [[nodiscard]] bool counts(const supervise::WorkerEnd& worker, const outcome::Culprit& failure) const;
  /// A worker of this node has failed: its end counts().
  void worker_failed(const outcome::Culprit& failure);
  /// This node's command was stopped.
  void stopping(int signal);
  /// This node's command has ended: tells the others if it is not well, unless they know. `stop_signal` came
  /// from outside.
  void tell_end(const report::Verdict& verdict, std::optional<int> stop_signal = {});

  /// This node waits beside the job: it has no rank in this attempt.
  [[nodiscard]] bool is_spare() const { return link_->is_spare(); }
  [[nodiscard]] const link::Link& link() const { return *link_; }
  [[nodiscard]] const std::shared_ptr<link::Link>& shared_link() const { return link_; }
  /// How the hub sees the whole job, to watch it for hangs.
  [[nodiscard]] HangWatch::Job job_to_watch(decltype(HangWatch::Job::end) end) const;
  /// The system has refused what this node needs to start its command: tells the others.
  boost::asio::awaitable<void> give_up(std::string why);

  /// What ended the job, as far as this node knows.
  [[nodiscard]] const std::optional<link::Stop>& stop() const { return stop_; }

  /// This node's command has ended as the verdict says, and its workers so. Waits until the job is over if it
  /// ended well, and changes the verdict to what ended the whole job.
  boost::asio::awaitable<void> finish(const Run& run, report::Verdict& verdict,
                                      const supervise::ExitRecord& record,
                                      std::vector<link::WorkerReport> workers);

 private:
  /// The signal that ended the wait, if one did. What ended the job is in stop_ afterwards.
  boost::asio::awaitable<std::optional<int>> wait_for_others(const Run& run, const link::Done& done);

  void add_stop(report::Verdict& verdict);
  void add_signal(const Run& run, report::Verdict& verdict, int signal);

  std::shared_ptr<link::Link> link_;
  const unsigned node_rank_;
  const bool restarts_;
  const bool gathers_;
  const bool tried_again_;
  std::optional<link::Stop> stop_;
  bool told_failure_ = false;
  bool told_cause_ = false;  ///< a failure that no peer caused
  bool told_stop_ = false;
};

/// The key of the job's token in a file, without the blanks around it: at least 16 bytes, four different ones
/// among them. A file above 1 MiB, or one that every user may write, is a fault.
Outcome<link::Key> read_token(const std::string& path);

/// Tells the other nodes, which wait for this one, that it cannot take part, so that they end and name it:
/// with a link that is made for that. It takes some seconds at most, for node 0 may not be there yet. Does
/// nothing where the nodes are not linked. Returns whether a signal ended it that asks to stop.
boost::asio::awaitable<bool> tell_early_end(const Run& run, const launchers::Job& job,
                                            const report::Verdict& verdict);

/// A spare waits until it may get a rank, or the job is over. Returns how this node ends; nothing if all
/// nodes start again. Throws an EarlyEnd if it was stopped.
boost::asio::awaitable<std::optional<report::Verdict>> wait_as_spare(const Run& run, Attempts& attempts,
                                                                     WholeJob& whole);

/// Waits for the master as chosen or, linked (--link), for all nodes; throws an EarlyEnd if somebody never
/// came, the nodes do not agree, or a signal came. The topology then knows which node hosts the master. To be
/// called before each of the attempts, and these know which one it is afterwards; `reached` is where the last
/// one found the master, and becomes where this one does, if it was looked up. Returns null if the nodes are
/// not linked.
boost::asio::awaitable<std::unique_ptr<WholeJob>> join_job(const Run& run, launchers::Job& job,
                                                           Attempts& attempts, wait::Reached& reached);

}  // namespace rankshim::run
