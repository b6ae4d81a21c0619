#pragma once

#include <memory>
#include <string>
#include <vector>

#include "launchers/launcher.h"
#include "launchers/torchrun/torchrun_command.h"

namespace rankshim::launchers {

/// NativeLauncher is rankshim itself, which starts the workers without an agent. Its part of the plan is
/// pure.
class NativeLauncher final : public Launcher {
 public:
  /// `of_torchrun`: the command is a torchrun, which would start more workers in each worker.
  explicit NativeLauncher(bool of_torchrun = false) : of_torchrun_(of_torchrun) {}

  [[nodiscard]] std::string name() const override { return "native"; }
  [[nodiscard]] bool launches() const override { return true; }
  [[nodiscard]] bool starts_each_worker() const override { return true; }
  [[nodiscard]] bool connects_at_once(const std::vector<std::string>& command) const override {
    return plan::is_script(command);
  }
  [[nodiscard]] bool can_start_early() const override { return true; }
  /// There is no agent that could fail.
  [[nodiscard]] bool shows_own_failure(bool /*has_error_file*/) const override { return true; }
  [[nodiscard]] std::string command_name(const LaunchPlan& /*plan*/) const override { return {}; }

  [[nodiscard]] Faults faults(const plan::LaunchInput& input) const override;
  [[nodiscard]] Faults worker_faults(LaunchChoice& choice, const plan::LaunchInput& input) const override;
  void complete(LaunchChoice& choice, const plan::LaunchInput& input) const override;
  void change_environment(plan::EnvironmentChange& change, const LaunchChoice& choice,
                          const plan::LaunchInput& input, const OwnFolder& folder) const override;
  [[nodiscard]] std::vector<WorkerPlan> shown_workers(const LaunchPlan& plan, const LaunchChoice& choice,
                                                      const plan::LaunchInput& input,
                                                      const std::string& folder) const override;
  [[nodiscard]] std::string error_file(const node::Environment& /*environment*/,
                                       const OwnFolder& /*folder*/) const override {
    return {};
  }
  [[nodiscard]] SignalSet ignored_at_start(const LaunchPlan& plan, const LaunchChoice& choice,
                                           const plan::LaunchInput& input) const override;

  [[nodiscard]] std::string make_log_folder(const Job& job, const std::string& temporary) const override;
  [[nodiscard]] std::shared_ptr<supervise::Workers> workers(const WorkersInput& input) const override;

 private:
  const bool of_torchrun_;
};

/// The native launcher (settings/launchers.h); `torchrun` is the command if it is one, else null.
std::shared_ptr<const Launcher> make_native(const settings::Settings& settings,
                                            const std::shared_ptr<const TorchrunCommand>& torchrun);

}  // namespace rankshim::launchers
