#pragma once

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "launchers/launcher.h"
#include "launchers/temporary_folder.h"
#include "node/environment.h"
#include "run/run.h"
#include "supervise/supervise.h"

namespace rankshim::run {

/// What all attempts of a run have in common.
struct AttemptInput {
  const Run& run;
  const launchers::Job& job;
  const std::vector<std::string>& command;  ///< the user's
  const launchers::FoundTorch& torch;
  /// The launcher's folder for logs that the user keeps, one for all attempts; nullopt until it is created.
  std::optional<std::string>& kept_logs;
};

/// What one attempt starts, and what that needs while it runs.
class Launch : boost::noncopyable {
 public:
  /// Creates rankshim's folder, plans what is executed, and creates the object that follows the workers.
  /// `number` is the attempt's, `master_address` the master's literal address, if it was looked up.
  Launch(const AttemptInput& input, unsigned number, const std::optional<std::string>& master_address);

  /// What is to be started: the workers, or the command that starts them. Call it once.
  [[nodiscard]] std::vector<supervise::Command> commands() const;

  /// Plans the launch again with what is known now: the master's address and, in a job with spares, the
  /// node's place. Adopts the changes if they can be passed to processes that are already running: variables
  /// that only torch's communication reads, those of the place, and torchrun's flags for it. `commands` are
  /// those that the processes were started with, and are updated. Returns the variables and flags to send to
  /// each process (run/late.h); nullopt if anything else differs, or if what was planned is no longer
  /// available.
  std::optional<std::vector<std::vector<std::string>>> update(
      const AttemptInput& input, const std::optional<std::string>& master_address,
      std::vector<supervise::Command>& commands);

  const unsigned number;
  const std::string modules;                        ///< to be imported early, if this is prepared (--warm)
  const std::optional<launchers::PythonSite> site;  ///< written to the folder
  launchers::TemporaryFolder folder;
  const std::string log_folder;  ///< the launcher's; empty if there is none
  launchers::LaunchPlan plan;
  node::Environment environment;  ///< the command's
  supervise::Command command;
  SignalSet ignored = 0;  ///< at the command's start
  std::shared_ptr<supervise::Workers> workers;

 private:
  /// This node's first rank, the world size, and the master: what the nodes agree on when they meet.
  using Ranks = std::tuple<unsigned, unsigned, std::string>;
  static std::optional<Ranks> ranks_of(const topology::Topology& topology);

  std::optional<Ranks> ranks_;
};

}  // namespace rankshim::run
