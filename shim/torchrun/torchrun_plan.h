#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launch/launch.h"
#include "torchrun/python_site.h"
#include "torchrun/torchrun_command.h"

/// torchrun's part of a launch plan; pure.
namespace rankshim {

/// Where a process under torch's @record, the agent too, writes why it failed.
inline constexpr std::string_view agent_error_variable = "TORCHELASTIC_ERROR_FILE";

/// The command as torchrun's, where it is one and --launcher lets it be the launcher.
std::optional<TorchrunCommand> own_torchrun(const Settings& settings,
                                            const std::vector<std::string>& command);

/// Completes the plan's first part where torchrun is the launcher: the log folder, the interpreter that needs
/// torch, warnings. `own` is the user's own torchrun command; null where rankshim starts torchrun.
void plan_torchrun(LaunchPlan& plan, const LaunchInput& input, const TorchrunCommand* own);

/// Our part in Python's start, where there is a worker to record or a torchrun that could train alone.
/// `master_address` is the master's literal address, once the waiting has found it.
std::optional<PythonSite> plan_site(const LaunchPlan& plan, const LaunchInput& input,
                                    const std::optional<std::string>& master_address);

/// Our own temporary folder, in which the launcher's logs, its error file and our part in Python's start lie.
struct OwnFolder {
  std::string path;       ///< empty: there is none, and the launch does without
  bool has_site = false;  ///< our part in Python's start is there
};

/// torchrun's command line. A c10d job needs `master_address` for the own address that peers can reach.
void write_torchrun_argv(LaunchPlan& plan, const LaunchInput& input, const TorchrunCommand* own,
                         const std::optional<std::string>& master_address, const OwnFolder& folder);

/// What torchrun reads of its environment: nothing of what would speak for another job.
void change_for_torchrun(LaunchPlan& plan, const LaunchInput& input, const TorchrunCommand* own,
                         const OwnFolder& folder);

/// Leads Python processes to our part in their start.
void change_for_site(LaunchPlan& plan, const LaunchInput& input, const OwnFolder& folder);

/// How torchrun and its workers end, where the user left that open.
void change_for_stop(LaunchPlan& plan, const LaunchInput& input);

/// Where in our own folder the agent tells why it failed.
std::string agent_error_file(const std::string& folder);

}  // namespace rankshim
