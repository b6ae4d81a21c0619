#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launchers/torchrun/torchrun_command.h"
#include "node/node.h"
#include "settings/settings.h"
#include "topology/topology.h"

namespace rankshim {

/// --NAME=VALUE
struct TorchrunFlag {
  std::string_view name;  ///< underscores and full names: the spelling that every version of torch takes
  std::string value;
};

/// The flags that give torchrun the topology. `log_dir` is where it keeps its workers' logs; empty if the
/// user has set it. `master_address` is that of plan_site. `more` are the options in --torchrun-args: an
/// --rdzv_conf among them counts instead of the platform's, and is taken out because the flags have it.
std::vector<TorchrunFlag> torchrun_flags(const Topology& topology, const Settings& settings, const Node& node,
                                         const std::optional<std::string>& master_address,
                                         const std::string& log_dir, std::vector<std::string>& more);

/// The user's torchrun command, with the missing ones of `flags` added after torchrun's name. Two of the
/// user's flags are replaced: an --nproc_per_node without a number, because torchrun would count the
/// machine's CPUs, and an --rdzv_conf, which is extended.
std::vector<std::string> fill_in(const std::vector<std::string>& command, const TorchrunCommand& torchrun,
                                 const Topology& topology, std::vector<TorchrunFlag> flags);

}  // namespace rankshim
