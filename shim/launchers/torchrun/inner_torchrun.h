#pragma once

#include <optional>
#include <string>

#include "base/signals.h"
#include "launchers/launcher.h"

/// What rankshim adds to the start of each Python process, and passes to a torchrun that a program starts.
/// All functions are pure.
namespace rankshim::launchers {

/// PythonSite says what sitecustomize.py does in each Python process of the command
/// (python/sitecustomize.py).
struct PythonSite {
  bool had_path = false;  ///< the user has set PYTHONPATH
  /// The PET_* variables for a torchrun that the command starts, except those in the command's environment.
  /// They stand in for what its command line leaves out; sitecustomize.py finds out the value of an empty
  /// one. nullopt if such a torchrun must not be changed.
  std::optional<node::Variables> job;
  std::string master;     ///< its address, IPv4 or IPv6, without brackets; empty if unknown
  bool records = false;   ///< whether to record exceptions of workers, and of a Python that is the command
  SignalSet ignored = 0;  ///< what a torchrun that the command starts ignores: notices()
  /// The seconds after which a process whose script an exception has ended is made to exit, whatever its
  /// threads do; four times that if they work. 0: never.
  double exit_after = 0;

  bool operator==(const PythonSite&) const = default;
};

/// Plans sitecustomize.py; nullopt if there is nothing to record and no torchrun that could train alone.
/// `master_address` is the master's literal address, known after the wait.
std::optional<PythonSite> plan_site(const LaunchChoice& choice, const plan::LaunchInput& input,
                                    const std::optional<std::string>& master_address);

/// The advice to link the nodes, if a torchrun in the command joins them and they could be linked; else
/// empty.
std::string tell_unlinked(const LaunchChoice& choice, const plan::LaunchInput& input);

/// Sets the variables for a torchrun inside a program that sitecustomize.py does not set.
void change_for_inner_torchrun(plan::EnvironmentChange& change, const plan::LaunchInput& input,
                               const OwnFolder& folder);

/// Whether the command, or its shell script, starts a launcher other than torchrun by name.
bool starts_named_launcher(const plan::LaunchInput& input);

/// Makes a process under torch's @record write its error to rankshim's folder, where a worker of a launcher
/// without error files writes its own too (python/sitecustomize.py).
void record_agent_error(plan::EnvironmentChange& change, const plan::LaunchInput& input,
                        const OwnFolder& folder);

/// The file to which such a process writes its error; empty if there is none.
std::string agent_error_file(const node::Environment& environment, const OwnFolder& folder);

/// Makes each Python import the folder's sitecustomize.py, if it has one.
void add_site(plan::EnvironmentChange& change, const plan::LaunchInput& input, const OwnFolder& folder);

/// Makes torchrun give its workers the same grace that it gets itself (torch/distributed/launcher/api.py,
/// whole seconds).
void share_grace(plan::EnvironmentChange& change, const plan::LaunchInput& input);

/// Makes workers that hang print their stacks (Python's faulthandler).
void show_stacks(plan::EnvironmentChange& change, const plan::LaunchInput& input);

}  // namespace rankshim::launchers
