#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/signals.h"
#include "launchers/native/native_plan.h"
#include "launchers/native/relay.h"
#include "node/node.h"
#include "supervise/launcher.h"

namespace rankshim::native {

/// rankshim itself as the launcher: the workers are its children, so the kernel reports how each ended.
class Workers final : public supervise::Launcher {
 public:
  /// In `folder`, a worker writes its exception to attempt_N/LOCAL_RANK/error.json, and its output to files
  /// beside it with --log-dir; empty: to no file. Signals for workers go to their processes, and only once
  /// each of them can take it.
  Workers(boost::asio::io_context& io, const Topology& topology, const Settings& settings,
          const std::string& folder, const Node& node, unsigned attempt);

  [[nodiscard]] std::vector<supervise::Command> workers_to_start(const supervise::Command& command) override;

  [[nodiscard]] bool is_for_workers(int signal) const override {
    return (*settings_.get<supervise::SignalSet>(Option::worker_signals) & supervise::bit(signal)) != 0;
  }
  [[nodiscard]] std::vector<Process> receivers() const override { return record_.running(); }

  void started(boost::asio::io_context& io, const std::vector<pid_t>& processes, Clock::time_point when,
               const std::vector<std::string>& environment) override;
  void reaped(pid_t process, int status) override {
    if (const auto* end = record_.add_end(process, status)) tell_end(*end);
  }
  void finish() override {
    if (relay_) relay_->finish();
  }
  [[nodiscard]] bool has_output() const override { return relay_ && relay_->has_more(); }

 private:
  int open_output(const std::string& folder, int target, unsigned rank);

  boost::asio::io_context& io_;
  const Settings& settings_;
  const Node& node_;
  StaticJob job_;
  std::vector<Descriptor> workers_ends_;  // of their stdout and stderr, until they are started
  std::unique_ptr<Relay> relay_;
};

}  // namespace rankshim::native
