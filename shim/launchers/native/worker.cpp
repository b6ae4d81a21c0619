#include "launchers/native/worker.h"

#include <algorithm>

#include "base/text.h"
#include "plan/launch.h"

namespace rankshim::native {
namespace {

std::string text(unsigned number) { return std::to_string(number); }

}  // namespace

StaticJob static_job(const Topology& topology, const Settings& settings) {
  const Master* master = topology.master();
  const auto* node = topology.as<StaticNode>();
  return {.nodes = topology.nodes().value_or(0),
          .node_rank = topology.node_rank().value_or(0),
          .workers = topology.workers(),
          .first_rank = node != nullptr ? node->first_rank() : 0,
          .world_size = node != nullptr ? node->world_size() : topology.workers(),
          .max_restarts = topology.max_restarts(),
          .master_addr = master != nullptr ? master->host : std::string(),
          .master_port = master != nullptr ? master->port : 0U,
          .run_id = std::string(topology.facts.text(Fact::run_id)),
          .binds = settings.text(Option::bind) == "numa",
          .variables = user_variables(settings)};
}

unsigned rank_of(const StaticJob& job, const Worker& worker) {
  return job.first_rank + worker.local_rank;
}

std::string log_folder_template(const std::string& log_dir, std::string_view run_id) {
  std::string name(run_id);
  std::ranges::replace(name, '/', '_');
  return log_dir + "/" + name + "_XXXXXX";
}

std::string worker_folder(const std::string& folder, unsigned attempt, unsigned local_rank) {
  return folder + "/attempt_" + text(attempt) + "/" + text(local_rank);
}

std::string error_file(const std::string& worker_folder) { return worker_folder + "/error.json"; }

Variables common_variables(const StaticJob& job, const Environment& environment) {
  Variables variables = {{"WORLD_SIZE", text(job.world_size)},
                         {"LOCAL_WORLD_SIZE", text(job.workers)},
                         {"GROUP_RANK", text(job.node_rank)},
                         {"GROUP_WORLD_SIZE", text(job.nodes)},
                         {"ROLE_NAME", std::string(environment.get("PET_ROLE").value_or("default"))},
                         {"ROLE_WORLD_SIZE", text(job.world_size)},
                         {"MASTER_ADDR", job.master_addr},
                         {"MASTER_PORT", text(job.master_port)},
                         {"TORCHELASTIC_RUN_ID", job.run_id},
                         {"TORCHELASTIC_MAX_RESTARTS", text(job.max_restarts)}};
  constexpr std::string_view async_errors = "TORCH_NCCL_ASYNC_ERROR_HANDLING";
  if (!environment.has(async_errors)) variables.emplace_back(async_errors, "1");
  return variables;
}

Variables worker_variables(const StaticJob& job, const Worker& worker) {
  const std::string rank = text(rank_of(job, worker));
  Variables variables = {{"RANK", rank},
                         {"LOCAL_RANK", text(worker.local_rank)},
                         {"ROLE_RANK", rank},
                         {"TORCHELASTIC_RESTART_COUNT", text(worker.attempt)}};
  if (!worker.error_file.empty()) variables.emplace_back("TORCHELASTIC_ERROR_FILE", worker.error_file);
  const Placeholders placeholders = placeholders_of(job, worker);
  for (const auto& given : job.variables) {
    std::erase_if(variables, [&](const auto& variable) { return variable.first == given.first; });
    variables.emplace_back(given.first, filled_in(given.second, placeholders));
  }
  return variables;
}

Placeholders placeholders_of(const StaticJob& job, const Worker& worker) {
  return {{"rank", text(rank_of(job, worker))},
          {"world_size", text(job.world_size)},
          {"local_rank", text(worker.local_rank)},
          {"local_world_size", text(job.workers)},
          {"node_rank", text(job.node_rank)},
          {"nnodes", text(job.nodes)},
          {"master_addr", job.master_addr},
          {"master_port", text(job.master_port)},
          {"run_id", job.run_id}};
}

std::vector<std::string> filled_in(std::vector<std::string> words, const Placeholders& placeholders) {
  for (std::string& word : words) word = filled_in(word, placeholders);
  return words;
}

}  // namespace rankshim::native
