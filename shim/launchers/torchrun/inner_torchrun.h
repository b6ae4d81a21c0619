#pragma once

#include <optional>
#include <string>

#include "base/signals.h"
#include "launchers/launcher.h"

/// What rankshim adds to the start of each Python process, and what it gives to a torchrun that a program
/// starts. All of it is pure.
namespace rankshim::launchers {

/// PythonSite is what sitecustomize.py does in each Python process of the command (python/sitecustomize.py).
struct PythonSite {
  bool had_path = false;  ///< the user has a PYTHONPATH
  /// The PET_* variables for a torchrun that the command starts, as far as they are not in the command's
  /// environment: they replace what its command line leaves out; an empty one is found there. nullopt
  /// if such a torchrun must not be changed.
  std::optional<node::Variables> job;
  std::string master;    ///< its address, IPv4 or IPv6, without brackets; empty if it is not known
  bool records = false;  ///< whether exceptions are recorded: of workers, and of a Python that is the command
  SignalSet ignored = 0;  ///< what a torchrun that the command starts ignores: notices()
  /// The seconds after which a process that an exception has ended exits, whatever its threads do; four times
  /// as long if they work. 0: never.
  double exit_after = 0;

  bool operator==(const PythonSite&) const = default;
};

/// Plans sitecustomize.py; nullopt if no worker is recorded and no torchrun could train alone.
/// `master_address` is the master's literal address, known after the waiting.
std::optional<PythonSite> plan_site(const LaunchChoice& choice, const plan::LaunchInput& input,
                                    const std::optional<std::string>& master_address);

/// The advice to link the nodes, if a torchrun in the command joins them and they could be linked; else
/// empty.
std::string tell_unlinked(const LaunchChoice& choice, const plan::LaunchInput& input);

/// Sets the variables of a torchrun in a program, as far as sitecustomize.py does not set them.
void change_for_inner_torchrun(plan::EnvironmentChange& change, const plan::LaunchInput& input,
                               const OwnFolder& folder);

/// Whether the command, or its shell script, starts a launcher by another name than torchrun's.
bool starts_named_launcher(const plan::LaunchInput& input);

/// Makes a process under torch's @record write its error into rankshim's folder. So does a worker of a
/// launcher that has no error files (python/sitecustomize.py).
void record_agent_error(plan::EnvironmentChange& change, const plan::LaunchInput& input,
                        const OwnFolder& folder);

/// The file into which such a process writes its error; empty if there is none.
std::string agent_error_file(const node::Environment& environment, const OwnFolder& folder);

/// Makes each Python import the folder's sitecustomize.py, if it has one.
void add_site(plan::EnvironmentChange& change, const plan::LaunchInput& input, const OwnFolder& folder);

/// Makes torchrun give its workers the grace that it gets itself (torch/distributed/launcher/api.py, whole
/// seconds).
void share_grace(plan::EnvironmentChange& change, const plan::LaunchInput& input);

/// Makes workers that hang print their stacks (Python's faulthandler).
void show_stacks(plan::EnvironmentChange& change, const plan::LaunchInput& input);

}  // namespace rankshim::launchers
