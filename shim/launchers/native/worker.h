#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launchers/native/placeholders.h"
#include "node/environment.h"
#include "plan/environment_change.h"
#include "settings/settings.h"
#include "topology/topology.h"

/// The variables and arguments of one worker of a static job; pure.
namespace rankshim::native {

/// A job whose nodes and ranks are known before its start.
struct StaticJob {
  unsigned nodes = 1;
  unsigned node_rank = 0;
  unsigned workers = 1;     ///< on this node
  unsigned first_rank = 0;  ///< of these
  unsigned world_size = 1;
  unsigned max_restarts = 0;
  std::string master_addr;  ///< without brackets
  unsigned master_port = 0;
  std::string run_id;
  bool binds = false;   ///< each worker runs near its accelerator
  Variables variables;  ///< the user's for each worker; their values may have placeholders
};

StaticJob static_job(const Topology& topology, const Settings& settings);

/// A worker, and the start of the job that it belongs to.
struct Worker {
  unsigned local_rank = 0;
  unsigned attempt = 0;    ///< 0, and one more for each restart
  std::string error_file;  ///< the file for its exception; empty: none
};

/// The worker's rank in the whole job: a node's ranks follow each other.
unsigned rank_of(const StaticJob& job, const Worker& worker);

/// The pattern of the name of a job's folder in the user's folder for logs. It is a new one for each run, and
/// its content has torchrun's layout (torch/distributed/elastic/multiprocessing/api.py, DefaultLogsSpecs).
std::string log_folder_template(const std::string& log_dir, std::string_view run_id);

/// A worker's folder in the job's folder. Nothing makes it for torch.
std::string worker_folder(const std::string& folder, unsigned attempt, unsigned local_rank);
/// The file there for the worker's exception.
std::string error_file(const std::string& worker_folder);

/// The variables that all workers have in common, and each worker's. Together they are those that torchrun
/// sets (torch/distributed/elastic/agent/server/local_elastic_agent.py, _start_workers), without those about
/// an agent. TORCHELASTIC_USE_AGENT_STORE is not set, so that the worker of rank 0 hosts the store
/// (torch/distributed/rendezvous.py). Each worker's include the user's, which replace others.
Variables common_variables(const StaticJob& job, const Environment& environment);
Variables worker_variables(const StaticJob& job, const Worker& worker);

/// The placeholders (placeholders.h) of this worker: {rank}, {world_size}, {local_rank}, {local_world_size},
/// {node_rank}, {nnodes}, {master_addr}, {master_port}, {run_id}.
Placeholders placeholders_of(const StaticJob& job, const Worker& worker);

/// The words with their placeholders filled in.
std::vector<std::string> filled_in(std::vector<std::string> words, const Placeholders& placeholders);

}  // namespace rankshim::native
