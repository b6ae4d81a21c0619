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

/// What is added to and removed from rankshim's environment for the command.
struct EnvironmentChange {
  node::Variables set;
  std::vector<std::string> unset;

  /// Sets a variable, whatever was to become of it.
  void replace(std::string name, std::string value);

  /// Removes a variable, whatever was to become of it.
  void remove(const std::string& name, const node::Environment& environment);

  /// `environment` with the change.
  [[nodiscard]] node::Environment apply(const node::Environment& environment) const;
};

/// The input from which a launch is planned.
struct LaunchInput {
  const topology::Topology& topology;
  const settings::Settings& settings;
  const std::vector<std::string>&
      command;  ///< empty (env, wait): only the environment and the waiting matter
  const node::Host& host;
};

/// What a command that starts Python runs.
struct PythonWords {
  std::string what;      ///< the module's name, or the script's path
  bool module = false;   ///< by -m
  std::size_t rest = 0;  ///< the index of the first argument for it
  /// The interpreter with its options; empty if the command leaves it to rankshim (-m MODULE, x.py).
  std::vector<std::string> interpreter;
};

/// Reads `python[3[.x]] [OPTIONS] -m MODULE|SCRIPT …`, with or without a path, and `-m MODULE …` and `x.py
/// …`, for which rankshim chooses the interpreter. Returns nullopt for any other command, and for one without
/// module and script (-c, stdin). Its options are CPython 3's (its documentation, "Command line").
std::optional<PythonWords> read_python(const std::vector<std::string>& command);

/// The indexes at which the command may begin: 0, and those behind programs that execute another one (`env
/// X=Y`, `timeout 60`, `conda run`), and behind a shell script that is followed by a whole Python command
/// (`entrypoint.sh torchrun x.py`). No list of these programs' options is needed: an index too many does no
/// harm, because there is no launcher's name at it.
std::vector<std::size_t> possible_starts(const std::vector<std::string>& command);

/// Whether the command's first word is a Python script: x.py or -m MODULE.
bool is_script(const std::vector<std::string>& command);

/// The interpreter for scripts: python3 or python in the first folder of PATH that has one.
std::string find_interpreter(const settings::Settings& settings, const node::Host& host);

/// Why a program might not do what is expected of it on this topology, one sentence each.
std::vector<std::string> program_warnings(const topology::Topology& topology,
                                          const settings::Settings& settings,
                                          const std::vector<std::string>& command, const node::Host& host);

/// The variables for the topology, in order: NNODES, NODE_RANK, NPROC_PER_NODE, MASTER_ADDR, MASTER_PORT,
/// and, where they apply, PORT, RANK and WORLD_SIZE, MIN_NNODES, MAX_NNODES and RDZV_ID. The platform's PET_*
/// are made to agree; `with_pet` adds those that it did not set.
EnvironmentChange environment_change(const topology::Topology& topology, const node::Host& host,
                                     bool with_pet = false);

/// The variables by which torch's communication libraries choose the network interface, as far as they must
/// be set. `address` is the master's literal address (nullopt: --wait none).
///
/// gloo listens at the address of this node's name. If that is a loopback address, or no address of this
/// node, gloo listens at 127.0.0.1, and the other nodes hang
/// (torch/csrc/distributed/c10d/ProcessGroupGloo.cpp, createDefaultDevice). If /etc/hosts does not give the
/// name an address of the interface with the route to the master, GLOO_SOCKET_IFNAME becomes that interface.
/// A variable that the user has set is unchanged.
node::Variables network_interface(const topology::Topology& topology, const node::Host& host,
                                  const std::optional<std::string>& address);

/// The variables by which torch writes its flight recorder's dumps to this folder, one file a rank: since 2.8
/// TORCH_FR_DUMP_TEMP_FILE, before TORCH_NCCL_DEBUG_INFO_TEMP_FILE (torch/csrc/distributed/c10d/
/// FlightRecorder.cpp). None if the folder is empty, and none that the user has set.
node::Variables hang_dumps(std::string_view folder, const node::Environment& environment);

/// Sets OMP_NUM_THREADS unless it is set: else every worker would start a thread for each of the CPUs.
void share_cpus(EnvironmentChange& change, bool launches, const LaunchInput& input);

/// USR1 and USR2, as far as --worker-signals names them: they announce an end, and launchers die of them.
SignalSet notices(const settings::Settings& settings);

/// The variables that the user sets for the command by --env, as they were given.
node::Variables user_variables(const settings::Settings& settings);

/// Removes from the command's environment the variables that only rankshim uses.
void hide_own_settings(EnvironmentChange& change, const node::Environment& environment);

}  // namespace rankshim::plan
