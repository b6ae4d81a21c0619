#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launchers/launcher.h"
#include "launchers/torchrun/torchrun_command.h"

namespace rankshim::launchers {

/// TorchrunLauncher is `python -m torch.distributed.run` for a script, or the user's own torchrun, to which
/// rankshim adds what its command line leaves out. Its part of the plan is pure.
class TorchrunLauncher final : public Launcher {
 public:
  /// `own` is the user's command if it is a torchrun itself, else null. `tells_local_rank`: the script gets
  /// --local_rank, as from torch.distributed.launch. `torchrun_args` holds --torchrun-args, each option as
  /// --name or
  /// --name=value.
  explicit TorchrunLauncher(std::shared_ptr<const TorchrunCommand> own = {}, bool tells_local_rank = false,
                            std::vector<std::string> torchrun_args = {})
      : own_(std::move(own)), tells_local_rank_(tells_local_rank), torchrun_args_(std::move(torchrun_args)) {}

  [[nodiscard]] std::string name() const override { return "torchrun"; }
  [[nodiscard]] bool launches() const override { return true; }
  [[nodiscard]] bool is_wrapped() const override { return own_ && own_->begins_at != 0; }
  [[nodiscard]] bool wants_equal_workers() const override { return true; }
  [[nodiscard]] bool can_start_early() const override { return !is_wrapped(); }
  [[nodiscard]] std::vector<std::string> flags_of_place() const override;
  [[nodiscard]] bool connects_at_once(const std::vector<std::string>& /*command*/) const override {
    return true;
  }
  [[nodiscard]] bool shows_own_failure(bool has_error_file) const override {
    return has_error_file && !tells_local_rank_;
  }
  [[nodiscard]] std::string_view agent_name(const FoundTorch& found) const override {
    return found.agent_name();
  }
  [[nodiscard]] std::string command_name(const LaunchPlan& plan) const override {
    return is_wrapped() ? Launcher::command_name(plan) : std::string(plan.agent_name);
  }

  [[nodiscard]] Faults faults(const plan::LaunchInput& input) const override;
  [[nodiscard]] Faults worker_faults(LaunchChoice& choice, const plan::LaunchInput& input) const override;
  void complete(LaunchChoice& choice, const plan::LaunchInput& input) const override;
  [[nodiscard]] std::vector<std::string> torchrun_args() const override { return torchrun_args_; }
  [[nodiscard]] std::string script(const std::vector<std::string>& command) const override;
  /// A c10d job needs the master's address to find the local address that peers can reach.
  [[nodiscard]] std::vector<std::string> argv(const LaunchChoice& choice, const plan::LaunchInput& input,
                                              const KnownAtStart& known) const override;
  void change_environment(plan::EnvironmentChange& change, const LaunchChoice& choice,
                          const plan::LaunchInput& input, const OwnFolder& folder) const override;
  [[nodiscard]] std::string_view lost_without_folder() const override {
    return "the workers' own exit codes and exceptions may not be known";
  }
  [[nodiscard]] std::string error_file(const node::Environment& environment,
                                       const OwnFolder& folder) const override;
  [[nodiscard]] SignalSet ignored_at_start(const LaunchPlan& plan, const LaunchChoice& choice,
                                           const plan::LaunchInput& input) const override;

  [[nodiscard]] std::string make_log_folder(const Job& job, const std::string& temporary) const override;
  [[nodiscard]] std::shared_ptr<supervise::Workers> workers(const WorkersInput& input) const override;

 private:
  [[nodiscard]] Faults output_faults(const plan::LaunchInput& input) const;
  [[nodiscard]] TorchrunCommand whole_command(const plan::LaunchInput& input, const FoundTorch& found) const;
  [[nodiscard]] node::Variables missing_flags(const LaunchChoice& choice, const TorchrunCommand& command,
                                              const plan::LaunchInput& input,
                                              const KnownAtStart& known) const;

  const std::shared_ptr<const TorchrunCommand> own_;
  const bool tells_local_rank_;
  const std::vector<std::string> torchrun_args_;
};

/// The torchrun launcher (settings/launchers.h); `own` as above.
std::shared_ptr<const Launcher> make_torchrun(const settings::Settings& settings,
                                              const std::shared_ptr<const TorchrunCommand>& own);

/// The same as torch.distributed.launch: each script gets --local_rank.
std::shared_ptr<const Launcher> make_launch(const settings::Settings& settings,
                                            const std::shared_ptr<const TorchrunCommand>& own);

/// Unsets the PET_* variables that would describe another job. `keeps_how`: keep those that say how, not
/// where, torchrun starts the script.
void hide_other_job(plan::EnvironmentChange& change, const node::Environment& environment, bool keeps_how);

/// Adds to a rendezvous' configuration whether this node hosts it, unless it says so already.
std::string with_host(const std::string& conf, bool is_host);

/// The job as torchrun's flags, names and values, for a static rendezvous and for c10d; unknown values are
/// empty. Names are in full and have underscores, which every version of torch accepts.
node::Variables job_flags(const topology::Topology& topology, std::string conf);

}  // namespace rankshim::launchers
