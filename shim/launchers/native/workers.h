#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "launchers/launcher.h"
#include "launchers/native/relay.h"
#include "supervise/supervise.h"

/// The native launcher's part of a launch plan, which is pure, and the workers that rankshim starts.
namespace rankshim::launchers {

/// The names of placeholders, without braces, and their values.
using Placeholders = std::map<std::string_view, std::string>;

/// A word of a command with its placeholders filled in: {NAME} becomes the value of that name, and {{NAME}}
/// the text {NAME}. Everything else, including other names in braces, is unchanged, so that JSON and
/// templates survive. A brace after a `$` belongs to the shell and is unchanged, except ${local_rank}, which
/// torchrun fills in as well (torch/distributed/elastic/utils/api.py, macros).
std::string filled_in(std::string_view word, const Placeholders& placeholders);

/// A job whose nodes and ranks are known from the beginning.
struct StaticJob {
  topology::StaticNode node;  ///< a lone node is one of one
  topology::Master master;    ///< empty if the command asks the platform for it
  std::string run_id;
  unsigned attempt = 0;       ///< how often this job was started again
  bool binds = false;         ///< each worker runs near its accelerator
  node::Variables variables;  ///< the user's, for each worker; values may contain placeholders
};

StaticJob static_job(const topology::Topology& topology, const settings::Settings& settings);

/// The pattern for the name of a run's folder in the user's log folder. Each run gets a new one, with
/// torchrun's layout (torch/distributed/elastic/multiprocessing/api.py, DefaultLogsSpecs).
std::string log_folder_template(const std::string& log_dir, std::string_view run_id);

/// The placeholders for a worker: {rank}, {world_size}, {local_rank}, {local_world_size}, {node_rank},
/// {nnodes}, {master_addr}, {master_port}, {run_id}.
Placeholders placeholders_of(const StaticJob& job, unsigned local_rank = 0);

/// Sets the script's interpreter, chosen as torchrun does for its workers, and the log folder.
void choose_for_workers(LaunchChoice& choice, const plan::LaunchInput& input);

/// Sets the variables that all workers have in common, and removes those of another launcher. Together with
/// each worker's own, they are the ones that torchrun sets
/// (torch/distributed/elastic/agent/server/local_elastic_agent.py, _start_workers), except those about an
/// agent. TORCHELASTIC_USE_AGENT_STORE is not set, so that the worker with rank 0 hosts the store
/// (torch/distributed/rendezvous.py).
void change_for_workers(plan::EnvironmentChange& change, const plan::LaunchInput& input);

/// The workers, for a plan that is only shown. `folder` is rankshim's.
std::vector<WorkerPlan> plan_workers(const LaunchPlan& plan, const LaunchChoice& choice,
                                     const plan::LaunchInput& input, const std::string& folder);

/// The workers of the native launcher. They are rankshim's children, so the kernel reports how each ended.
class NativeWorkers final : public supervise::Workers {
 public:
  /// A worker writes its exception to attempt_N/LOCAL_RANK/error.json in `folder` and, with --log-dir, its
  /// output to files beside it. If `folder` is empty, it writes no files.
  NativeWorkers(boost::asio::io_context& io, const topology::Topology& topology,
                const settings::Settings& settings, const std::string& folder, const node::Host& host,
                unsigned attempt);

  [[nodiscard]] std::vector<supervise::Command> workers_to_start(const supervise::Command& command) override;
  /// Whether the port that was free when the workers were planned is still free.
  [[nodiscard]] bool can_still_start() const override;

  [[nodiscard]] std::optional<std::vector<node::Process>> receivers() const override {
    return record_.running();
  }
  void started(const std::vector<pid_t>& processes, Clock::time_point when,
               const std::vector<std::string>& environment) override;
  void reaped(pid_t process, int status) override {
    if (const auto* end = record_.add_end(process, status)) tell_end(*end);
  }
  void finish() override {
    if (relay_) relay_->finish();
  }
  [[nodiscard]] bool has_output() const override { return relay_ && relay_->has_more(); }

 private:
  int open_output(const std::string& folder, int target, unsigned rank);

  boost::asio::io_context& io_;
  const settings::Settings& settings_;
  const node::Host& host_;
  const std::uint16_t port_of_job_;  // that of the first attempt
  StaticJob job_;
  std::vector<UniqueFd> workers_ends_;  // of their stdout and stderr, until they are started
  std::unique_ptr<Relay> relay_;
};

}  // namespace rankshim::launchers
