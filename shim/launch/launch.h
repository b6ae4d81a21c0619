#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fault.h"
#include "base/signal_scope.h"
#include "launch/until.h"
#include "node/node.h"
#include "settings/settings.h"
#include "topology/topology.h"
#include "torchrun/python_site.h"

namespace rankshim {

enum class Launcher : std::uint8_t {
  none,      ///< the command itself, or a script by the interpreter alone
  torchrun,  ///< python -m torch.distributed.run
  launch,    ///< torchrun too, which gives the script --local_rank, as torch.distributed.launch does
};

/// What is added to and taken from our own environment for the command.
struct EnvironmentChange {
  Variables set;
  std::vector<std::string> unset;

  /// `environment` with the change.
  [[nodiscard]] Environment apply(const Environment& environment) const;
};

/// What will be started and how.
struct LaunchPlan {
  Launcher launcher = Launcher::none;
  std::vector<std::string> argv;
  EnvironmentChange environment;
  std::optional<PythonSite> site;  ///< where Python processes are to start with our part
  supervise::SignalScope scope = supervise::SignalScope::group;
  Until wait = Until::none;
  /// With a launcher, the user's own folder for its workers' logs; empty: a temporary one.
  std::string log_dir;
  /// The interpreter that needs torch, with its options; empty where it is not known, or needs none.
  std::vector<std::string> python;
  /// What is not there of what is to be started, a sentence; empty where all is, as far as is known.
  std::string missing;
  std::vector<std::string> warnings;
};

/// The command as torchrun's, where it is one and --launcher lets it be the launcher.
std::optional<TorchrunCommand> own_torchrun(const Settings& settings,
                                            const std::vector<std::string>& command);

/// Whether the command's first word is a Python script: x.py or -m MODULE.
bool is_script(const std::vector<std::string>& command);

/// Makes the plan; pure. `master_address` is the master's literal address, once the waiting has found it: a
/// c10d job needs it for the own address that peers can reach. `command` may be empty (env, wait): then only
/// the environment and the waiting count.
Outcome<LaunchPlan> plan_launch(const Topology& topology, const Settings& settings,
                                const std::vector<std::string>& command, const Node& node,
                                const std::optional<std::string>& master_address);

/// The variables that say the topology, in order: NNODES, NODE_RANK, NPROC_PER_NODE, MASTER_ADDR,
/// MASTER_PORT, and where they are to be set PORT, RANK and WORLD_SIZE, MIN_NNODES, MAX_NNODES and RDZV_ID.
/// The platform's PET_* are kept in step; `with_pet`: those that it did not set are added.
EnvironmentChange environment_change(const Topology& topology, const Node& node, bool with_pet = false);

}  // namespace rankshim
