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
#include "report/snapshot.h"
#include "run/memory_watch.h"
#include "run/status.h"
#include "settings/settings.h"
#include "supervise/supervise.h"

namespace rankshim::run {

/// Follows a run from its start to its end: the phases, the memory, the provisional line in
/// the termination log, the metrics file, and the answers to `rankshim status`. It does nothing of this at
/// first, so that a command that ends quickly costs nothing. If there is something to wait for, it begins a
/// moment after the waiting has begun, otherwise a moment after the command's start.
class Monitor {
 public:
  Monitor(boost::asio::io_context& io, const settings::Settings& settings, const node::Host& host);

  /// A phase begins, or has begun at `when`. `waiting_for` names what is waited for, in a phase of waiting;
  /// the secondary work begins a moment after it.
  void enter(std::string_view phase, std::string waiting_for = {}, link::Time when = link::now());

  /// Sets the job of this run; it must outlive the monitor.
  void set_job(const launchers::Job& job);

  /// Begins the secondary work a moment from now, if it has not begun.
  void begin();

  /// The run has failed and the container is kept: all answers include that from now on.
  void held();

  void started(pid_t command);
  /// As MemoryWatch::ended().
  void ended(pid_t process, std::optional<link::Time> started) { memory_.ended(process, started); }
  void stopping(int signal);
  void command_ended();
  /// Answers include the other nodes as long as the link lives.
  void set_link(const std::shared_ptr<link::Link>& link);
  /// This attempt's command is about to be started, by this launcher: answers include its workers as long as
  /// it lives. `is_last`: no other one can follow.
  void begin_attempt(unsigned number, bool is_last, const std::shared_ptr<supervise::Workers>& launcher);
  /// How an attempt is seen while it runs.
  struct View {
    std::function<void(status::Socket::Reply)> look;  ///< answers `rankshim status --stacks`
    std::function<std::string()> slow;                ///< as in report::Snapshot
    std::function<std::string()> hang;                ///< as in report::Snapshot
  };
  /// Until the next call, with an empty one.
  void set_view(View view) {
    view_ = std::move(view);
    changed();
  }
  /// `prepared` says what is prepared for an attempt to come (warm.h); until the next call, with null.
  void set_prepared(std::function<std::optional<report::PreparedAttempt>()> prepared) {
    prepared_ = std::move(prepared);
  }
  /// What the metrics show may have changed: writes them, at most once a second.
  void changed();
  /// The attempt has ended so, and another one follows.
  void end_attempt(const report::Verdict& verdict, const supervise::ExitRecord& record);

  /// The run ends like that; hooks may follow, and the container may be kept.
  void set_exit(int code, outcome::Cause cause);
  /// Nothing follows: writes the metrics for the last time.
  void finish();

  /// Adds what happened to the report: the phases, the attempts, and on node 0 of linked nodes all nodes.
  void add_to(report::ExitReport& report) const;
  /// The attempts that another one has followed.
  [[nodiscard]] const std::vector<report::PastAttempt>& past_attempts() const { return past_attempts_; }
  report::TerminationLog& termination_log() { return termination_log_; }

  [[nodiscard]] const MemoryWatch& memory() const { return memory_; }

 private:
  [[nodiscard]] report::Snapshot snapshot() const;
  [[nodiscard]] report::Phase phase() const;
  void end_phase(link::Time when);
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
  std::vector<link::Node> last_nodes_;  // once the run ends

  report::TerminationLog termination_log_;
  loop::Timer timer_;
  MemoryWatch memory_;
  View view_;
  std::function<std::optional<report::PreparedAttempt>()> prepared_;

  report::MetricsFile metrics_file_;
  loop::Timer metrics_timer_;
  link::Time metrics_at_;  // when they were written last
  bool metrics_are_due_ = false;
  std::map<std::string_view, link::Time::duration> spent_;
  std::map<outcome::Cause, unsigned> restarts_;
  std::optional<report::LastExit> last_exit_;
  std::chrono::system_clock::duration calendar_{0};  // when the phase began

  status::Socket socket_;
  status::Socket stacks_socket_;
  status::Socket metrics_socket_;
};

}  // namespace rankshim::run
