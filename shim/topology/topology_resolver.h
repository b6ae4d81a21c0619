#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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

/// The option for a fact: "--nnodes".
std::string option_for(Fact fact);

/// The variable that a user would set for a fact.
std::string variable_for(Fact fact);

/// Whether two texts mean the same value of a fact: 02 is 2, and a host has several spellings.
bool same_value(Fact fact, std::string_view a, std::string_view b);

/// The source of a value as a fault names it: the variable, option or file.
std::string name_of(Fact fact, const Value& value);

/// A decimal number from 1 to 65535.
bool is_port(std::string_view text);

/// One resolution: the values of the user, the platform and the generic variables become a topology or
/// faults. Each file has its part: topology.cpp (the order of steps), precedence.cpp, missing.cpp, node.cpp,
/// process.cpp, defaults.cpp.
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

  /// torchrun's variables that were set by hand beside a platform's provide facts that are otherwise unknown,
  /// but not for an elastic job.
  void add_torchrun_facts();

  /// Warns of a service link in the place of a port, and names the port that is used instead.
  void warn_of_links_as_port();

  /// Writes numbers without leading zeros: a shell's arithmetic takes 010 for 8, and 08 for a mistake.
  void normalise();

  // ---- precedence.cpp: which source wins

  /// Takes the fact from the first source that has it: the user's option, the platform, the generic
  /// variables.
  void choose(Fact wanted);

  /// Takes the fact from torchrun's flags, because the command is torchrun. Returns false if they do not set
  /// it. Any other source with a different value is a fault: torchrun would have used its flag.
  bool choose_from_torchrun(Fact wanted);

  /// Whether torchrun's flag and `other` can both be true.
  [[nodiscard]] bool agrees(Fact fact, const Value& flag, const Value& other) const;

  // ---- topology.cpp: questions of the other files

  /// With such a platform RANK and WORLD_SIZE may count anything: training-operator from 1.7 on counts
  /// processes in them, and all pods if PET_NNODES does not include the master.
  [[nodiscard]] bool platform_sets_all() const;

  /// The platform has its own variables for the nodes. If they are not set, that is the fault, and RANK is no
  /// substitute.
  [[nodiscard]] bool platform_has_words() const;

  /// If so, RANK and WORLD_SIZE add nothing, whatever they count.
  [[nodiscard]] bool user_sets_numbers() const;

  /// A platform was recognised, not only generic names.
  [[nodiscard]] bool has_own_words() const;

  /// Why the platform was recognised, for messages; empty if it is no profile's.
  [[nodiscard]] platform::Causes causes() const;

  /// Only generic names were recognised.
  [[nodiscard]] bool is_mere_names() const;

  [[nodiscard]] bool platform_is_elastic() const;

  /// Whether RANK, WORLD_SIZE and LOCAL_RANK are all set and agree with the platform's nodes: this is a
  /// process that something (DeepSpeed, Ray Train) has started, and not a node's launcher.
  [[nodiscard]] bool is_started_process() const;

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

  /// Handles a node that is alone because nothing known indicates otherwise. If its variables still look like
  /// a job of several nodes, that is a warning, with --strict a fault; variables that are only empty are
  /// always just a warning.
  void check_unknown_platform();

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
  void find_run_id();

  /// Returns false, after a fault, if the port is invalid.
  bool check_port();
  void complete_port();
  /// Warns of variables that may have been meant for this one, whose default is used.
  void warn_of_near_misses(std::string_view variable);

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
