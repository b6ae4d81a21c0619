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
#include "node/node.h"
#include "platform/recognise.h"
#include "settings/settings.h"
#include "topology/claim.h"

namespace rankshim {

/// Where the job meets: the host without brackets, and the port of torch's store.
struct Master {
  std::string host;
  std::uint16_t port = 0;

  [[nodiscard]] std::string text() const;  ///< "host:29500", "[::1]:29500"
};

/// There are no other nodes, so there is nothing to wait for.
struct LoneNode {
  Master master;
  unsigned workers = 1;
  unsigned max_restarts = 0;
  /// The user says so, whatever the platform's RANK and WORLD_SIZE are: those are another job's.
  bool by_user = false;
};

/// One of two or more nodes, each with its number.
struct StaticNode {
  std::optional<Master> master;  ///< nothing: the command asks the platform for it
  unsigned nodes = 2;
  unsigned rank = 0;
  unsigned workers = 1;
  unsigned max_restarts = 0;
  /// Told by linked nodes, which may have different numbers of workers.
  struct Ranks {
    unsigned first = 0;  ///< of this node's workers
    unsigned world_size = 1;
  };
  std::optional<Ranks> told;

  [[nodiscard]] unsigned first_rank() const { return told ? told->first : rank * workers; }
  [[nodiscard]] unsigned world_size() const { return told ? told->world_size : nodes * workers; }
};

/// The number of nodes is MIN:MAX, or the rendezvous is not static: torch assigns the ranks.
struct ElasticNode {
  Master master;  ///< the endpoint
  std::string backend;
  unsigned least = 1, most = 1;  ///< MIN and MAX
  std::optional<unsigned> rank;  ///< the platform's
  /// Whether c10d's store is on this node; nothing if that is known only once the endpoint's name resolves.
  std::optional<bool> hosts_master;
  unsigned workers = 1;
  unsigned max_restarts = 0;
};

/// A worker that something else (mpirun, srun, DeepSpeed) has started.
struct CreatedProcess {
  Master master;
  unsigned rank = 0, world_size = 1, local_rank = 0;
  std::optional<unsigned> local_world_size, nodes, node_rank;
};

/// Nothing trains in this container: its role ("MPI launcher"), and why.
struct Idle : platform::State {};

using Part = std::variant<LoneNode, StaticNode, ElasticNode, CreatedProcess, Idle>;

/// This node's part in the job, checked: all of it can be true together.
struct Topology {
  std::string platform;
  Part part;
  /// The same as it was said, each with its source, and what else is known: for `explain`, the environment
  /// and torchrun's flags.
  Facts facts;
  std::vector<std::string> also_matched;  ///< other platforms that were recognised, the most specific first
  std::vector<std::string> warnings;
  /// What was said otherwise, and is not used.
  std::vector<std::pair<Fact, Value>> unused;

  template <class Kind>
  [[nodiscard]] const Kind* as() const {
    return std::get_if<Kind>(&part);
  }
  template <class Kind>
  [[nodiscard]] bool is() const {
    return std::holds_alternative<Kind>(part);
  }

  /// This is a lone node, or the only process.
  [[nodiscard]] bool is_alone() const;
  /// This is a node, and there are others.
  [[nodiscard]] bool has_other_nodes() const { return is<StaticNode>() || is<ElasticNode>(); }
  /// Whether the master listens on this node; nothing if that is not known yet, or nothing trains here.
  [[nodiscard]] std::optional<bool> hosts_master() const;
  [[nodiscard]] const Master* master() const;  ///< nullptr if it is not known, or nothing trains here
  [[nodiscard]] unsigned workers() const;      ///< on this node; 0 if that is not known
  [[nodiscard]] unsigned max_restarts() const;
  [[nodiscard]] std::optional<unsigned> node_rank() const;
  [[nodiscard]] std::optional<unsigned> nodes() const;  ///< nothing if that is not known or not fixed
};

/// Combines the values of the user, the platform and generic variables, finds contradictions and missing
/// facts, and derives the rest. `torchrun` is set if the command is torchrun: its flags, which nothing else
/// may contradict; otherwise it is null.
Outcome<Topology> resolve_topology(const Settings& settings, const platform::Platform& platform,
                                   const Node& node, const LauncherFlags* torchrun = nullptr);

/// The default port, which is the same on all nodes and in all versions: 20000 + CRC-32 (IEEE 802.3, as in
/// zlib) of the run id mod 10000.
std::uint16_t default_port(std::string_view run_id);

/// A decimal number without sign, at most 1,000,000,000; otherwise nothing.
std::optional<unsigned> parse_count(std::string_view text);

/// Whether the host is localhost or a name like it, or an unspecified address, which as a destination is this
/// host too (ip(7), RFC 4291 2.5.2). False for 127.0.0.1.
bool is_localhost_name(std::string_view host);

/// Whether the text can be a host's name or address (possibly with a zone, RFC 4007 11).
bool is_host(std::string_view text);

/// A literal IPv4 or IPv6 address, with or without brackets.
bool is_literal(std::string_view host);

/// A literal loopback address or a localhost name.
bool is_loopback(std::string_view host);

/// Whether two texts name one host, ignoring letter case, a trailing dot, brackets and the domain.
bool same_host(std::string_view a, std::string_view b);

}  // namespace rankshim
