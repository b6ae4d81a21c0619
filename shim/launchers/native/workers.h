#pragma once

#include <sys/types.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/signals.h"
#include "launchers/native/native_plan.h"
#include "launchers/native/relay.h"
#include "node/node.h"
#include "supervise/launcher.h"

namespace rankshim::native {

/// What is wanted of the workers' output.
struct OutputPlan {
  bool to_files = false;
  bool tee = false;     ///< to rankshim's stdout and stderr too
  bool prefix = false;  ///< there, each line begins with the worker's rank
};

/// Makes the job's folder in the user's folder for logs, by log_folder_template. Empty if that is refused,
/// which is a warning.
std::string make_log_folder(const std::string& log_dir, std::string_view run_id);

/// Another port for a job on one machine that is started again, so that no worker meets the store of the
/// attempt before. If the master is not on loopback, the port stays: other nodes may have opened only this
/// one (a Service), and the store that used it is gone with its worker.
unsigned port_of_attempt(const StaticJob& job, const Node& node);

/// rankshim itself as the launcher: the workers are its children, so the kernel reports how each ended.
class Workers final : public supervise::Launcher {
 public:
  /// In `folder`, a worker writes its exception to attempt_N/LOCAL_RANK/error.json, and its output to files
  /// beside it if that is planned; empty: to no file. `worker_signals` go to the workers' processes, and only
  /// once each of them can take it.
  Workers(boost::asio::io_context& io, StaticJob job, std::string folder, const OutputPlan& output,
          supervise::SignalSet worker_signals, const Node& node)
      : io_(io),
        job_(std::move(job)),
        folder_(std::move(folder)),
        output_(output),
        worker_signals_(worker_signals),
        node_(node) {}

  ~Workers() override { close_workers_ends(); }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  [[nodiscard]] std::vector<supervise::Command> workers_to_start(const supervise::Command& command) override;

  [[nodiscard]] bool follows_workers() const override { return true; }
  [[nodiscard]] std::vector<supervise::WorkerState> workers() const override { return workers_; }
  [[nodiscard]] supervise::WorkerRecord record() const override { return record_; }

  [[nodiscard]] bool is_for_workers(int signal) const override {
    return (worker_signals_ & supervise::bit(signal)) != 0;
  }
  [[nodiscard]] std::vector<Process> receivers() const override;

  void started(boost::asio::io_context& io, const std::vector<pid_t>& processes, Clock::time_point when,
               const std::vector<std::string>& environment) override;
  void reaped(pid_t process, int status) override;
  void finish() override {
    if (relay_) relay_->finish();
  }
  [[nodiscard]] bool has_output() const override { return relay_ && relay_->has_more(); }

 private:
  std::array<int, 2> open_output(const std::string& worker_folder, unsigned rank);
  int open_file(const std::string& path, int target, const std::string& prefix);
  int open_pipe(int target, const std::string& prefix);
  void close_workers_ends();

  boost::asio::io_context& io_;
  const StaticJob job_;
  const std::string folder_;
  const OutputPlan output_;
  const supervise::SignalSet worker_signals_;
  const Node& node_;
  std::vector<int> workers_ends_;  // of their stdout and stderr, until they are started
  std::unique_ptr<Relay> relay_;
  std::vector<supervise::WorkerState> workers_;
  supervise::WorkerRecord record_;
};

}  // namespace rankshim::native
