#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fault.h"
#include "base/signal_scope.h"
#include "launch/environment_change.h"
#include "launch/until.h"
#include "node/node.h"
#include "settings/settings.h"
#include "topology/topology.h"

/// What every launch has in common, whatever starts the workers: pure, values in and values out.
namespace rankshim {

enum class LauncherKind : std::uint8_t {
  none,      ///< the command itself, or a script by the interpreter alone
  torchrun,  ///< python -m torch.distributed.run
  launch,    ///< torchrun too, which gives the script --local_rank, as torch.distributed.launch does
};

/// What a launch is planned by.
struct LaunchInput {
  const Topology& topology;
  const Settings& settings;
  const std::vector<std::string>& command;  ///< empty (env, wait): only the environment and the waiting count
  const Node& node;
};

/// What will be started and how.
struct LaunchPlan {
  // What is known before anything is waited for.
  LauncherKind launcher = LauncherKind::none;
  supervise::SignalScope scope = supervise::SignalScope::group;
  Until wait = Until::none;
  /// With a launcher, the user's own folder for its workers' logs; empty: a temporary one.
  std::string log_dir;
  std::string interpreter;  ///< of a script: python3; empty for a program
  /// The interpreter that needs torch, with its options; empty where it is not known, or needs none.
  std::vector<std::string> python;
  /// What is not there of what is to be started, a sentence; empty where all is, as far as is known.
  std::string missing;
  std::vector<std::string> warnings;

  // What is executed: written once the master's address and our own temporary folder are known.
  std::vector<std::string> argv;
  EnvironmentChange environment;

  [[nodiscard]] bool launches() const { return launcher != LauncherKind::none; }
};

/// Whether the command's first word is a Python script: x.py or -m MODULE.
bool is_script(const std::vector<std::string>& command);

/// The interpreter for scripts: the first folder of PATH that has python3 or python decides which.
std::string find_interpreter(const Settings& settings, const Node& node);

/// What follows from a role that does not train: a warning in the plan; or a fault, where the command would
/// train alone (`can_train`).
std::optional<Fault> check_idle_role(LaunchPlan& plan, const LaunchInput& input, bool can_train);

void choose_scope(LaunchPlan& plan, const Settings& settings);
void choose_wait(LaunchPlan& plan, const LaunchInput& input);

/// What would be found out only after the waiting, or by Python and with another code. `script` is the Python
/// script that is to run, empty where there is none.
std::string find_missing(const LaunchPlan& plan, const LaunchInput& input, const std::string& script);

/// Every worker would start a thread per CPU of the machine: sets OMP_NUM_THREADS where nobody did.
void share_cpus(LaunchPlan& plan, const LaunchInput& input);

/// Takes the variables that are for rankshim alone from the command.
void hide_own_settings(EnvironmentChange& change, const Environment& environment);

}  // namespace rankshim
