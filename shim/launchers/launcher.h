#pragma once

#include <boost/asio/io_context.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fault.h"
#include "base/signals.h"
#include "node/accelerators.h"
#include "node/host.h"
#include "plan/launch.h"
#include "settings/settings.h"
#include "supervise/supervise.h"
#include "topology/topology.h"
#include "wait/until.h"

/// What starts the workers, behind one interface. Each folder beside this file is one such launcher.
namespace rankshim::launchers {

class Launcher;

/// A command that rankshim starts as it is.
std::shared_ptr<const Launcher> no_launcher();

/// What is decided before anything is waited for, and stays; only secrets are removed from its texts.
struct LaunchChoice {
  std::shared_ptr<const Launcher> launcher = no_launcher();  ///< never null
  wait::Until wait = wait::Until::none;
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
};

/// What this node has to do: the result of all steps before the first one that has effects outside this
/// process. What is executed for it (LaunchPlan) is made just before the start.
struct Job {
  topology::Topology topology;
  LaunchChoice choice;
};

/// One worker that rankshim starts itself.
struct WorkerPlan {
  node::Variables environment;  ///< its own variables, besides those that all have in common
  std::vector<std::string> argv;
  node::NearAccelerator near;  ///< with --bind, the CPUs and the memory that it gets, or why none
};

/// What is executed. It is made once, when the steps before the start have found all that it needs.
struct LaunchPlan {
  std::vector<std::string> argv;
  plan::EnvironmentChange environment;
  std::vector<WorkerPlan> workers;           ///< only where the plan is shown; sorted by local rank
  std::string_view agent_name = "torchrun";  ///< torchrun's name for messages, if it is the launcher
};

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
  node::Variables network_interface;  ///< plan/launch.h
  unsigned attempt = 0;               ///< how often the job was started again (--job-restarts)
};

/// What the object that follows one attempt's workers is made from.
struct Attempt {
  boost::asio::io_context& io;
  const topology::Topology& topology;
  const settings::Settings& settings;
  const node::Host& host;
  std::string log_folder;  ///< the launcher's; empty: none
  unsigned number = 0;     ///< how often this job was started again
  std::string answers;     ///< the folder where a worker's Python answers (look/progress.h); empty: none
};

/// Launcher is one way to start the workers. The class itself is a command that rankshim starts as it is.
class Launcher {
 public:
  Launcher() = default;
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;
  virtual ~Launcher() = default;

  /// Its name for explain and the other nodes.
  [[nodiscard]] virtual std::string name() const { return "none"; }
  /// The file that describes it; empty for one that is written in C++.
  [[nodiscard]] virtual std::string_view described_by() const { return {}; }

  // What kind it is.

  /// rankshim starts torchrun, or the workers.
  [[nodiscard]] virtual bool launches() const { return false; }
  /// rankshim starts each worker itself, again too, and gives it its own variables.
  [[nodiscard]] virtual bool starts_each_worker() const { return false; }
  /// The process that starts the workers is torchrun's: it wants as many on each node.
  [[nodiscard]] bool has_agent() const { return launches() && !starts_each_worker(); }
  /// And that process is the command itself, not a child of it.
  [[nodiscard]] virtual bool is_agent() const { return false; }
  /// It runs on each of a fixed set of nodes, and fails if one of them does.
  [[nodiscard]] virtual bool joins_nodes() const { return launches(); }
  /// What this command starts connects to the master's port at once.
  [[nodiscard]] virtual bool connects_at_once(const std::vector<std::string>& /*command*/) const {
    return false;
  }
  /// It writes an error file if it fails itself.
  [[nodiscard]] virtual bool writes_error() const { return false; }

  // Its part of the plan; pure.

  /// Why it cannot do what is wanted. A warning is added to the choice.
  [[nodiscard]] virtual Faults faults(const plan::LaunchInput& /*input*/) const { return {}; }
  /// The same for what is wanted of the workers' output and of their place (--log-dir, --tee, --prefix,
  /// --bind).
  [[nodiscard]] virtual Faults worker_faults(LaunchChoice& choice, const plan::LaunchInput& input) const;
  /// Completes the choice: the log folder, the interpreters, warnings.
  virtual void complete(LaunchChoice& /*choice*/, const plan::LaunchInput& /*input*/) const {}
  /// torchrun's options of which it is not known whether this torch has them.
  [[nodiscard]] virtual std::vector<std::string> torchrun_args() const { return {}; }
  /// The Python script or the shell's script that will run; empty if it is not known.
  [[nodiscard]] virtual std::string script(const std::vector<std::string>& command) const;
  /// The command line that is executed.
  [[nodiscard]] virtual std::vector<std::string> argv(const LaunchChoice& choice,
                                                      const plan::LaunchInput& input,
                                                      const KnownAtStart& known) const;
  /// Changes what torch, Python and the workers read, beside the variables of the topology.
  virtual void change_environment(plan::EnvironmentChange& change, const LaunchChoice& choice,
                                  const plan::LaunchInput& input, const OwnFolder& folder) const;
  /// The workers of a plan that is only shown; none if rankshim does not start them.
  [[nodiscard]] virtual std::vector<WorkerPlan> shown_workers(const LaunchPlan& /*plan*/,
                                                              const LaunchChoice& /*choice*/,
                                                              const plan::LaunchInput& /*input*/,
                                                              const std::string& /*folder*/) const {
    return {};
  }
  /// The file of nodes that it reads from rankshim's folder; empty if it needs none.
  [[nodiscard]] virtual std::string hostfile() const { return {}; }
  /// What is not had where rankshim can have no folder, for a warning.
  [[nodiscard]] virtual std::string_view lost_without_folder() const { return "exceptions may not be known"; }
  /// The file that the command's environment has it write its error into. Empty if there is none.
  [[nodiscard]] virtual std::string error_file(const node::Environment& environment,
                                               const OwnFolder& folder) const;
  /// The signals that the command starts with ignored.
  [[nodiscard]] virtual SignalSet ignored_at_start(const LaunchPlan& /*plan*/, const LaunchChoice& /*choice*/,
                                                   const plan::LaunchInput& /*input*/) const {
    return 0;
  }

  // While it runs.

  /// Makes the folder for its logs: the user's, or else the temporary one, or in it. Returns its path; empty,
  /// after a warning, if it cannot be made.
  [[nodiscard]] virtual std::string make_log_folder(const Job& /*job*/, const std::string& temporary) const {
    return temporary;
  }
  /// Makes the object that answers the supervisor's questions about the workers. It serves one attempt.
  [[nodiscard]] virtual std::shared_ptr<supervise::Workers> workers(const Attempt& attempt) const;
};

/// A fault of an option that this launcher cannot follow.
Faults refused(const settings::Settings& settings, settings::Option option, std::string_view why,
               std::string fix);

/// That --tee has no files to follow.
Faults tee_without_files(const settings::Settings& settings);

/// The notices (plan/launch.h): torchrun and other launchers would die of them, and a worker that still
/// imports. None for a shell, which could not trap them any more (POSIX, trap).
SignalSet notices_to_ignore(const LaunchPlan& plan, const settings::Settings& settings);

/// Makes the folder, which may be relative, and, unless `pattern` is empty, a new one in it ("/NAME_XXXXXX").
/// Returns the path; empty, after a warning, if it cannot be made.
std::string make_folder_for_logs(const std::string& folder, const std::string& pattern = {});

}  // namespace rankshim::launchers
