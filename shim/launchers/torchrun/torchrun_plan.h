#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/signals.h"
#include "plan/launch.h"

/// torchrun's part of a launch plan; pure.
namespace rankshim {

/// Completes the choice whose launcher is `torchrun`: the log folder, the interpreter that needs torch,
/// warnings.
void choose_for_torchrun(LaunchChoice& choice, TorchrunLauncher& torchrun, const LaunchInput& input);

/// A sentence if a torchrun in the command joins the other nodes, and these could be linked and are not; else
/// empty.
std::string tell_unlinked(const LaunchChoice& choice, const LaunchInput& input);

/// What is wrong with --torchrun-args: a word that is no option, or an option that rankshim sets itself.
Faults check_torchrun_args(const Settings& settings);

/// rankshim's part in the start of each Python process of the command (python/sitecustomize.py).
struct PythonSite {
  bool had_path = false;  ///< the user has a PYTHONPATH
  /// The PET_* variables for a torchrun that the command starts, as far as they are not in the command's
  /// environment: they replace what its command line leaves out; an empty one is found there. Nothing if
  /// such a torchrun must not be changed.
  std::optional<Variables> job;
  std::string master;    ///< its address, IPv4 or IPv6, without brackets; empty if it is not known
  bool records = false;  ///< whether exceptions are recorded: of workers, and of a Python that is the command
  supervise::SignalSet ignored =
      0;  ///< what a torchrun that the command starts ignores: notices() of the settings
};

/// The contents of sitecustomize.py, if there is a worker to record or a torchrun that could train alone.
/// `master_address` is the master's literal address, known after the waiting.
std::optional<PythonSite> plan_site(const LaunchChoice& choice, const LaunchInput& input,
                                    const std::optional<std::string>& master_address);

/// rankshim's temporary folder, for the launcher's logs, its error file and sitecustomize.py.
struct OwnFolder {
  std::string path;       ///< empty: there is none, and the launch works without it
  bool has_site = false;  ///< it has a sitecustomize.py
  /// The file there for a launcher that reads the nodes from a file.
  [[nodiscard]] std::string hostfile() const { return path + "/hostfile"; }
  /// The error file there of the launcher, or of a program that is none; empty if there is no folder.
  [[nodiscard]] std::string error_file() const { return path.empty() ? path : path + "/error.json"; }
};

/// What the check of the interpreter that needs torch has found.
struct FoundTorch {
  bool has_only_launch = false;       ///< torch has torch.distributed.launch and no torchrun (before 1.9)
  std::vector<std::string> rejected;  ///< of --torchrun-args, the options that it does not know

  /// torchrun's name for messages.
  [[nodiscard]] std::string_view agent_name() const {
    return has_only_launch ? "torch.distributed.launch" : "torchrun";
  }
};

/// What the steps before the start have found, and the plan needs besides the choice.
struct KnownAtStart {
  FoundTorch torch;
  std::optional<std::string> master_address;  ///< the master's literal address, if it was looked up
  OwnFolder folder;
  Variables network_interface;  ///< plan/launch.h
  unsigned attempt = 0;         ///< how often the job was started again (--job-restarts)
};

/// torchrun's command line. A c10d job needs the master's address to find the local address that peers can
/// reach.
std::vector<std::string> torchrun_argv(const LaunchChoice& choice, const TorchrunLauncher& torchrun,
                                       const LaunchInput& input, const KnownAtStart& known);

/// Changes what torchrun and Python in the command read: of the job, of rankshim's folder, and of how they
/// end.
void change_for_torch(EnvironmentChange& change, const LaunchChoice& choice, const LaunchInput& input,
                      const OwnFolder& folder);

/// The file that the command's environment has the agent write its error into: the launcher, or a torchrun
/// that a program starts. Empty if there is none.
std::string find_agent_error_file(const LaunchChoice& choice, const Environment& environment,
                                  const OwnFolder& folder);

}  // namespace rankshim
