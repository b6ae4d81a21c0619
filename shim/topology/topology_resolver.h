#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "topology/topology.h"

namespace rankshim {

/// What settles the place of a process whose platform's own variables cannot be used, for the end of a fix.
constexpr const char* settle_process =
    "set RANK, WORLD_SIZE and LOCAL_RANK with --platform=generic (RANKSHIM_PLATFORM)";

/// What settles numbers of nodes that cannot go together.
constexpr const char* settle_place =
    "correct one of them, or settle it with --nnodes and --node-rank (RANKSHIM_NNODES, RANKSHIM_NODE_RANK)";

/// What settles a node's place altogether, and that of one of an elastic job.
constexpr const char* settle_node =
    "describe this node with --nnodes, --node-rank and --master-addr (RANKSHIM_NNODES, …)";
constexpr const char* settle_elastic =
    "give the rendezvous with --nnodes, --rdzv-backend and --rdzv-endpoint (RANKSHIM_NNODES, …)";

/// The option that says a fact: "--nnodes".
std::string option_for(Fact fact);

/// The variable that a user would set for a fact.
std::string variable_for(Fact fact);

/// Whether two texts say the same of a fact: 02 is 2, and a host has several spellings.
bool same_value(Fact fact, std::string_view a, std::string_view b);

/// What a fault names for a value: the variable, option or file that it comes from.
std::string name_of(Fact fact, const Value& value);

/// A decimal number from 1 to 65535.
bool is_port(std::string_view text);

/// One resolving: what the user, the platform and the generic variables say becomes a topology, or faults.
/// Each file has its part here: topology.cpp (the order of all), precedence.cpp, missing.cpp, node.cpp,
/// process.cpp, defaults.cpp.
class TopologyResolver {
 public:
  /// What it is given has to outlive it; parameters as of resolve_topology.
  TopologyResolver(const Settings& settings, const platform::Platform& platform, const Node& node,
                   const LauncherFlags* torchrun);

  /// Once only.
  Outcome<Topology> resolve();

 private:
  Facts& facts() { return topology_.facts; }
  std::optional<Value>& fact(Fact fact) { return topology_.facts[fact]; }

  /// A name may be that of all that a value was derived from, by comma: each is one of its own.
  void fault(std::string what, const std::vector<std::string>& names, std::string fix);

  /// torchrun's own names, set by hand beside a platform's, say what nobody else does; but not of an elastic
  /// job.
  void add_torchrun_facts();

  /// A service link looks like the port that somebody set; which one counts instead is no secret.
  void tell_port_beside_links();

  /// Numbers without leading zeros: a shell's arithmetic takes 010 for 8, and 08 for a mistake.
  void normalise();

  // ---- precedence.cpp: who wins

  /// Takes the fact from who comes first: the user's option, the platform, the generic variables.
  void choose(Fact wanted);

  /// Takes the fact from torchrun's own flags, for the command is torchrun; false where they do not say it.
  /// Whatever else says another thing is a fault: torchrun would have taken its flag.
  bool choose_from_torchrun(Fact wanted);

  /// Whether the job can be as torchrun's flag says and as `other` says.
  [[nodiscard]] bool agrees(Fact fact, const Value& flag, const Value& other) const;

  // ---- topology.cpp: what the rest of it asks

  /// A platform that says the nodes in words of its own may count anything in RANK and WORLD_SIZE:
  /// training-operator from 1.7 on has processes there, and all pods where PET_NNODES leaves the master out.
  [[nodiscard]] bool platform_says_all() const;

  /// It has words of its own for the nodes: if they are not there, that is what is wrong, and RANK is no
  /// substitute.
  [[nodiscard]] bool platform_has_words() const;

  /// Then RANK and WORLD_SIZE have nothing to add, whatever they count.
  [[nodiscard]] bool user_says_place() const;

  /// A platform was recognised, not only names that anybody may set.
  [[nodiscard]] bool has_own_words() const;

  /// What was recognised are generic names.
  [[nodiscard]] bool is_mere_names() const;

  [[nodiscard]] bool platform_is_elastic() const;

  /// RANK, WORLD_SIZE and LOCAL_RANK are all there, and can be true beside the platform's nodes: a process
  /// that something (DeepSpeed, Ray Train) has started there, and no node's launcher.
  [[nodiscard]] bool is_started_process() const;

  /// What MPI has started is the node's launcher where it is the only one on its node: its rank is the
  /// node's.
  void become_launcher();

  // ---- missing.cpp

  /// Why the platform does not say a fact.
  struct Missing {
    std::string why;     ///< ": LIST=[] is no list of hosts; A and B are not set", for the end of a sentence
    std::string remedy;  ///< "correct LIST, or ", for the start of a fix
    std::string unset;   ///< "A or B", what would say it
    bool is_expected = false;  ///< there is more than near misses: something that should say it does not
  };
  /// Appends the names of the variables and files that would say it.
  Missing missing(Fact fact, std::vector<std::string>& names) const;

  // ---- node.cpp: one launcher per node

  void complete_node();

  /// nnodes is "N" or "MIN:MAX"; decides whether the job is elastic. False where it makes no sense.
  bool check_nnodes();

  /// A lone torchrun with a rendezvous of its own (--standalone, c10d without an endpoint) needs none from
  /// us.
  void leave_own_rendezvous();

  /// torchrun's static rendezvous is at --rdzv_endpoint, where that is given (torch/distributed/run.py,
  /// get_rdzv_endpoint, and elastic/rendezvous/static_tcp_rendezvous.py).
  void use_static_endpoint();

  /// Whether something says that there are other nodes though their number is not known; then says what is
  /// missing.
  bool says_others();

  /// A platform that says how many nodes there are in words of its own, and did not: one node is no guess to
  /// make.
  bool platform_lacks_nnodes();

  /// A node that is alone because nothing that is known says otherwise: what looks like a job of several
  /// nodes all the same is a warning, with --strict a fault; variables that are only empty stay a warning.
  void check_unknown_platform();

  void complete_single();
  void complete_static();
  void complete_elastic();
  void check_elastic_rank();

  /// The store of c10d is at the endpoint: node 0 where there are ranks, else the node whose name or address
  /// that is.
  void decide_elastic_host();

  /// Whether node 0 is told to be another host than the endpoint's: an elastic PyTorchJob with a master gives
  /// it rank 0, but meets at its first worker (kubeflow/trainer@v1.9.4:pkg/controller.v1/pytorch/elastic.go).
  [[nodiscard]] bool rank_0_is_elsewhere(std::string_view endpoint) const;

  /// A node that is not the master cannot reach it at its own loopback.
  void check_loopback();

  /// False where nothing can be of that name; then says so. An address loses its brackets.
  bool check_master_addr();

  // ---- process.cpp: processes that exist already

  void complete_process();
  void check_below(Fact smaller, Fact larger);

  /// Whether as many processes on this node can be true; says so where they cannot.
  bool check_local_size();

  // ---- defaults.cpp: what follows from the rest

  /// "auto", "gpu" and "cpu" become numbers.
  void complete_nproc();

  /// A node that is only described: its devices cannot be counted here.
  void complete_nproc_elsewhere();
  void check_nproc(const Value& nproc, const std::optional<DeviceCount>& visible);
  void complete_restarts();

  /// A job that is started anew must not meet what is left of the one before: the attempt is part of the run
  /// id, and so of the default port, unless the user has said the run id.
  void complete_run_id();
  void find_run_id();

  /// False where the port is no port; then says so.
  bool check_port();
  void complete_port();

  const Settings& settings_;
  const platform::Platform& platform_;
  const Node& node_;
  Facts generic_;
  const LauncherFlags* torchrun_ = nullptr;  ///< null once the granularity is known to be process
  bool reads_variables_ = true;
  bool is_started_process_ = false;
  Topology topology_;
  Faults faults_;
};

}  // namespace rankshim
