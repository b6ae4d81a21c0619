#include "topology/near_miss.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "base/text.h"
#include "node/addresses.h"
#include "topology/topology.h"

namespace rankshim {
namespace {

/// Other common spellings, without underscores. Those with the name's letters are found without this list.
constexpr std::pair<std::string_view, std::string_view> spellings[] = {{"NNODE", "NNODES"},
                                                                       {"NODERANKS", "NODE_RANK"},
                                                                       {"MASTERADDRESS", "MASTER_ADDR"},
                                                                       {"MASTERADRESS", "MASTER_ADDR"},
                                                                       {"MASTERADR", "MASTER_ADDR"},
                                                                       {"NPROCSPERNODE", "NPROC_PER_NODE"},
                                                                       {"NPROCPERNOD", "NPROC_PER_NODE"}};

/// Variables for a node's part in the job.
constexpr auto job_names =
    std::to_array<std::string_view>({"NNODES", "WORLD_SIZE", "NODE_RANK", "RANK", "MASTER_ADDR"});

/// The name's letters, which are compared: without underscores, and in upper case.
std::string letters(std::string_view name) {
  std::string all = upper_case(name);
  std::erase(all, '_');
  return all;
}

bool is_nearly(std::string_view name, std::string_view wanted) {
  if (name.empty() || to_upper(name.front()) != wanted.front()) return false;  // true of nearly all variables
  const std::string mine = letters(name);
  return mine == letters(wanted) ||
         std::ranges::find(spellings, std::pair(std::string_view(mine), wanted)) != std::end(spellings);
}

/// Whether a node that is alone would not have this value.
bool shows_others(std::string_view wanted, std::string_view value) {
  if (wanted == "MASTER_ADDR") return !is_loopback(value);
  const auto number = parse_count(value);
  return number && *number > (wanted == "NNODES" || wanted == "WORLD_SIZE" ? 1U : 0U);
}

std::vector<NearMiss> find_misses(const Environment& environment, std::span<const std::string_view> all,
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

using namespace std::string_view_literals;
using Words = std::span<const std::string_view>;

/// The lists of config/unknown-platforms.toml, which says what each is.
namespace words {
#include "unknown_platforms.inc"
}

/// A number that an index or a count of nodes can be; identifiers are larger.
std::optional<std::uint32_t> small_number(std::string_view text) { return parse_number<std::uint16_t>(text); }

/// Whether the name is that word, or ends with it after an underscore.
bool ends_with_word(std::string_view name, std::string_view word) {
  return name.ends_with(word) && (name.size() == word.size() || name[name.size() - word.size() - 1] == '_');
}

bool ends_with_any(std::string_view name, Words words) {
  return std::ranges::any_of(words, [&](auto word) { return ends_with_word(name, word); });
}

bool contains(Words words, std::string_view word) { return std::ranges::find(words, word) != words.end(); }

/// Whether the name is known to mean something else.
bool is_other(std::string_view name) {
  if (contains(words::other_owner, name.substr(0, name.find('_')))) return true;
  while (!name.empty())
    if (contains(words::other_word, take_part(name, "_"))) return true;
  return false;
}

/// The host of HOST or HOST:PORT.
std::string_view host_in(std::string_view text) {
  return is_literal(text) ? text : split_host_port(text).first;
}

/// Whether the value lists two different addresses of one family. (A pod with two families has one of each.)
bool lists_addresses(std::string_view value) {
  if (value.starts_with("[\"") && value.ends_with("\"]")) value = value.substr(1, value.size() - 2);  // JSON
  std::string list(value);
  for (const char separator : {',', '"'}) std::ranges::replace(list, separator, ' ');
  std::array<std::set<boost::asio::ip::address>, 2> seen;
  std::string_view rest = list;
  for (auto entry = take_word(rest); !entry.empty(); entry = take_word(rest)) {
    const auto address = literal(host_in(entry));
    if (!address) return false;
    auto& family = seen[address->is_v4() ? 0 : 1];
    family.insert(*address);
    if (family.size() > 1) return true;
  }
  return false;
}

/// Whether a number that belongs to the index is above it: ROCKET_SIZE=2 beside ROCKET_INDEX=0;
/// ROCKET_JOBS_COUNT or ROCKET_NUM_JOBS beside ROCKET_JOB_INDEX.
bool has_number_above(std::string_view name, std::uint32_t index, const Environment& environment) {
  const auto is_above = [&](const std::string& other) {
    const auto number = small_number(environment.get(other).value_or(""));
    return number && *number > 1 && *number > index && !is_other(other);
  };
  for (const std::string_view end : words::index_end) {
    if (name.size() <= end.size() + 1 || !ends_with_word(name, end)) continue;
    const std::string prefix(name.substr(0, name.size() - end.size() - 1));
    const auto word = prefix.rfind('_') + 1;  // 0 where there is no underscore
    const std::string counted = prefix.substr(0, word) + "NUM_" + prefix.substr(word);
    if (is_above(counted) || is_above(counted + "S")) return true;
    for (const std::string_view number : words::number_end) {
      if (!contains(words::other_name, name) && is_above(fmt::format("{}_{}", prefix, number))) return true;
      if (is_above(fmt::format("{}S_{}", prefix, number))) return true;
    }
  }
  return false;
}

bool is_sign(std::string_view name, std::string_view value, const Environment& environment) {
  if (const auto number = small_number(value))
    return (*number > 0 && ends_with_any(name, words::index)) ||
           (*number > 1 && ends_with_any(name, words::number)) ||
           has_number_above(name, *number, environment);
  const std::string_view host = host_in(value);
  return (ends_with_any(name, words::meeting) && is_host(host) && !is_loopback(host)) ||
         (ends_with_any(name, words::list) && lists_addresses(value));
}

}  // namespace

std::vector<NearMiss> near_misses(const Environment& environment, std::span<const std::string_view> wanted) {
  return find_misses(environment, wanted, false);
}

std::vector<NearMiss> near_misses_of_several_nodes(const Environment& environment) {
  return find_misses(environment, job_names, true);
}

std::vector<std::string> signs_of_several_nodes(const Environment& environment) {
  std::vector<std::string> signs;
  for (const std::string& entry : environment.entries()) {
    const std::string_view name = entry_name(entry);
    if (name.empty()) continue;
    if (is_sign(name, std::string_view(entry).substr(name.size() + 1), environment) && !is_other(name))
      signs.push_back(entry);
  }
  return signs;
}

}  // namespace rankshim
