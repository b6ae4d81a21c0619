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

/// The end of a fix: how to give the numbers of a process if the platform's variables cannot be used.
constexpr const char* settle_process =
    "set RANK, WORLD_SIZE and LOCAL_RANK with --platform=generic (RANKSHIM_PLATFORM)";

constexpr const char* set_master_addr =
    "set MASTER_ADDR to node 0's name or address, or --master-addr (RANKSHIM_MASTER_ADDR)";

/// The end of a fix, if a leftover number of nodes may be the cause.
constexpr const char* if_alone = ", or set RANKSHIM_NNODES=1 if this node is alone";

/// What a step finds besides facts.
struct Findings {
  Faults faults;
  std::vector<std::string> warnings;
  bool explains_all = false;  ///< its faults replace all that other steps have found

  void add(Findings more);
};

/// Findings with one fault.
Findings refusal(ErrorCode error_code, Phrase what, std::string fix);

/// What a step changes in what is known.
struct Added : Findings {
  std::vector<std::pair<Fact, std::optional<Value>>> facts;  ///< new values; nullopt: no longer known
  std::optional<platform::Granularity> granularity;          ///< nullopt if it does not change
  bool drops_local_rank = false;  ///< LOCAL_RANK and LOCAL_WORLD_SIZE are leftovers

  void set(Fact fact, Value value) { facts.emplace_back(fact, std::move(value)); }
  void drop(Fact fact) { facts.emplace_back(fact, std::nullopt); }
};

/// What is known while the claims of all sources are turned into a topology or faults. A step only reads it,
/// and returns what it adds. take_ranks() and complete_…() run steps in order; facts change by add() alone.
struct Resolution {
  const settings::Settings& settings;
  const platform::Platform& platform;
  const node::Host& host;
  const LauncherFlags* torchrun = nullptr;  ///< null once this is known to be a process
  platform::Granularity granularity = platform::Granularity::node;
  std::optional<platform::State> idle;
  RankVariables ranks = rank_variables(host.environment());  ///< without a leftover LOCAL_RANK
  RankUnit unit = settings.choice<RankUnit>(settings::Option::rank_unit);
  Topology topology = {};
  Faults faults;
  Claims claims;
  bool is_started_process = false;

  [[nodiscard]] bool has(Fact fact) const { return topology.facts.has(fact); }
  [[nodiscard]] std::string_view text(Fact fact) const { return topology.facts.text(fact); }
  /// The fact as a number; nullopt if it is absent or not a plain number.
  [[nodiscard]] std::optional<unsigned> known(Fact fact) const { return parse_count(text(fact)); }
  /// The fact as a number; 0 if it is absent or not a plain number.
  [[nodiscard]] unsigned number(Fact fact) const { return known(fact).value_or(0); }
  [[nodiscard]] bool is_users(Fact fact) const { return has(fact) && topology.facts[fact]->from_user(); }
  /// Whether a flag of torchrun sets the fact.
  [[nodiscard]] bool is_flag(Fact fact) const { return torchrun != nullptr && torchrun->facts.has(fact); }

  [[nodiscard]] bool reads_variables() const { return !platform.id.is_off(); }
  /// Whether a platform or a process launcher was recognised, not only generic names.
  [[nodiscard]] bool has_own_words() const;
  [[nodiscard]] bool platform_is_elastic() const;
  /// Whether the user says outright that there is only this node.
  [[nodiscard]] bool user_says_alone() const;
  /// Whether this name or address of a master means this node.
  [[nodiscard]] bool is_this_node(std::string_view name) const;

  /// A known fact, for use in a sentence: "NNODES=2".
  [[nodiscard]] Phrase said(Fact fact) const { return topology::said(fact, *topology.facts[fact]); }
  /// A variable that is set, for use in a sentence.
  [[nodiscard]] Phrase variable(const std::string& name) const;
  /// RANK, WORLD_SIZE, LOCAL_RANK or LOCAL_WORLD_SIZE as set, for use in a sentence.
  [[nodiscard]] Phrase set(Fact of_process) const;
  /// The platform and why it was recognised: "slurm (SLURM_JOB_ID=7)".
  [[nodiscard]] Phrase recognised() const;

  /// Adds what a step returned, each fault only once. Returns whether the step found no fault.
  bool add(Findings findings);
  bool add(Added added);
};

/// Reads RANK and WORLD_SIZE: as nnodes and node_rank if those are not known yet; or, if they number
/// processes that exist already, as rank, world_size, local_rank and local_world_size (the granularity then
/// becomes process). A fault if they contradict known facts or could mean either.
Added read_ranks(const Resolution& r, RankUnit unit);

/// Checks that RANK, WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE match the numbers of a platform with its own
/// variables or, in granularity node, those of one of the node's processes. If not, they may be left over
/// from an outer platform, or this is one of several processes that exist already.
Faults check_ranks(const Resolution& r);

/// Whether something (DeepSpeed, Ray Train) started this process, so that it is not a node's launcher:
/// `this_process`, or another use for added_by() (a fault if that is unclear, or a leftover LOCAL_RANK).
RankUse recognise_started_process(const Resolution& r);

/// A value for a fact that has none; nothing if it has one.
Added unless_known(const Resolution& r, Fact fact, Value value);

/// What the variables, used so, add to what is known.
Added added_by(const Resolution& r, RankUse use);

/// Runs the steps that take RANK and WORLD_SIZE where they apply, and compare them otherwise. `by_user`: the
/// user has set the node's numbers.
void take_ranks(Resolution& r, bool by_user);

/// Why the platform does not provide a fact.
struct Missing {
  Phrase why;          ///< the end of a sentence: ": LIST=[] does not name a host; A and B are not set"
  std::string remedy;  ///< the start of a fix: "correct LIST, or "
  std::string unset;   ///< "A or B": the variables that would provide it
  bool is_expected;    ///< a source that should provide it does not; false if there are only near misses
};

Missing why_missing(const Resolution& r, Fact fact);

/// Completes and checks what is known of a node, which starts one launcher.
void complete_node(Resolution& r);

/// Completes and checks what is known of a process that exists already.
void complete_process(Resolution& r);

/// Weighs everything that suggests other nodes, unless the user says outright that there is only one. Proof
/// of other nodes is a fault. What only looks like them is a warning, or with --strict a fault unless the
/// variables are empty.
Findings weigh_alone(const Resolution& r);

/// Warns a launcher whose processes are all on this node of whatever suggests other nodes. With --strict,
/// what looks like a job of several nodes is a fault.
Findings warn_of_others(const Resolution& r);

/// Checks that `smaller` is below `larger`.
Findings check_below(const Resolution& r, Fact smaller, Fact larger, std::string_view settles = settle_nodes);

/// Checks that the master's name is a possible host name. Strips the brackets from an address.
Added check_master_addr(const Resolution& r);

/// Fills in the run id and the port, and checks that only the master itself has a loopback address for the
/// master.
void complete_meeting(Resolution& r, bool hosts_master);

/// A variable that is set, and resembles one that is missing.
struct NearMiss {
  std::string name;  ///< of the variable that is set
  std::string text;  ///< "WORLDSIZE=2 is set, but the name is WORLD_SIZE", "WORLD_SIZE is set, but empty"
  bool is_empty = false;  ///< the name is right but the value is empty: templates leave such variables on a
                          ///< single node too
};

/// The near misses of these facts' variables (RANK, WORLD_SIZE, …), in the environment's order: names with
/// the same letters, ignoring underscores and case; a few other spellings; and variables that are set but
/// empty. A variable that is set properly has none. `of_several_nodes` skips those that a lone node would
/// have too: one node, rank 0, its own address as the master's.
std::vector<NearMiss> near_misses(const node::Environment& environment, std::span<const Fact> wanted,
                                  bool of_several_nodes = false);

/// Finds variables whose names and values look like a job of several nodes, each as NAME=VALUE, in the
/// environment's order: a node index above 0, a number of nodes above 1, or both with one prefix
/// (ROCKET_JOB_INDEX=0 beside ROCKET_JOBS_COUNT=2); a meeting place (ROCKET_HEAD_IP); a list of addresses
/// that includes one of this node's (ROCKET_NODE_IPS). What other programs have too (a database's NODE_ID, a
/// matrix's RANK, a storage system's HOSTS) counts only beside one of these. This is a safety net for
/// platforms without a profile. The words are in config/unknown-platforms.toml.
std::vector<std::string> signs_of_several_nodes(const node::Host& host);

/// Warns of variables that may have been meant for this fact, for which the default is used.
Findings warn_of_near_misses(const Resolution& r, Fact fact);

}  // namespace rankshim::topology
