#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fault.h"
#include "base/signals.h"
#include "node/host.h"
#include "settings/settings.h"
#include "topology/topology.h"

/// The part of every launch that does not depend on what starts the workers. Its functions are pure.
namespace rankshim::plan {

/// The variables in which a worker reads its place as torchrun tells it, besides those of facts (variable_of;
/// torch/distributed/elastic/agent/server/local_elastic_agent.py, _start_workers).
inline constexpr const char* role_rank = "ROLE_RANK";
inline constexpr const char* role_world_size = "ROLE_WORLD_SIZE";
inline constexpr const char* group_rank = "GROUP_RANK";
inline constexpr const char* group_world_size = "GROUP_WORLD_SIZE";

/// The variable from which gloo reads its interface's name when the first process group is created.
inline constexpr const char* gloo_interface = "GLOO_SOCKET_IFNAME";

/// The changes to rankshim's environment for the command.
struct EnvironmentChange {
  node::Variables set;
  std::vector<std::string> unset;

  /// Sets a variable, overriding any earlier change to it.
  void replace(std::string name, std::string value);

  /// Removes a variable, overriding any earlier change to it.
  void remove(const std::string& name, const node::Environment& environment);

  /// Returns `environment` with the changes applied.
  [[nodiscard]] node::Environment apply(const node::Environment& environment) const;
};

/// What a launch is planned from.
struct LaunchInput {
  const topology::Topology& topology;
  const settings::Settings& settings;
  const std::vector<std::string>&
      command;  ///< empty for env and wait, which need only the environment and the waiting
  const node::Host& host;
};

/// A command that starts Python, taken apart.
struct PythonWords {
  std::string what;      ///< the module's name, or the script's path
  bool module = false;   ///< given by -m
  std::size_t rest = 0;  ///< the index of the first argument to it
  /// The interpreter with its options; empty if the command leaves it to rankshim (-m MODULE, x.py).
  std::vector<std::string> interpreter;
};

/// Parses `python[3[.x]] [OPTIONS] -m MODULE|SCRIPT …`, with or without a path, and `-m MODULE …` and `x.py
/// …`, for which rankshim chooses the interpreter. Returns nullopt for any other command, and for one without
/// module or script (-c, stdin). The options are CPython 3's (its documentation, "Command line").
std::optional<PythonWords> read_python(const std::vector<std::string>& command);

/// The indexes at which the actual command may begin: 0, after programs that execute another one (`env X=Y`,
/// `timeout 60`, `conda run`), and after a shell script followed by a whole Python command (`entrypoint.sh
/// torchrun x.py`). This needs no list of those programs' options: an extra index does no harm, because no
/// launcher's name is there.
std::vector<std::size_t> possible_starts(const std::vector<std::string>& command);

/// Whether the command's first word is a Python script: x.py or -m MODULE.
bool is_script(const std::vector<std::string>& command);

/// The interpreter for scripts: python3 or python in the first folder of PATH that has one.
std::string find_interpreter(const settings::Settings& settings, const node::Host& host);

/// Warnings that a program may not do what is expected of it on this topology, one sentence each.
std::vector<std::string> program_warnings(const topology::Topology& topology,
                                          const settings::Settings& settings,
                                          const std::vector<std::string>& command, const node::Host& host);

/// The variables for the topology, in order: NNODES, NODE_RANK, NPROC_PER_NODE, MASTER_ADDR, MASTER_PORT,
/// and, where they apply, PORT, RANK and WORLD_SIZE, MIN_NNODES, MAX_NNODES and RDZV_ID. The platform's PET_*
/// are changed to agree with them; `with_pet` adds those that are not set.
EnvironmentChange environment_change(const topology::Topology& topology, const node::Host& host,
                                     bool with_pet = false);

/// The variables that must be set so that torch's communication libraries choose the right network interface.
/// `address` is the master's literal address (nullopt: --wait none).
///
/// gloo listens on the address of this node's name. If that is a loopback address, or not an address of this
/// node, gloo listens on 127.0.0.1, and the other nodes hang
/// (torch/csrc/distributed/c10d/ProcessGroupGloo.cpp, createDefaultDevice). If /etc/hosts does not give the
/// name an address of the interface that routes to the master, GLOO_SOCKET_IFNAME is set to that interface. A
/// variable that the user has set is left alone.
node::Variables network_interface(const topology::Topology& topology, const node::Host& host,
                                  const std::optional<std::string>& address);

/// The variables that make torch write its flight recorder's dumps to this folder, one file per rank:
/// TORCH_FR_DUMP_TEMP_FILE since 2.8, TORCH_NCCL_DEBUG_INFO_TEMP_FILE before (torch/csrc/distributed/c10d/
/// FlightRecorder.cpp). Empty if `folder` is; leaves out what the user has set.
node::Variables hang_dumps(std::string_view folder, const node::Environment& environment);

/// Sets OMP_NUM_THREADS unless it is set, because otherwise every worker would start one thread per CPU.
void share_cpus(EnvironmentChange& change, bool launches, const LaunchInput& input);

/// USR1 and USR2, if --worker-signals names them: they announce an end, and launchers die of them.
SignalSet notices(const settings::Settings& settings);

/// The variables that the user sets for the command with --env, as given.
node::Variables user_variables(const settings::Settings& settings);

/// Removes the variables that only rankshim uses from the command's environment.
void hide_own_settings(EnvironmentChange& change, const node::Environment& environment);

}  // namespace rankshim::plan
