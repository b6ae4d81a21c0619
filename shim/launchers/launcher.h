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

/// The interface to whatever starts the workers. Each folder beside this file is one launcher.
namespace rankshim::launchers {

class Launcher;

/// The launcher of a command that rankshim starts unchanged.
std::shared_ptr<const Launcher> no_launcher();

/// What is decided before any waiting. It stays the same, except that secrets are removed from its texts.
struct LaunchChoice {
  std::shared_ptr<const Launcher> launcher = no_launcher();  ///< never null
  wait::Until wait = wait::Until::none;
  /// The nodes meet before the launch (link/), and go on without a link if that is impossible.
  bool links = false;
  std::string_view link_demanded_by;  ///< the option that makes the link mandatory; empty: none
  /// The user's folder for the workers' logs, if there is a launcher; empty: a temporary folder.
  std::string log_dir;
  std::string interpreter;  ///< python3, for a script; empty for a program
  /// The interpreter that needs torch, with its options; empty if unknown, or none needs it.
  std::vector<std::string> python;
  /// A sentence about a missing interpreter, program or script; empty if none is known to be missing.
  std::string missing;
  std::vector<std::string> warnings;
  std::string note;  ///< what a user may want to change, for the log; empty: nothing
};

/// This node's job: the result of all steps before the first one that has effects outside this process. What
/// is executed for it (LaunchPlan) is planned just before the start.
struct Job {
  topology::Topology topology;
  LaunchChoice choice;
};

/// One worker that rankshim starts itself.
struct WorkerPlan {
  node::Variables environment;  ///< its own variables, besides the common ones
  std::vector<std::string> argv;
  node::NearAccelerator near;  ///< with --bind, the CPUs and memory that it gets, or why it gets none
};

/// What is executed. Planned once, when the steps before the start have found everything that it needs.
struct LaunchPlan {
  std::vector<std::string> argv;
  plan::EnvironmentChange environment;
  std::vector<WorkerPlan> workers;           ///< only if the plan is just shown; sorted by local rank
  std::string_view agent_name = "torchrun";  ///< torchrun's name for messages, if it is the launcher
};

/// rankshim's temporary folder, for the launcher's logs, its error file and sitecustomize.py.
struct OwnFolder {
  std::string path;       ///< empty: there is none, and the launch works without it
  bool has_site = false;  ///< it contains a sitecustomize.py
  /// The file in it from which a launcher reads the nodes.
  [[nodiscard]] std::string hostfile() const { return path + "/hostfile"; }
  /// The file in it for the error of the launcher, or of a program; empty if there is no folder.
  [[nodiscard]] std::string error_file() const { return path.empty() ? path : path + "/error.json"; }
};

/// What the check of the interpreter that needs torch found.
struct FoundTorch {
  bool has_only_launch = false;       ///< torch has torch.distributed.launch and no torchrun (before 1.9)
  std::vector<std::string> rejected;  ///< the options in --torchrun-args that it does not know

  /// torchrun's name for messages.
  [[nodiscard]] std::string_view agent_name() const {
    return has_only_launch ? "torch.distributed.launch" : "torchrun";
  }
};

/// What the steps before the start found, which the plan needs besides the choice.
struct KnownAtStart {
  FoundTorch torch;
  std::optional<std::string> master_address;  ///< the master's literal address, if it was looked up
  OwnFolder folder;
  node::Variables network_interface;  ///< what plan::network_interface() returned
  unsigned attempt = 0;               ///< how often the job was restarted (--job-restarts)
};

/// What the object that follows one attempt's workers is made from.
struct WorkersInput {
  boost::asio::io_context& io;
  const topology::Topology& topology;
  const settings::Settings& settings;
  const node::Host& host;
  std::string log_folder;  ///< the launcher's; empty: none
  unsigned attempt = 0;    ///< how often this job was restarted
  std::string answers;     ///< the folder where the workers' Python answers (look/progress.h); empty: none
};

/// Launcher is one way to start the workers. This base class is a command that rankshim starts unchanged.
class Launcher {
 public:
  Launcher() = default;
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;
  virtual ~Launcher() = default;

  /// The launcher's name, for explain and the other nodes.
  [[nodiscard]] virtual std::string name() const { return "none"; }
  /// The file that describes the launcher; empty for one written in C++.
  [[nodiscard]] virtual std::string_view described_by() const { return {}; }

  // Its properties.

  /// Whether rankshim starts torchrun, or the workers.
  [[nodiscard]] virtual bool launches() const { return false; }
  /// Whether rankshim itself starts and restarts each worker, with its own variables.
  [[nodiscard]] virtual bool starts_each_worker() const { return false; }
  /// Whether torchrun comes after a wrapper, which may change the user, the folder and the interpreter (gosu,
  /// uv run).
  [[nodiscard]] virtual bool is_wrapped() const { return false; }
  /// Whether all nodes must have the same number of workers.
  [[nodiscard]] virtual bool wants_equal_workers() const { return false; }
  /// Whether what rankshim executes is a Python that runs rankshim's startup module, so that it can be
  /// started early and wait (--warm).
  [[nodiscard]] virtual bool can_start_early() const { return false; }
  /// The flags of the command that name the node's place, without dashes. Empty if what is started reads its
  /// place from variables.
  [[nodiscard]] virtual std::vector<std::string> flags_of_place() const { return {}; }
  /// Whether it runs on each of a fixed set of nodes, and fails if one of them does.
  [[nodiscard]] virtual bool joins_nodes() const { return launches(); }
  /// Whether what this command starts connects to the master's port at once.
  [[nodiscard]] virtual bool connects_at_once(const std::vector<std::string>& /*command*/) const {
    return false;
  }
  /// Whether a failure of its own always shows. `has_error_file`: the file that error_file() names is read.
  [[nodiscard]] virtual bool shows_own_failure(bool /*has_error_file*/) const { return false; }
  /// torchrun's name for messages, if its process starts the workers; else empty.
  [[nodiscard]] virtual std::string_view agent_name(const FoundTorch& /*found*/) const { return {}; }
  /// The command's name for messages; empty if rankshim starts the workers instead.
  [[nodiscard]] virtual std::string command_name(const LaunchPlan& plan) const { return plan.argv.front(); }

  // Its part of the plan. These are pure.

  /// Why it cannot do what the input asks for.
  [[nodiscard]] virtual Faults faults(const plan::LaunchInput& /*input*/) const { return {}; }
  /// Why it cannot do what is asked for with the workers' output and placement (--log-dir, --tee, --prefix,
  /// --bind). May add warnings to the choice.
  [[nodiscard]] virtual Faults worker_faults(LaunchChoice& choice, const plan::LaunchInput& input) const;
  /// Completes the choice: the log folder, the interpreters, warnings.
  virtual void complete(LaunchChoice& /*choice*/, const plan::LaunchInput& /*input*/) const {}
  /// The options of torchrun that this torch may not have.
  [[nodiscard]] virtual std::vector<std::string> torchrun_args() const { return {}; }
  /// The Python or shell script that will run; empty if unknown.
  [[nodiscard]] virtual std::string script(const std::vector<std::string>& command) const;
  /// The command line that is executed.
  [[nodiscard]] virtual std::vector<std::string> argv(const LaunchChoice& choice,
                                                      const plan::LaunchInput& input,
                                                      const KnownAtStart& known) const;
  /// Changes the variables that torch, Python and the workers read, besides those of the topology.
  virtual void change_environment(plan::EnvironmentChange& change, const LaunchChoice& choice,
                                  const plan::LaunchInput& input, const OwnFolder& folder) const;
  /// The workers, for a plan that is only shown; empty if rankshim does not start them.
  [[nodiscard]] virtual std::vector<WorkerPlan> shown_workers(const LaunchPlan& /*plan*/,
                                                              const LaunchChoice& /*choice*/,
                                                              const plan::LaunchInput& /*input*/,
                                                              const std::string& /*folder*/) const {
    return {};
  }
  /// The content of the host file that it reads from rankshim's folder; empty if it needs none.
  [[nodiscard]] virtual std::string hostfile() const { return {}; }
  /// What goes wrong if rankshim has no folder, for a warning.
  [[nodiscard]] virtual std::string_view lost_without_folder() const { return "exceptions may not be known"; }
  /// The file to which the command writes its error, according to its environment; empty if there is none.
  [[nodiscard]] virtual std::string error_file(const node::Environment& environment,
                                               const OwnFolder& folder) const;
  /// The signals that are ignored when the command starts.
  [[nodiscard]] virtual SignalSet ignored_at_start(const LaunchPlan& /*plan*/, const LaunchChoice& /*choice*/,
                                                   const plan::LaunchInput& /*input*/) const {
    return 0;
  }

  // While it runs.

  /// Creates the folder for its logs: the user's, or else the temporary one or a folder in it. Returns its
  /// path; empty, after a warning, if that fails.
  [[nodiscard]] virtual std::string make_log_folder(const Job& /*job*/, const std::string& temporary) const {
    return temporary;
  }
  /// Creates the object that answers the supervisor's questions about the workers in one attempt.
  [[nodiscard]] virtual std::shared_ptr<supervise::Workers> workers(const WorkersInput& input) const;
};

/// A fault for an option that this launcher cannot honour.
Faults refused(const settings::Settings& settings, settings::Option option, std::string_view why,
               std::string fix);

/// The fault for --tee without log files to follow.
Faults tee_without_files(const settings::Settings& settings);

/// The notices (plan/launch.h) that the command ignores at its start, because they would kill torchrun, other
/// launchers, and workers that are still importing. Empty for a shell, which could then no longer trap them
/// (POSIX, trap).
SignalSet notices_to_ignore(const LaunchPlan& plan, const settings::Settings& settings);

/// Creates the folder, which may be relative, and, unless `pattern` is empty, a new one in it
/// ("/NAME_XXXXXX"). Returns the path; empty, after a warning, if that fails.
std::string make_folder_for_logs(const std::string& folder, const std::string& pattern = {});

}  // namespace rankshim::launchers
