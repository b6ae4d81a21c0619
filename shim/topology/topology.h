#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/fact.h"
#include "base/fault.h"
#include "node/host.h"
#include "platform/recognise.h"
#include "settings/settings.h"
#include "topology/claim.h"
#include "topology/ranks.h"

namespace rankshim::topology {

/// Where the nodes meet: the host without brackets, and the port of torch's store.
struct Master {
  std::string host;
  std::uint16_t port = 0;

  [[nodiscard]] std::string text() const;  ///< "host:29500", "[::1]:29500"
};

/// The only node of its job, with nothing to wait for.
struct LoneNode {
  /// The user says so. The platform's RANK and WORLD_SIZE, if any, are then another job's.
  bool by_user = false;
};

/// One of two or more nodes, each with its own rank.
struct StaticNode {
  unsigned nodes = 2;
  unsigned rank = 0;
  unsigned workers = 1;
  unsigned max_restarts = 0;
  /// What linked nodes agree on; they may have different numbers of workers.
  struct Ranks {
    unsigned first = 0;  ///< of this node's workers
    unsigned world_size = 1;
  };
  std::optional<Ranks> told;
  /// In a job with spares (--spares): this node's index among all of the platform's nodes, and how many there
  /// are. From the launch on, `rank` and `nodes` are those of the job.
  struct Member {
    unsigned index = 0;
    unsigned nodes = 0;
    Master master;  ///< where node 0 is; another node may have taken over from it
  };
  std::optional<Member> member;

  [[nodiscard]] unsigned first_rank() const { return told ? told->first : rank * workers; }
  [[nodiscard]] unsigned world_size() const { return told ? told->world_size : nodes * workers; }
};

/// A node of a job whose number of nodes is MIN:MAX, or whose rendezvous is not static: torch assigns the
/// ranks.
struct ElasticNode {
  std::string backend;
  unsigned least = 1, most = 1;  ///< MIN and MAX
  /// Whether c10d's store is on this node; nullopt if that is known only once the endpoint's name resolves.
  std::optional<bool> hosts_master;
};

/// A worker that something else (mpirun, srun, DeepSpeed) started.
struct CreatedProcess {
  unsigned rank = 0, world_size = 1, local_rank = 0;
};

/// A container in which nothing trains: its role ("MPI launcher"), and why.
struct Idle : platform::State {};

using Part = std::variant<LoneNode, StaticNode, ElasticNode, CreatedProcess, Idle>;

/// This node's part in the job, checked for contradictions.
struct Topology {
  platform::PlatformId platform;
  Part part;
  /// Where the nodes meet; nullopt if the command asks the platform for it, or nothing trains here.
  std::optional<Master> meeting;
  /// What is known, each fact with its source.
  Facts facts;
  RankVariables ranks;                    ///< RANK, WORLD_SIZE and the like, as the environment has them
  std::vector<std::string> also_matched;  ///< other platforms that were recognised, most specific first
  std::vector<std::string> warnings;
  /// Values that differ from the facts, and are not used.
  std::vector<std::pair<Fact, Value>> unused;

  template <class Kind>
  [[nodiscard]] const Kind* as() const {
    return std::get_if<Kind>(&part);
  }
  template <class Kind>
  [[nodiscard]] bool is() const {
    return std::holds_alternative<Kind>(part);
  }

  /// Whether this is a lone node, or the only process.
  [[nodiscard]] bool is_alone() const;
  /// Whether this is a node, and there are others.
  [[nodiscard]] bool has_other_nodes() const { return is<StaticNode>() || is<ElasticNode>(); }
  /// Whether the master listens on this node; nullopt if that is not known yet, or nothing trains here.
  [[nodiscard]] std::optional<bool> hosts_master() const;
  [[nodiscard]] const Master* master() const { return meeting ? &*meeting : nullptr; }
  /// A fact as a number; nullopt if it is unknown or not fixed, or nothing trains here.
  [[nodiscard]] std::optional<unsigned> number(Fact fact) const;
  [[nodiscard]] std::optional<unsigned> node_rank() const { return number(Fact::node_rank); }
  [[nodiscard]] std::optional<unsigned> nodes() const { return number(Fact::nnodes); }
  /// The number of workers on this node; 0 if unknown.
  [[nodiscard]] unsigned workers() const {
    return number(is<CreatedProcess>() ? Fact::local_world_size : Fact::nproc_per_node).value_or(0);
  }
  /// The restart limit of torchrun or the native launcher; 0 for a process that exists already.
  [[nodiscard]] unsigned max_restarts() const {
    return is<CreatedProcess>() ? 0 : number(Fact::max_restarts).value_or(0);
  }
};

/// Combines the values of the user, the platform and generic variables, finds contradictions and missing
/// facts, and derives the rest. `torchrun` has the flags if the command is torchrun; nothing may contradict
/// them.
Outcome<Topology> resolve_topology(const settings::Settings& settings, const platform::Platform& platform,
                                   const node::Host& host, const LauncherFlags* torchrun = nullptr);

/// The default port of a job, the same on all nodes and in all versions: 20000 + CRC-32 (IEEE 802.3, as in
/// zlib) of the run id mod 10000.
std::uint16_t default_port(std::string_view run_id);

/// Parses an unsigned decimal number up to 1,000,000,000; nullopt for anything else.
std::optional<unsigned> parse_count(std::string_view text);

/// Whether the host is localhost or a similar name, or an unspecified address, which as a destination also
/// means this host (ip(7), RFC 4291 2.5.2). False for 127.0.0.1.
bool is_localhost_name(std::string_view host);

/// Whether the text can be a host's name or address (possibly with a zone, RFC 4007 11). Rejects "None",
/// "null" and "nil", which programs write for a missing text.
bool is_host(std::string_view text);

/// Whether the host is a literal IPv4 or IPv6 address, with or without brackets.
bool is_literal(std::string_view host);

/// Whether the host is a literal loopback address or a localhost name.
bool is_loopback(std::string_view host);

/// Whether two texts name one host, ignoring letter case, a trailing dot, brackets and the domain.
bool same_host(std::string_view a, std::string_view b);

}  // namespace rankshim::topology
