#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "link/link.h"
#include "loop/timer.h"
#include "node/cgroup.h"
#include "node/node.h"
#include "plan/launch.h"
#include "report/exit_report.h"
#include "report/files.h"
#include "run/status.h"
#include "settings/settings.h"
#include "supervise/launcher.h"

namespace rankshim {

/// Follows a run from its start to its end: the phases, the memory cgroup's counters, the provisional line in
/// the termination log, and the answers to `rankshim status`. It does nothing of this at first, so that a
/// command that ends quickly costs nothing. If there is something to wait for, it begins a moment after the
/// waiting has begun, otherwise a moment after the command's start.
class Monitor final : private status::Source {
 public:
  Monitor(boost::asio::io_context& io, const Settings& settings, const Node& node);

  /// A phase begins. `waiting_for` names what is waited for, in a phase of waiting.
  void enter(std::string_view phase, std::string waiting_for = {});

  /// Sets the job of this run; it must outlive the monitor.
  void set_job(const Job& job);

  /// Begins the secondary work a moment from now. To be called once.
  void begin();

  /// The run has failed and the container is kept: all answers include that from now on.
  void held();

  void started(pid_t command);
  void stopping(int signal);
  void command_ended();
  /// From now on answers include the other nodes; null: none. It must live until then.
  void set_link(const link::Link* link) { link_ = link; }
  /// From now on answers include its workers; null: none. It must live until then.
  void set_launcher(const supervise::Launcher* launcher) { launcher_ = launcher; }
  /// This attempt's command is about to be started, by this launcher. `is_last`: no other one can follow.
  void begin_attempt(unsigned number, bool is_last, const supervise::Launcher* launcher);
  /// The attempt has ended so, and another one follows.
  void end_attempt(const Verdict& verdict, const supervise::Ending& ending);

  /// All nodes of the job by rank, on node 0 of linked nodes.
  [[nodiscard]] std::vector<link::Node> nodes() const {
    return link_ != nullptr ? link_->nodes() : std::vector<link::Node>{};
  }
  /// Of the current attempt.
  [[nodiscard]] const std::vector<Phase>& phases() const { return phases_; }
  /// The number of the current attempt, or the last one.
  [[nodiscard]] unsigned attempt() const { return attempt_; }
  /// The attempts that another one has followed.
  [[nodiscard]] const std::vector<PastAttempt>& past_attempts() const { return past_attempts_; }
  TerminationLog& termination_log() { return termination_log_; }

  /// The counters now, with the kills since the beginning; unknown if the beginning was not read.
  [[nodiscard]] MemoryReading memory() const;

 private:
  [[nodiscard]] std::string status() const override;
  void look_around();
  void open_socket();
  void on_command();
  void report_oom_group();
  void watch_memory();
  void on_memory_event();

  const Settings& settings_;
  const Node& node_;
  const Job* job_ = nullptr;
  std::vector<Phase> phases_;
  std::vector<PastAttempt> past_attempts_;
  unsigned attempt_ = 0;
  bool is_last_ = true;
  std::string waiting_for_;
  bool failed_ = false;
  bool begun_ = false;
  pid_t command_ = 0;
  const supervise::Launcher* launcher_ = nullptr;
  const link::Link* link_ = nullptr;

  TerminationLog termination_log_;
  MemoryGroup memory_group_;
  std::optional<MemoryReading> memory_before_;
  loop::Timer timer_;
  boost::asio::posix::stream_descriptor memory_events_;
  status::Socket socket_;
};

}  // namespace rankshim
