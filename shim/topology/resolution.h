#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "topology/claim.h"
#include "topology/ranks.h"
#include "topology/topology.h"

namespace rankshim::topology {

/// The end of a fix: what settles the numbers of a process if the platform's variables cannot be used.
constexpr const char* settle_process =
    "set RANK, WORLD_SIZE and LOCAL_RANK with --platform=generic (RANKSHIM_PLATFORM)";

constexpr const char* set_master_addr =
    "set MASTER_ADDR to node 0's name or address, or --master-addr (RANKSHIM_MASTER_ADDR)";

/// The end of a fix where a number of nodes that is left over may be the cause.
constexpr const char* if_alone = ", or set RANKSHIM_NNODES=1 if this node is alone";

/// What a step finds out beside facts.
struct Findings {
  Faults faults;
  std::vector<std::string> warnings;

  void add(Findings more);
};

/// One fault.
Findings refusal(ErrorCode error_code, Phrase what, std::string fix);

/// What a step adds to what is known.
struct Added : Findings {
  std::vector<std::pair<Fact, std::optional<Value>>> facts;  ///< their values; nullopt: known no longer
  std::optional<platform::Granularity> granularity;          ///< if it changes
  bool drops_local_rank = false;  ///< LOCAL_RANK and LOCAL_WORLD_SIZE are left over

  void set(Fact fact, Value value) { facts.emplace_back(fact, std::move(value)); }
  void drop(Fact fact) { facts.emplace_back(fact, std::nullopt); }
};

/// What is known while the claims of all sources become a topology or faults: resolve.cpp has the steps. Each
/// returns what it adds. complete_…() take the steps for a node or a process one after the other.
struct Resolution {
  const settings::Settings& settings;
  const platform::Platform& platform;
  const node::Host& host;
  const LauncherFlags* torchrun = nullptr;  ///< null once this is known to be a process
  platform::Granularity granularity = platform::Granularity::node;
  std::optional<platform::State> idle;
  RankVariables ranks = rank_variables(host.environment());  ///< without a LOCAL_RANK that is left over
  RankUnit unit = rank_unit(settings.text(settings::Option::rank_unit));
  Topology topology = {};
  Faults faults;
  Claims claims;
  bool is_started_process = false;

  std::optional<Value>& fact(Fact fact) { return topology.facts[fact]; }
  [[nodiscard]] bool has(Fact fact) const { return topology.facts.has(fact); }
  [[nodiscard]] std::string_view text(Fact fact) const { return topology.facts.text(fact); }
  /// nullopt if it is absent or not a plain number.
  [[nodiscard]] std::optional<unsigned> known(Fact fact) const { return parse_count(text(fact)); }
  /// The same as 0.
  [[nodiscard]] unsigned number(Fact fact) const { return known(fact).value_or(0); }
  [[nodiscard]] bool is_users(Fact fact) const { return has(fact) && topology.facts[fact]->from_user(); }
  /// Whether a flag of torchrun gives the fact.
  [[nodiscard]] bool is_flag(Fact fact) const { return torchrun != nullptr && torchrun->facts.has(fact); }
  /// Gives a fact a value that it has not yet.
  void fill(Fact fact, Value value);

  [[nodiscard]] bool reads_variables() const { return !platform.id.is_off(); }
  /// A platform or a process launcher was recognised, not only generic names.
  [[nodiscard]] bool has_own_words() const;
  [[nodiscard]] bool platform_is_elastic() const;
  /// The user says outright that there is only this node.
  [[nodiscard]] bool user_says_alone() const;
  /// Whether a master of this name or address is this node.
  [[nodiscard]] bool is_this_node(std::string_view name) const;

  /// A fact that is known, for a sentence: "NNODES=2".
  [[nodiscard]] Phrase said(Fact fact) const { return topology::said(fact, *topology.facts[fact]); }
  /// A variable that is set, likewise.
  [[nodiscard]] Phrase variable(const std::string& name) const;
  /// RANK, WORLD_SIZE, LOCAL_RANK or LOCAL_WORLD_SIZE as it is set, likewise.
  [[nodiscard]] Phrase set(Fact of_process) const;
  /// The platform and why it was recognised: "slurm (SLURM_JOB_ID=7)".
  [[nodiscard]] Phrase recognised() const;

  /// Adds what a step returned, a fault only once. Returns whether the step found no fault.
  bool add(Findings findings);
  bool add(Added added);
};

/// Reads RANK and WORLD_SIZE: for nnodes and node_rank if those are not known yet, or, if they number
/// processes that exist already, for rank, world_size, local_rank and local_world_size (then the granularity
/// becomes process). A fault if they contradict known facts, or can mean both.
Added read_ranks(const Resolution& r, RankUnit unit);

/// Checks that RANK, WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE are the same numbers as those of a platform
/// that has its own variables or, in granularity node, those of one of the node's processes. Else they may be
/// left over from an outer platform, or this is one of several processes that exist already.
Faults check_ranks(const Resolution& r);

/// Whether this is a process that something (DeepSpeed, Ray Train) has started, and not a node's launcher:
/// `this_process`, or what else meaning_adds() takes (a fault if it cannot be told, a LOCAL_RANK left over).
RankMeaning recognise_started_process(const Resolution& r);

/// What a meaning of the variables adds.
Added meaning_adds(const Resolution& r, RankMeaning meaning);

/// Takes RANK and WORLD_SIZE where they count, else compares them. `by_user`: who has set the node's numbers.
void take_ranks(Resolution& r, bool by_user);

/// Why the platform does not provide a fact.
struct Missing {
  Phrase why;          ///< ": LIST=[] does not name a host; A and B are not set", for the end of a sentence
  std::string remedy;  ///< "correct LIST, or ", for the start of a fix
  std::string unset;   ///< "A or B": the variables that would provide it
  bool is_expected;    ///< not only near misses: a source that should provide it does not
};

Missing why_missing(const Resolution& r, Fact fact);

/// Completes and checks what is known of a node, which starts one launcher.
void complete_node(Resolution& r);

/// Completes and checks what is known of a process that exists already.
void complete_process(Resolution& r);

/// Weighs all that speaks against one node, unless the user says outright that there is one. What means other
/// nodes is a fault; what only looks so is a warning, with --strict a fault unless the variables are empty.
Findings weigh_alone(const Resolution& r);

/// Warns of what speaks for other nodes, or with --strict refuses what only looks so: of a launcher whose
/// processes are all on this node.
Findings warn_of_others(const Resolution& r);

/// Checks that one number is below the other.
Findings check_below(const Resolution& r, Fact smaller, Fact larger, std::string_view settles = settle_nodes);

/// Checks that a host can have the master's name. Removes the brackets of an address.
Added check_master_addr(const Resolution& r);

/// Fills in the run id and the port, and checks that only the master has a loopback address as the master's.
void complete_meeting(Resolution& r, bool hosts_master);

/// A variable that is set and resembles one that is missing.
struct NearMiss {
  std::string name;  ///< of the variable that is set
  std::string text;  ///< "WORLDSIZE=2 is set, but the name is WORLD_SIZE", "WORLD_SIZE is set, but empty"
  bool is_empty = false;  ///< the name is right and the value is empty: templates leave such variables on a
                          ///< single node too
};

/// The near misses of these facts' variables (RANK, WORLD_SIZE, …), in the environment's order: names with
/// the same letters ignoring underscores and case, a few other spellings, and variables that are set and
/// empty. A variable that is set properly has none. `of_several_nodes`: without those that a node which is
/// alone would have too: a number of nodes of 1, a rank of 0, its own address as the master's.
std::vector<NearMiss> near_misses(const node::Environment& environment, std::span<const Fact> wanted,
                                  bool of_several_nodes = false);

/// Variables whose names and values look like a job of several nodes, each as NAME=VALUE, in the
/// environment's order: a node's index above 0, a number of nodes above 1, or both with one prefix
/// (ROCKET_JOB_INDEX=0 beside ROCKET_JOBS_COUNT=2); a place where nodes meet (ROCKET_HEAD_IP); a list of
/// addresses with one of this node's (ROCKET_NODE_IPS). What other programs have too (a database's NODE_ID, a
/// matrix's RANK, a storage's HOSTS) counts only beside one of these. It is a safety net for platforms
/// without a profile. config/unknown-platforms.toml has the words.
std::vector<std::string> signs_of_several_nodes(const node::Host& host);

/// Warns of variables that may have been meant for the fact, whose default is used.
Findings warn_of_near_misses(const Resolution& r, Fact fact);

}  // namespace rankshim::topology
