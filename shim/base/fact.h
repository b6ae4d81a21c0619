#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"

namespace rankshim {

/// What can be known of a node's part in the job. The names are those of `explain --format json`.
enum class Fact : std::uint8_t {
  nnodes,            ///< "N" or "MIN:MAX"
  node_rank,         ///< 0 to nnodes − 1
  nproc_per_node,    ///< workers on this node; a number, or auto, gpu, cpu until the topology stage counts
  master_addr,       ///< host of node 0
  master_port,       ///< port of torch's store on node 0
  run_id,            ///< the job's name, equal on all nodes
  attempt,           ///< how often the platform has started the job before; 0 the first time
  rdzv_backend,      ///< elastic jobs only, from here
  rdzv_endpoint,     ///<
  rdzv_id,           ///<
  rdzv_conf,         ///< k=v,k=v, as torchrun takes it
  max_restarts,      ///< torchrun's --max_restarts
  rank,              ///< granularity process only, from here: this worker's number in the job
  world_size,        ///<
  local_rank,        ///<
  local_world_size,  ///<
};

inline constexpr std::array<std::string_view, 16> fact_names = {
    "nnodes",  "node_rank",    "nproc_per_node", "master_addr",     "master_port", "run_id",
    "attempt", "rdzv_backend", "rdzv_endpoint",  "rdzv_id",         "rdzv_conf",   "max_restarts",
    "rank",    "world_size",   "local_rank",     "local_world_size"};
inline constexpr std::size_t fact_count = fact_names.size();
inline constexpr auto all_facts = [] {
  std::array<Fact, fact_count> all{};
  for (std::size_t i = 0; i < fact_count; ++i) all[i] = static_cast<Fact>(i);
  return all;
}();

/// The facts about one node of a static job, and about one of its processes.
inline constexpr auto facts_of_node = {Fact::nnodes, Fact::node_rank, Fact::nproc_per_node, Fact::master_addr,
                                       Fact::master_port};
inline constexpr auto facts_of_process = {Fact::rank, Fact::world_size, Fact::local_rank,
                                          Fact::local_world_size};

constexpr std::string_view name(Fact fact) { return fact_names[static_cast<std::size_t>(fact)]; }

/// The environment variable from which scripts and torch read a fact about a node or a process: "WORLD_SIZE".
inline std::string variable_of(Fact fact) { return upper_case(name(fact)); }

/// Where a value came from.
enum class Origin : std::uint8_t {
  option,    ///< detail: "--master-addr"
  implied,   ///< detail: the option that implies it, "torchrun --standalone"
  variable,  ///< detail: the variable's name
  file,      ///< detail: the path
  config,    ///< detail: "PATH:KEY"
  hostname,  ///< this node's name
  devices,   ///< detail: what was counted
  derived,   ///< what it was derived from: the inputs, or the detail in words
  fallback,  ///< a built-in default
};

/// A value and its source.
struct Value {
  std::string text;
  Origin origin = Origin::fallback;
  std::string detail;
  std::vector<std::string> inputs;  ///< of a derived value: its variables and files, each once

  /// What the value came from: the variable, the option, or the inputs separated by commas.
  [[nodiscard]] std::string from() const { return inputs.empty() ? detail : joined(inputs); }

  /// The source as `explain` prints it: "env PET_NNODES", "derived from master_addr", "default", …
  [[nodiscard]] std::string source() const {
    static constexpr std::array<std::string_view, 9> words = {
        "option ", "option ", "env ", "file ", "config ", "hostname", "devices ", "derived from ", "default"};
    const bool is_all = origin == Origin::hostname || origin == Origin::fallback;
    return std::string(words[static_cast<std::size_t>(origin)]) + (is_all ? "" : from());
  }

  [[nodiscard]] bool has_source_of(const Value& other) const {
    return origin == other.origin && detail == other.detail && inputs == other.inputs;
  }
  /// Whether this is the variable's value, unchanged.
  [[nodiscard]] bool is_variable(std::string_view name) const {
    return origin == Origin::variable && detail == name;
  }
  /// Whether this is the variable's value, or derived from it.
  [[nodiscard]] bool is_from(std::string_view variable) const {
    return is_variable(variable) || contains(inputs, variable);
  }

  /// Appends the variables and files that the value comes from, or `fact` if there are none.
  void append_inputs(std::string_view fact, std::vector<std::string>& names) const {
    names.insert(names.end(), inputs.begin(), inputs.end());
    const std::string_view only = detail.empty() ? fact : std::string_view(detail);
    if (inputs.empty() && !only.empty()) names.emplace_back(only);
  }

  /// Whether the user set it: on the command line, by RANKSHIM_* or in the configuration file.
  [[nodiscard]] bool from_user() const {
    return origin == Origin::option || origin == Origin::implied || origin == Origin::config ||
           (origin == Origin::variable && std::string_view(detail).starts_with("RANKSHIM_"));
  }
};

/// A fact with its value and source, for use in a sentence: "NODE_RANK=1", "--nnodes=2", "nnodes=2 (derived
/// from …)".
inline std::string in_words(Fact fact, const Value& value) {
  if (value.origin == Origin::variable || value.origin == Origin::option || value.origin == Origin::implied)
    return printable(value.detail) + "=" + in_quotes(value.text);
  return std::string(name(fact)) + "=" + in_quotes(value.text) + " (" + value.source() + ")";
}

/// Optional values indexed by an enum. A value that is not known is absent.
template <class Key, class Entry, std::size_t count>
class ByKey {
 public:
  [[nodiscard]] const std::optional<Entry>& operator[](Key key) const { return entries_[index(key)]; }
  [[nodiscard]] std::optional<Entry>& operator[](Key key) { return entries_[index(key)]; }
  [[nodiscard]] bool has(Key key) const { return entries_[index(key)].has_value(); }
  /// The value's text; empty if it is absent.
  [[nodiscard]] std::string_view text(Key key) const {
    return has(key) ? std::string_view(entries_[index(key)]->text) : std::string_view{};
  }

 private:
  static constexpr std::size_t index(Key key) { return static_cast<std::size_t>(key); }
  std::array<std::optional<Entry>, count> entries_;
};

using Facts = ByKey<Fact, Value, fact_count>;

}  // namespace rankshim
