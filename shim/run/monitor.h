#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launchers/launcher.h"
#include "link/link.h"
#include "loop/loop.h"
#include "node/host.h"
#include "report/exit_report.h"
#include "report/files.h"
#include "report/phase.h"
#include "report/reason.h"
#include "report/snapshot.h"
#include "run/memory_watch.h"
#include "run/status.h"
#include "settings/settings.h"
#include "supervise/supervise.h"

namespace rankshim::run {

/// Follows a run from start to end: the phases, the memory, the provisional line in the termination log, the
/// metrics file, and the answers to `rankshim status`. It does none of this at first, so that a command that
/// ends quickly costs nothing. It begins a moment after the wait has begun, if there is something to wait
/// for, otherwise a moment after the command's start.
class Monitor {
 public:
  Monitor(boost::asio::io_context& io, const settings::Settings& settings, const node::Host& host);

  /// Enters a phase, which began at `when`. In a phase of waiting, `waiting_for` names what is waited for,
  /// and the secondary work begins a moment later.
  void enter(report::PhaseName phase, std::string waiting_for = {}, link::Time when = link::now());

  /// Sets the job of this run; it must outlive the monitor.
  void set_job(const launchers::Job& job);

  /// Begins the secondary work a moment from now, if it has not begun.
  void begin();

  /// Call this when the run has failed and the container is kept: answers say so from now on.
  void held();

  void started(pid_t command);
  /// See MemoryWatch::ended().
  void ended(pid_t process, std::optional<link::Time> started) { memory_.ended(process, started); }
  void stopping(int signal);
  void command_ended();
  /// Makes answers include the other nodes, for as long as the link exists.
  void set_link(const std::shared_ptr<link::Link>& link);
  /// Call this when an attempt's command is about to be started by this launcher: answers include its workers
  /// for as long as the launcher exists. `is_last`: no further attempt can follow.
  void begin_attempt(unsigned number, bool is_last, const std::shared_ptr<supervise::Workers>& launcher);
  /// How an attempt is seen while it runs.
  struct View {
    std::function<void(status::Socket::Reply)> look;  ///< answers `rankshim status --stacks`
    std::function<std::string()> slow;                ///< as in report::Snapshot
    std::function<std::string()> hang;                ///< as in report::Snapshot
  };
  /// Sets the view until the next call; pass an empty one to remove it.
  void set_view(View view) {
    view_ = std::move(view);
    changed();
  }
  /// Sets the function that says what is prepared for a future attempt (warm.h); null removes it.
  void set_prepared(std::function<std::optional<report::PreparedAttempt>()> prepared) {
    prepared_ = std::move(prepared);
  }
  /// Call this when what the metrics show may have changed: writes them, at most once a second.
  void changed();
  /// Ends an attempt that is followed by another one.
  void end_attempt(const report::Verdict& verdict, const supervise::ExitRecord& record);

  /// Sets how the run ends; hooks may still follow, and the container may be kept.
  void set_exit(int code, outcome::Cause cause);
  /// Writes the metrics for the last time, because nothing follows.
  void finish();

  /// Adds to the report what happened: the phases, the attempts and, on node 0 of linked nodes, all nodes.
  void add_to(report::ExitReport& report) const;
  /// The attempts that were followed by another one.
  [[nodiscard]] const std::vector<report::PastAttempt>& past_attempts() const { return past_attempts_; }
  report::TerminationLog& termination_log() { return termination_log_; }

  [[nodiscard]] const MemoryWatch& memory() const { return memory_; }

 private:
  [[nodiscard]] report::Snapshot snapshot() const;
  [[nodiscard]] report::Phase phase() const;
  void end_phase(link::Time when);
  /// Writes to the termination log what may get rankshim killed.
  void note_kill_risk(const report::KillRisk& risk);
  void look_around();
  void open_socket();
  void on_command();

  const settings::Settings& settings_;
  const node::Host& host_;
  const launchers::Job* job_ = nullptr;
  std::vector<report::Phase> phases_;
  std::vector<report::PastAttempt> past_attempts_;
  unsigned attempt_ = 0;
  bool is_last_ = true;
  std::string waiting_for_;
  bool failed_ = false;
  bool begun_ = false;
  pid_t command_ = 0;
  std::weak_ptr<const supervise::Workers> launcher_;
  std::weak_ptr<const link::Link> link_;
  std::vector<link::Node> last_nodes_;  // set when the run ends

  report::TerminationLog termination_log_;
  loop::Timer timer_;
  MemoryWatch memory_;
  View view_;
  std::function<std::optional<report::PreparedAttempt>()> prepared_;

  report::MetricsFile metrics_file_;
  loop::Timer metrics_timer_;
  link::Time metrics_at_;  // when they were last written
  bool metrics_are_due_ = false;
  std::map<report::PhaseName, link::Time::duration> spent_;
  std::map<outcome::Cause, unsigned> restarts_;
  std::optional<report::LastExit> last_exit_;
  std::chrono::system_clock::duration calendar_{0};  // as of the phase's beginning

  status::Socket socket_;
  status::Socket stacks_socket_;
  status::Socket metrics_socket_;
};

}  // namespace rankshim::run
