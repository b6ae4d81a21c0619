#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/fault.h"
#include "base/signals.h"
#include "node/accelerators.h"
#include "node/node.h"
#include "settings/settings.h"
#include "topology/topology.h"

/// The part of every launch that does not depend on what starts the workers. Its functions are pure.
namespace rankshim {

struct TorchrunCommand;

/// What is added to and removed from rankshim's environment for the command.
struct EnvironmentChange {
  Variables set;
  std::vector<std::string> unset;

  /// Sets a variable, whatever was to become of it.
  void replace(std::string name, std::string value);

  /// Removes a variable, whatever was to become of it.
  void remove(const std::string& name, const Environment& environment);

  /// `environment` with the change.
  [[nodiscard]] Environment apply(const Environment& environment) const;
};

/// How far the master must be reachable before the launch goes on.
enum class Until : std::uint8_t {
  none,
  name,  ///< its name resolves
  port,  ///< its port is open
};

/// Nothing but the command starts workers; a script runs by its interpreter alone.
struct NoLauncher {};

/// `python -m torch.distributed.run`.
struct TorchrunLauncher {
  /// The script gets --local_rank, as from torch.distributed.launch.
  bool tells_local_rank = false;
  /// The user's command, if it is a torchrun itself (launchers/torchrun/torchrun_command.h); else null.
  std::shared_ptr<const TorchrunCommand> own;
  /// It follows another program, which may change the user, the folder and the interpreter (gosu, uv run).
  bool is_wrapped = false;
  std::vector<std::string> more;  ///< --torchrun-args: each option as --name or --name=value
};

/// rankshim itself starts the workers.
struct NativeLauncher {};

/// The command is a launcher by another name than torchrun's, and gets what the user left out.
struct FilledLauncher {
  std::string file;          ///< that describes it
  bool joins_nodes = false;  ///< it runs on each of a fixed set of nodes, and fails if one of them does
  std::vector<std::string> command;  ///< with the flags; empty: it is as the user gave it
  Variables variables;
  std::string hostfile;  ///< the content of the file of hosts
};

/// The input from which a launch is planned.
struct LaunchInput {
  const Topology& topology;
  const Settings& settings;
  const std::vector<std::string>&
      command;  ///< empty (env, wait): only the environment and the waiting matter
  const Node& node;
};

/// One worker that rankshim starts itself.
struct WorkerPlan {
  Variables environment;  ///< its own variables, besides those that all have in common
  std::vector<std::string> argv;
  NearAccelerator near;  ///< with --bind, the CPUs and the memory that it gets, or why none
};

using Launcher = std::variant<NoLauncher, TorchrunLauncher, NativeLauncher, FilledLauncher>;

/// What is decided before anything is waited for, and stays; only secrets are removed from its texts.
struct LaunchChoice {
  Launcher launcher;
  Until wait = Until::none;
  /// The nodes meet before the launch (link/), and go on without a link if they cannot.
  bool links = false;
  std::string_view link_demanded_by;  ///< the option without which it would do; empty: none
  /// With a launcher, the user's folder for the workers' logs; empty: a temporary folder.
  std::string log_dir;
  std::string interpreter;  ///< of a script: python3; empty for a program
  /// The interpreter that needs torch, with its options; empty if it is not known or if none needs it.
  std::vector<std::string> python;
  /// A sentence about what is missing of what is to be started; empty if nothing is known to be missing.
  std::string missing;
  std::vector<std::string> warnings;
  std::string note;  ///< what a user may want to change, for the log; empty: nothing

  template <class Kind>
  [[nodiscard]] const Kind* as() const {
    return std::get_if<Kind>(&launcher);
  }
  [[nodiscard]] bool by_torchrun() const { return as<TorchrunLauncher>() != nullptr; }
  [[nodiscard]] bool is_wrapped() const { return by_torchrun() && as<TorchrunLauncher>()->is_wrapped; }
  [[nodiscard]] bool natively() const { return as<NativeLauncher>() != nullptr; }
  /// rankshim starts torchrun or the workers.
  [[nodiscard]] bool launches() const { return by_torchrun() || natively(); }
  [[nodiscard]] bool joins_nodes() const {
    const auto* filled = as<FilledLauncher>();
    return filled != nullptr && filled->joins_nodes;
  }
  /// "torchrun", "native", the file of a launcher that is filled in, or "none".
  [[nodiscard]] std::string launcher_name() const {
    if (const auto* filled = as<FilledLauncher>()) return filled->file;
    return by_torchrun() ? "torchrun" : natively() ? "native" : "none";
  }
};

/// What this node has to do: the result of all steps before the first one that has effects outside this
/// process. What is executed for it (LaunchPlan) is made just before the start.
struct Job {
  Topology topology;
  LaunchChoice choice;
};

/// What is executed. It is made once, when the steps before the start have found all that it needs.
struct LaunchPlan {
  std::vector<std::string> argv;
  EnvironmentChange environment;
  std::vector<WorkerPlan> workers;           ///< only where the plan is shown; sorted by local rank
  std::string_view agent_name = "torchrun";  ///< torchrun's name for messages, if it is the launcher
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
/// …`, for which rankshim chooses the interpreter. Returns nothing for any other command, and for one without
/// module and script (-c, stdin). The options are CPython 3's (its documentation, "Command line").
std::optional<PythonWords> read_python(const std::vector<std::string>& command);

/// The indexes at which the command may begin: 0, and those behind programs that execute another one (`env
/// X=Y`, `timeout 60`, `conda run`), and behind a shell script that is followed by a whole Python command
/// (`entrypoint.sh torchrun x.py`). No list of these programs' options is needed: an index too many does no
/// harm, because there is no launcher's name at it.
std::vector<std::size_t> possible_starts(const std::vector<std::string>& command);

/// Whether the command's first word is a Python script: x.py or -m MODULE.
bool is_script(const std::vector<std::string>& command);

/// The interpreter for scripts: python3 or python in the first folder of PATH that has one.
std::string find_interpreter(const Settings& settings, const Node& node);

/// For a role that does not train: adds a warning, or returns a fault if the command would (`can_train`).
std::optional<Fault> check_idle_role(LaunchChoice& choice, const LaunchInput& input, bool can_train);

void choose_wait(LaunchChoice& choice, const LaunchInput& input);
/// To be called once it is known what starts the workers.
void choose_link(LaunchChoice& choice, const LaunchInput& input);

/// Finds what would otherwise fail only after the waiting, or in Python with a different exit code. `script`
/// is the Python script to run, empty if there is none.
std::string find_missing(const LaunchChoice& choice, const LaunchInput& input, const std::string& script);

/// Why a program might not do what is expected of it on this topology, one sentence each.
std::vector<std::string> program_warnings(const Topology& topology, const Settings& settings,
                                          const std::vector<std::string>& command, const Node& node);

/// The variables for the topology, in order: NNODES, NODE_RANK, NPROC_PER_NODE, MASTER_ADDR, MASTER_PORT,
/// and, where they apply, PORT, RANK and WORLD_SIZE, MIN_NNODES, MAX_NNODES and RDZV_ID. The platform's PET_*
/// are made to agree; `with_pet` adds those that it did not set.
EnvironmentChange environment_change(const Topology& topology, const Node& node, bool with_pet = false);

/// The variables by which torch's communication libraries choose the network interface, as far as they have
/// to be set. `address` is the master's literal address (nothing: --wait none).
///
/// gloo listens at the address of this node's name. If that is a loopback address, or no address of this
/// node, gloo listens at 127.0.0.1, and the other nodes hang
/// (torch/csrc/distributed/c10d/ProcessGroupGloo.cpp, createDefaultDevice). If /etc/hosts does not give the
/// name an address of the interface with the route to the master, GLOO_SOCKET_IFNAME becomes that interface.
/// A variable that the user has set is unchanged.
Variables network_interface(const Topology& topology, const Node& node,
                            const std::optional<std::string>& address);

/// Sets OMP_NUM_THREADS unless it is set: else every worker would start a thread for each of the CPUs.
void share_cpus(EnvironmentChange& change, const LaunchChoice& choice, const LaunchInput& input);

/// USR1 and USR2, as far as --worker-signals names them: they announce an end, and launchers die of them.
supervise::SignalSet notices(const Settings& settings);

/// The variables that the user sets for the command by --env, as they were given.
Variables user_variables(const Settings& settings);

/// Removes from the command's environment the variables that only rankshim uses.
void hide_own_settings(EnvironmentChange& change, const Environment& environment);

}  // namespace rankshim
