#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "node/node.h"
#include "settings/settings.h"
#include "topology/topology.h"
#include "torchrun/torchrun_command.h"

namespace rankshim {

/// --NAME=VALUE
struct TorchrunFlag {
  std::string_view name;  ///< underscores and full names: the one spelling that every version of torch takes
  std::string value;
};

/// What torchrun has to be told of the topology. `log_dir`: where it keeps its workers' logs; empty where the
/// user has said so himself. `master_address` as of plan_site.
std::vector<TorchrunFlag> torchrun_flags(const Topology& topology, const Settings& settings, const Node& node,
                                         const std::optional<std::string>& master_address,
                                         const std::string& log_dir);

/// The user's own torchrun command with those of `flags` that he left out, right behind torchrun's name. Two
/// of his own are replaced by ours: an --nproc_per_node that leaves the number open, for torchrun would count
/// the machine's CPUs, and an --rdzv_conf that we add to.
std::vector<std::string> fill_in(const std::vector<std::string>& command, const TorchrunCommand& torchrun,
                                 const Topology& topology, std::vector<TorchrunFlag> flags);

}  // namespace rankshim
