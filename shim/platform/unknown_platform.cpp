#include "platform/unknown_platform.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/number.h"
#include "base/text.h"

namespace rankshim::platform {
namespace {

/// Ends of names that mean the number of this node, and nothing else. They are whole words: ACME_NODE_RANK
/// ends with NODE_RANK, and both end with RANK.
constexpr auto index_words = std::to_array<std::string_view>(
    {"RANK",        "NODERANK",      "NODE_INDEX",    "NODE_IDX",     "NODE_ID",    "NODEID",
     "NODE_NUMBER", "REPLICA",       "REPLICA_INDEX", "REPLICA_IDX",  "REPLICA_ID", "REPLICA_NUMBER",
     "TASK_INDEX",  "TASK_IDX",      "TASK_NUMBER",   "WORKER_INDEX", "WORKER_IDX", "WORKER_NUMBER",
     "HOST_INDEX",  "HOST_IDX",      "MACHINE_INDEX", "MACHINE_ID",   "POD_INDEX",  "RANK_ID",
     "RANK_INDEX",  "PROCESS_INDEX", "PROCNO"});

/// Ends of names that mean the number of nodes.
constexpr auto number_words = std::to_array<std::string_view>(
    {"NNODES",         "NNODE",           "NUM_NODES",   "N_NODES",       "NODE_COUNT",
     "NODES_COUNT",    "NODE_NUM",        "NODES_NUM",   "NODE_TOTAL",    "NODES_TOTAL",
     "TOTAL_NODES",    "NUMBER_OF_NODES", "NODES",       "NUM_REPLICAS",  "N_REPLICAS",
     "REPLICA_COUNT",  "REPLICAS_COUNT",  "REPLICA_NUM", "REPLICA_TOTAL", "REPLICAS_TOTAL",
     "TOTAL_REPLICAS", "NUM_HOSTS",       "HOST_COUNT",  "HOST_NUM",      "HOSTS_TOTAL",
     "NUM_MACHINES",   "MACHINE_COUNT",   "MACHINE_NUM", "TASK_COUNT",    "TASK_TOTAL",
     "TASKS_TOTAL",    "WORLD_SIZE",      "RANK_SIZE",   "NUM_RANKS",     "NRANKS",
     "RANK_COUNT",     "RANKS_TOTAL"});

/// Alone these mean too little; two with one prefix are an index and a number.
constexpr auto index_ends = std::to_array<std::string_view>({"INDEX", "IDX", "ID", "NUMBER", "RANK"});
constexpr auto number_ends = std::to_array<std::string_view>({"COUNT", "SIZE", "TOTAL", "NUM"});

/// Words in names with such ends that mean something else: properties of one machine, a matrix's rank,
/// requests to a scheduler or scaler, independent tasks, servers.
constexpr auto other_words = std::to_array<std::string_view>(
    {"LOCAL",      "GPU",       "CPU",        "CORE",     "CORES",         "THREAD",     "THREADS",
     "DEVICE",     "NUMA",      "LORA",       "QLORA",    "ADAPTER",       "LOW",        "PAGE",
     "SEARCH",     "SORT",      "MAX",        "MIN",      "DEFAULT",       "LIMIT",      "DESIRED",
     "REQUESTED",  "ARRAY",     "SHARD",      "SHARDS",   "CHUNK",         "FOLD",       "SPLIT",
     "PARTITION",  "RETRY",     "ATTEMPT",    "PARALLEL", "SERVICE",       "PORT",       "DATABASE",
     "DB",         "CACHE",     "SHOP",       "ORDER",    "INGRESS",       "DEPLOYMENT", "CASSANDRA",
     "CLICKHOUSE", "COCKROACH", "CONSUL",     "ELASTIC",  "ELASTICSEARCH", "ES",         "ETCD",
     "KAFKA",      "MARIADB",   "MONGO",      "MONGODB",  "MYSQL",         "NGINX",      "OPENSEARCH",
     "PG",         "POSTGRES",  "POSTGRESQL", "RABBITMQ", "REDIS",         "VAULT",      "ZOO",
     "ZOOKEEPER"});

/// First words of names that have another meaning: libraries, arrays of tasks, CI systems and test runners,
/// web servers, inference servers.
constexpr auto other_owners = std::to_array<std::string_view>(
    {"OMP",      "MKL",      "NCCL",    "CUDA",       "TORCH",     "XLA",       "BATCH",
     "NOMAD",    "CLOUD",    "CE",      "CF",         "INSTANCE",  "SLURM",     "SGE",
     "PBS",      "LSB",      "CI",      "CIRCLE",     "BUILDKITE", "GITLAB",    "GITHUB",
     "RUNNER",   "TRAVIS",   "DRONE",   "JENKINS",    "TEAMCITY",  "BITBUCKET", "SEMAPHORE",
     "APPVEYOR", "KNAPSACK", "CYPRESS", "PLAYWRIGHT", "TEST",      "PYTEST",    "SYSTEM",
     "AGENT",    "WEB",      "APP",     "API",        "CELERY",    "VLLM",      "SGLANG"});

/// Whole names: IBM Code Engine's array of instances, and a web server's instance in npm's process manager.
constexpr auto other_names = std::to_array<std::string_view>({"JOB_INDEX", "NODE_APP_INSTANCE"});

/// A number that an index or a count of nodes can be; identifiers are larger.
std::optional<std::uint32_t> small_number(std::string_view text) { return parse_number<std::uint16_t>(text); }

/// Whether the name is that word, or ends with it after an underscore.
bool ends_with_word(std::string_view name, std::string_view word) {
  return name.ends_with(word) && (name.size() == word.size() || name[name.size() - word.size() - 1] == '_');
}

template <std::size_t count>
bool ends_with_any(std::string_view name, const std::array<std::string_view, count>& words) {
  return std::any_of(words.begin(), words.end(), [&](auto word) { return ends_with_word(name, word); });
}

template <std::size_t count>
bool contains(const std::array<std::string_view, count>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// Whether the name is known to mean something else.
bool is_other(std::string_view name) {
  if (contains(other_names, name) || contains(other_owners, name.substr(0, name.find('_')))) return true;
  while (!name.empty())
    if (contains(other_words, take_part(name, "_"))) return true;
  return false;
}

/// Whether a number with the same prefix is above the index: ROCKET_SIZE=2 beside ROCKET_INDEX=0.
bool has_number_above(std::string_view name, std::uint32_t index, const Environment& environment) {
  for (const std::string_view end : index_ends) {
    if (name.size() <= end.size() + 1 || !ends_with_word(name, end)) continue;
    const std::string prefix(name.substr(0, name.size() - end.size()));
    for (const std::string_view other : number_ends) {
      const auto number = small_number(environment.get(prefix + std::string(other)).value_or(""));
      if (number && *number > 1 && *number > index) return true;
    }
  }
  return false;
}

}  // namespace

std::vector<std::string> signs_of_several_nodes(const Environment& environment) {
  std::vector<std::string> signs;
  for (const std::string& entry : environment.entries()) {
    const std::string_view name = entry_name(entry);
    if (name.empty()) continue;
    const auto value = small_number(std::string_view(entry).substr(name.size() + 1));
    if (!value) continue;
    const bool is_sign = (*value > 0 && ends_with_any(name, index_words)) ||
                         (*value > 1 && ends_with_any(name, number_words)) ||
                         has_number_above(name, *value, environment);
    if (is_sign && !is_other(name)) signs.push_back(entry);
  }
  return signs;
}

}  // namespace rankshim::platform
