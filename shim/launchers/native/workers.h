#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/signals.h"
#include "launchers/native/output.h"
#include "launchers/native/worker.h"
#include "node/node.h"
#include "supervise/launcher.h"

namespace rankshim::native {

/// rankshim itself as the launcher: the workers are its children, so the kernel reports how each ended.
class Workers final : public supervise::Launcher {
 public:
  /// In `folder`, a worker writes its exception to attempt_N/LOCAL_RANK/error.json, and its output to files
  /// beside it if that is planned; empty: to no file. `worker_signals` go to the workers' processes, and only
  /// once each of them can take it.
  Workers(StaticJob job, std::string folder, const OutputPlan& output_plan,
          supervise::SignalSet worker_signals, const Node& node)
      : job_(std::move(job)),
        folder_(std::move(folder)),
        output_plan_(output_plan),
        worker_signals_(worker_signals),
        node_(node) {}

  [[nodiscard]] std::vector<supervise::Command> workers_to_start(const supervise::Command& command) override;
  [[nodiscard]] bool starts_again(const supervise::Ending& ending) override;

  [[nodiscard]] bool follows_workers() const override { return true; }
  [[nodiscard]] std::vector<supervise::WorkerState> workers() const override;
  [[nodiscard]] supervise::WorkerRecord record() const override;

  [[nodiscard]] bool is_for_workers(int signal) const override;
  [[nodiscard]] std::vector<supervise::Process> receivers(int signal) const override;

  void started(boost::asio::io_context& io, const std::vector<pid_t>& processes, Clock::time_point when,
               const std::vector<std::string>& environment) override;
  void reaped(pid_t process, int status) override;
  void finish() override { output_->finish(); }
  [[nodiscard]] bool has_output() const override { return output_->has_more(); }

 private:
  [[nodiscard]] std::string attempt_folder() const;
  void take_new_port();

  StaticJob job_;
  const std::string folder_;
  const OutputPlan output_plan_;
  const supervise::SignalSet worker_signals_;
  const Node& node_;
  std::unique_ptr<Output> output_;  // of the last attempt
  unsigned attempt_ = 0;
  std::vector<supervise::WorkerState> workers_;  // of the last attempt
  std::vector<supervise::WorkerEnd> ends_;
  std::optional<Clock::time_point> first_at_;
};

}  // namespace rankshim::native
