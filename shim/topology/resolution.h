#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "topology/claim.h"
#include "topology/ranks.h"
#include "topology/topology.h"

namespace rankshim {

/// The end of a fix: what settles the numbers of a process if the platform's variables cannot be used.
constexpr const char* settle_process =
    "set RANK, WORLD_SIZE and LOCAL_RANK with --platform=generic (RANKSHIM_PLATFORM)";

/// What settles numbers of nodes that contradict each other.
constexpr const char* settle_nodes =
    "correct one of them, or settle it with --nnodes and --node-rank (RANKSHIM_NNODES, RANKSHIM_NODE_RANK)";

/// What settles all numbers of a node, in a static job and in an elastic one.
constexpr const char* settle_node =
    "describe this node with --nnodes, --node-rank and --master-addr (RANKSHIM_NNODES, …)";
constexpr const char* settle_elastic =
    "give the rendezvous with --nnodes, --rdzv-backend and --rdzv-endpoint (RANKSHIM_NNODES, …)";

/// What is known while the claims of all sources (claim.h) become a topology or faults. resolve.cpp has the
/// order of steps; rank_unit.cpp, node.cpp, process.cpp, alone.cpp
/// and defaults.cpp have the steps.
struct Resolution {
  const Settings& settings;
  const platform::Platform& platform;
  const Node& node;
  const LauncherFlags* torchrun = nullptr;  ///< null once this is known to be a process
  platform::Granularity granularity = platform::Granularity::node;
  std::optional<platform::State> idle;
  Topology topology = {};
  Faults faults;
  Claims claims;
  bool reads_variables = true;
  bool is_started_process = false;
  bool ignores_local_rank = false;  ///< it is left over
  bool names_job = false;           ///< the run id is the user's or the platform's
  bool is_alone = false, is_alone_by_user = false, is_elastic = false;
  std::optional<bool> hosts_master;

  std::optional<Value>& fact(Fact fact) { return topology.facts[fact]; }
  /// Nothing if it is absent or no plain number.
  [[nodiscard]] std::optional<unsigned> known(Fact fact) const {
    return parse_count(topology.facts.text(fact));
  }
  /// The same as 0.
  [[nodiscard]] unsigned number(Fact fact) const { return known(fact).value_or(0); }
  /// A fact that is known, with its value and source, for a sentence.
  [[nodiscard]] std::string words(Fact fact) const { return in_words(fact, *topology.facts[fact]); }
  /// The source of a fact that is known.
  [[nodiscard]] std::string source(Fact fact) const { return name_of(fact, *topology.facts[fact]); }

  /// Adds a fault. An element of `names` may be a list, joined by commas, of all that a value was derived
  /// from: each is added separately.
  void fault(Anchor anchor, std::string what, const std::vector<std::string>& names, std::string fix);
  /// The fault of a fact that cannot be right: "MASTER_PORT=0 is not a port"; corrected, or settled by its
  /// option.
  void wrong(Anchor anchor, Fact fact, std::string_view why, std::string fix = {});
  /// The fault of two facts that cannot be true together: "NODE_RANK=2 is not below NNODES=2".
  void clash(Anchor anchor, Fact one, std::string_view verb, Fact other, std::string fix);
};

/// The user says outright that there is only this node.
bool user_says_alone(const Resolution& r);

/// A platform was recognised, not only generic names.
bool has_own_words(const Resolution& r);

/// Only generic names were recognised.
bool is_mere_names(const Resolution& r);

/// Why the platform was recognised, for messages; empty if it is no profile's.
platform::Causes causes_of_platform(const Resolution& r);

bool platform_is_elastic(const Resolution& r);

/// RANK and its like, without a LOCAL_RANK that is left over.
RankVariables rank_variables(const Resolution& r);

/// Reads RANK and WORLD_SIZE, if they are needed: for nnodes and node_rank if those are not known yet, or, if
/// they number processes that exist already, for rank, world_size, local_rank and local_world_size (then the
/// granularity becomes process). `unit` is --rank-unit. If this node alone cannot decide what they count, the
/// fault names --rank-unit; if they contradict known facts, the fault names both.
void read_ranks(Resolution& r, std::string_view unit);

/// Checks whether RANK, WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE can be true together with the facts of a
/// platform that has its own variables: they must be the same numbers or, in granularity node, those of one
/// of the node's processes. A contradiction is a fault that names both sides: the variables may be left over
/// from an outer platform, or this is one of several processes that exist already.
void check_ranks(Resolution& r);

/// Returns a fault if RANK and WORLD_SIZE agree with torchrun's flags neither as numbers of nodes nor as
/// numbers of processes.
std::optional<Fault> check_beside_flags(const Resolution& r, std::string_view unit);

/// Whether the host is this node, by its name or one of its addresses.
bool is_this_node(const Resolution& r, std::string_view host);

/// Writes numbers without leading zeros: a shell's arithmetic takes 010 for 8, and 08 for a mistake.
void normalise(Resolution& r);

/// Why the platform does not provide a fact.
struct Missing {
  std::string why;     ///< ": LIST=[] is no list of hosts; A and B are not set", for the end of a sentence
  std::string remedy;  ///< "correct LIST, or ", for the start of a fix
  std::string unset;   ///< "A or B": the variables that would provide it
  bool is_expected = false;  ///< not only near misses: a source that should provide it does not
};

/// Appends the names of the variables and files that would provide the fact.
Missing why_missing(const Resolution& r, Fact fact, std::vector<std::string>& names);

/// Completes and checks what is known of a node, which starts one launcher.
void complete_node(Resolution& r);

/// Completes and checks what is known of a process that exists already.
void complete_process(Resolution& r);

/// Weighs all that speaks against one node, unless the user says outright that there is one. What is known to
/// mean other nodes is a fault; what only looks like a job of several is a warning, with --strict a fault.
/// Variables that are only empty are always just a warning.
void weigh_alone(Resolution& r);

/// A decimal number from 1 to 65535.
bool is_port(std::string_view text);

/// Makes "auto", "gpu" and "cpu" numbers.
void complete_nproc(Resolution& r);

void complete_torchruns(Resolution& r);

/// A job that is started again must not meet what is left of the one before: the attempt is part of the run
/// id, and so of the default port, unless the user has set the run id.
void complete_run_id(Resolution& r);

/// Returns false, after a fault, if the port is invalid.
bool check_port(Resolution& r);

void complete_port(Resolution& r);

/// Returns false, after a fault, if no host can have that name. Removes the brackets of an address.
bool check_master_addr(Resolution& r);

/// Checks that a node that is not the master does not have its loopback address as the master's.
void check_loopback(Resolution& r);

}  // namespace rankshim
