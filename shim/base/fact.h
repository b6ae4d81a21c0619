#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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

constexpr std::string_view name(Fact fact) { return fact_names[static_cast<std::size_t>(fact)]; }

/// Where a value came from.
enum class Origin : std::uint8_t {
  option,    ///< detail: "--master-addr"
  variable,  ///< detail: the variable's name
  file,      ///< detail: the path
  config,    ///< detail: "PATH:KEY"
  hostname,  ///< this node's name
  devices,   ///< detail: what was counted
  derived,   ///< detail: what it was derived from
  fallback,  ///< a built-in default
};

/// A value and its source.
struct Value {
  std::string text;
  Origin origin = Origin::fallback;
  std::string detail;

  /// The source as `explain` prints it: "env PET_NNODES", "option --nnodes", "derived from master_addr",
  /// "default" …
  [[nodiscard]] std::string source() const;

  /// Appends the variables and files that the value comes from, or `fact` if there is none.
  void append_inputs(std::string_view fact, std::vector<std::string>& names) const;

  /// Whether the user set it: by the command line, RANKSHIM_* or the configuration file.
  [[nodiscard]] bool from_user() const;
};

/// A fact, its value and its source for a sentence: "NODE_RANK=1", "--nnodes=2", "nnodes=2 (derived from …)".
std::string in_words(Fact fact, const Value& value);

/// Facts by their enum. A fact that is not known is absent.
class Facts {
 public:
  [[nodiscard]] const std::optional<Value>& operator[](Fact fact) const { return values_[index(fact)]; }
  [[nodiscard]] std::optional<Value>& operator[](Fact fact) { return values_[index(fact)]; }
  [[nodiscard]] bool has(Fact fact) const { return values_[index(fact)].has_value(); }
  /// The fact's text; empty if the fact is absent.
  [[nodiscard]] std::string_view text(Fact fact) const {
    return has(fact) ? std::string_view(values_[index(fact)]->text) : std::string_view{};
  }

 private:
  static constexpr std::size_t index(Fact fact) { return static_cast<std::size_t>(fact); }
  std::array<std::optional<Value>, fact_count> values_;
};

}  // namespace rankshim
