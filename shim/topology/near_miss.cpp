#include "topology/near_miss.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/text.h"
#include "topology/topology.h"

namespace rankshim {
namespace {

/// Other common spellings, without underscores. Spellings with the name's letters are found without this
/// list.
constexpr auto spellings =
    std::to_array<std::pair<std::string_view, std::string_view>>({{"NNODE", "NNODES"},
                                                                  {"NODERANKS", "NODE_RANK"},
                                                                  {"MASTERADDRESS", "MASTER_ADDR"},
                                                                  {"MASTERADRESS", "MASTER_ADDR"},
                                                                  {"MASTERADR", "MASTER_ADDR"},
                                                                  {"NPROCSPERNODE", "NPROC_PER_NODE"},
                                                                  {"NPROCPERNOD", "NPROC_PER_NODE"}});

/// Variables for a node's part in the job.
constexpr auto job_names =
    std::to_array<std::string_view>({"NNODES", "WORLD_SIZE", "NODE_RANK", "RANK", "MASTER_ADDR"});

/// Whether both have the same letters, ignoring underscores and case.
bool same_letters(std::string_view a, std::string_view b) {
  while (true) {
    while (a.starts_with('_')) a.remove_prefix(1);
    while (b.starts_with('_')) b.remove_prefix(1);
    if (a.empty() || b.empty()) return a.empty() && b.empty();
    if (to_upper(a.front()) != to_upper(b.front())) return false;
    a.remove_prefix(1);
    b.remove_prefix(1);
  }
}

bool is_nearly(std::string_view name, std::string_view wanted) {
  if (name.empty() || to_upper(name.front()) != wanted.front()) return false;  // true of nearly all variables
  return same_letters(name, wanted) ||
         std::any_of(spellings.begin(), spellings.end(), [&](const auto& spelling) {
           return spelling.second == wanted && same_letters(name, spelling.first);
         });
}

/// Whether a node that is alone would not have this value.
bool shows_others(std::string_view wanted, std::string_view value) {
  if (wanted == "MASTER_ADDR") return !is_loopback(value);
  const auto number = parse_count(value);
  return number && *number > (wanted == "NNODES" || wanted == "WORLD_SIZE" ? 1U : 0U);
}

std::vector<NearMiss> find(const Environment& environment, std::span<const std::string_view> all,
                           bool of_several_nodes) {
  std::vector<NearMiss> misses;
  for (const std::string& entry : environment.entries()) {
    const std::string_view name = entry_name(entry);
    for (const std::string_view wanted : all) {
      if (!is_nearly(name, wanted)) continue;
      const auto value = environment.get(name);
      if (value && name == "MASTER_ADDR" && is_service_link(*value))
        misses.push_back(
            {std::string(name), fmt::format("{}={} is a URL, and no host", name, in_quotes(*value))});
      if (environment.get(wanted)) continue;
      if (name == wanted)
        misses.push_back({std::string(name), fmt::format("{} is set, but empty", name), true});
      else if (value && (!of_several_nodes || shows_others(wanted, *value)))
        misses.push_back({std::string(name), fmt::format("{}={} is set, but the name is {}", printable(name),
                                                         in_quotes(*value), wanted)});
    }
  }
  return misses;
}

}  // namespace

std::vector<NearMiss> near_misses(const Environment& environment, std::span<const std::string_view> wanted) {
  return find(environment, wanted, false);
}

std::vector<NearMiss> near_misses_of_several_nodes(const Environment& environment) {
  return find(environment, job_names, true);
}

}  // namespace rankshim
