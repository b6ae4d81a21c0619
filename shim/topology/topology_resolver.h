#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
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

/// A decimal number from 1 to 65535.
bool is_port(std::string_view text);

/// One resolution: the claims of all sources (claim.h) become a topology or faults. Each file has its part:
/// topology.cpp (the order of steps), alone.cpp, missing.cpp, node.cpp, process.cpp, defaults.cpp.
class TopologyResolver {
 public:
  /// All arguments must outlive this object; they are those of resolve_topology.
  TopologyResolver(const Settings& settings, const platform::Platform& platform, const Node& node,
                   const LauncherFlags* torchrun);

  /// To be called once.
  Outcome<Topology> resolve();

 private:
  Facts& facts() { return topology_.facts; }
  std::optional<Value>& fact(Fact fact) { return topology_.facts[fact]; }

  /// An element of `names` may be a list, joined by commas, of all that a value was derived from: each is
  /// added separately.
  void fault(std::string what, const std::vector<std::string>& names, std::string fix);

  [[nodiscard]] unsigned number(Fact fact) const;  ///< 0 if it is absent or no plain number

  /// What was found, as the type that has just what exists.
  [[nodiscard]] Part part() const;

  /// Warns of a service link in the place of a port, and names the port that is used instead.
  void warn_of_links_as_port();

  /// Writes numbers without leading zeros: a shell's arithmetic takes 010 for 8, and 08 for a mistake.
  void normalise();

  /// Takes each fact from the claim that wins.
  void take_winners();

  /// Takes RANK and WORLD_SIZE where they count, and compares them where they do not.
  void take_ranks();

  /// The user says that there is one node, which settles all else: another number, another master, a role
  /// that waits for other nodes.
  void become_alone();

  void note_unused();

  // ---- topology.cpp: questions of the other files

  /// With such a platform RANK and WORLD_SIZE may count anything: training-operator from 1.7 on counts
  /// processes in them, and all pods if PET_NNODES does not include the master.
  [[nodiscard]] bool platform_sets_all() const;

  /// The platform has its own variables for the nodes. If they are not set, that is the fault, and RANK is no
  /// substitute.
  [[nodiscard]] bool platform_has_words() const;

  /// If so, RANK and WORLD_SIZE add nothing, whatever they count.
  [[nodiscard]] bool user_sets_numbers() const;

  /// The user says outright that there is only this node.
  [[nodiscard]] bool user_says_alone() const;

  /// A platform was recognised, not only generic names.
  [[nodiscard]] bool has_own_words() const;

  /// Why the platform was recognised, for messages; empty if it is no profile's.
  [[nodiscard]] platform::Causes causes() const;

  /// Only generic names were recognised.
  [[nodiscard]] bool is_mere_names() const;

  [[nodiscard]] bool platform_is_elastic() const;

  /// Decides whether this is a process that something (DeepSpeed, Ray Train) has started, and not a node's
  /// launcher. Adds a fault if that cannot be told, and a warning if LOCAL_RANK is left over.
  void recognise_started_process();

  /// RANK and its like, without a LOCAL_RANK that is left over.
  [[nodiscard]] RankVariables rank_variables() const;

  /// A process that MPI has started is the node's launcher if it is the only one on its node: its rank is the
  /// node's.
  void become_launcher();

  // ---- missing.cpp

  /// Why the platform does not provide a fact.
  struct Missing {
    std::string why;     ///< ": LIST=[] is no list of hosts; A and B are not set", for the end of a sentence
    std::string remedy;  ///< "correct LIST, or ", for the start of a fix
    std::string unset;   ///< "A or B": the variables that would provide it
    bool is_expected = false;  ///< not only near misses: a source that should provide it does not
  };
  /// Appends the names of the variables and files that would provide it.
  Missing missing(Fact fact, std::vector<std::string>& names) const;

  // ---- node.cpp: one launcher per node

  void complete_node();

  /// nnodes is "N" or "MIN:MAX"; decides whether the job is elastic. Returns false if it is invalid.
  bool check_nnodes();

  /// A torchrun on a single node that makes its rendezvous itself (--standalone, c10d without an endpoint)
  /// needs none from rankshim.
  void leave_own_rendezvous();

  /// torchrun's static rendezvous is at --rdzv_endpoint if that is given (torch/distributed/run.py,
  /// get_rdzv_endpoint, and elastic/rendezvous/static_tcp_rendezvous.py).
  void use_static_endpoint();

  /// Whether something indicates other nodes although their number is not known; if so, adds a fault about
  /// what is missing.
  bool shows_others();

  /// Whether a platform with its own variable for the number of nodes did not set it: guessing one node would
  /// be wrong.
  bool platform_lacks_nnodes();

  // ---- alone.cpp

  /// Weighs all that speaks against one node, unless the user says outright that there is one. What is known
  /// to mean other nodes is a fault; what only looks like a job of several is a warning, with --strict a
  /// fault. Variables that are only empty are always just a warning.
  void weigh_alone();

  /// What cannot be true if this node is alone, each with its variables and files.
  [[nodiscard]] std::vector<std::pair<std::string, std::vector<std::string>>> proofs_of_others() const;

  /// Variables of no recognised profile that look like a job of several nodes.
  [[nodiscard]] std::vector<std::string> unknown_signs() const;

  /// Whether the host is this node, by its name or one of its addresses.
  [[nodiscard]] bool is_this_node(std::string_view host) const;

  // ---- node.cpp again

  void complete_single();
  void complete_static();
  void complete_elastic();
  void check_elastic_rank();

  /// The store of c10d is at the endpoint: node 0 if there are ranks, else the node whose name or address it
  /// is.
  void decide_elastic_host();

  /// Whether node 0 is another host than the endpoint's: an elastic PyTorchJob with a master gives the master
  /// rank 0, but meets at its first worker (kubeflow/trainer@v1.9.4:pkg/controller.v1/pytorch/elastic.go).
  [[nodiscard]] bool rank_0_is_elsewhere(std::string_view endpoint) const;

  /// Checks that a node that is not the master does not have its loopback address as the master's.
  void check_loopback();

  /// Returns false, after a fault, if no host can have that name. Removes the brackets of an address.
  bool check_master_addr();

  // ---- process.cpp: processes that exist already

  void complete_process();
  void check_below(Fact smaller, Fact larger);

  /// Checks the number of processes on this node; returns false, after a fault, if it cannot be true.
  bool check_local_size();

  // ---- defaults.cpp: what follows from the rest

  /// "auto", "gpu" and "cpu" become numbers.
  void complete_nproc();

  /// For a node that is only described: its devices cannot be counted here.
  void check_nproc(const Value& nproc, const std::optional<DeviceCount>& visible);
  /// Takes a fact that nothing else gives from a launcher's flag, if that is a variable.
  void take_flag(Fact wanted);
  void complete_torchruns();

  /// A job that is started again must not meet what is left of the one before: the attempt is part of the run
  /// id, and so of the default port, unless the user has set the run id.
  void complete_run_id();

  /// Returns false, after a fault, if the port is invalid.
  bool check_port();
  void complete_port();
  /// Warns of variables that may have been meant for this one, whose default is used.
  void warn_of_near_misses(std::string_view variable);

  const Settings& settings_;
  const platform::Platform& platform_;
  const Node& node_;
  const LauncherFlags* torchrun_ = nullptr;  ///< null once the granularity is known to be process
  Claims claims_;
  bool reads_variables_ = true;
  bool is_started_process_ = false;
  bool ignores_local_rank_ = false;  ///< it is left over
  bool names_job_ = false;           ///< the run id is the user's or the platform's
  platform::Granularity granularity_ = platform::Granularity::node;
  std::optional<platform::State> idle_;
  bool is_alone_ = false, is_alone_by_user_ = false, is_elastic_ = false;
  std::optional<bool> hosts_master_;
  Topology topology_;
  Faults faults_;
};

}  // namespace rankshim
