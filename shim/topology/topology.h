#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fact.h"
#include "base/fault.h"
#include "node/node.h"
#include "platform/profile.h"
#include "platform/recognise.h"
#include "settings/settings.h"
#include "topology/launcher_flags.h"

namespace rankshim {

/// This node's part in the job: facts that were checked and can be true together, each with its source.
struct Topology {
  std::string platform;
  platform::Granularity granularity = platform::Granularity::node;
  Facts facts;
  /// There are no other nodes, so there is nothing to wait for.
  bool alone = false;
  /// The user says so, whatever the platform's RANK and WORLD_SIZE are: those are another job's.
  bool alone_by_user = false;
  /// The number of nodes is MIN:MAX, or the rendezvous is not static: torch assigns the ranks.
  bool elastic = false;
  /// Whether the master listens on this node; nothing if that is known only once the master's name resolves.
  std::optional<bool> host;
  /// Why nothing trains in this container ("MPI launcher"); empty if it trains.
  std::string idle_role;
  std::string idle_because;               ///< the variables that show it
  std::string idle_fix;                   ///< what the platform's user does instead; empty if unknown
  std::vector<std::string> idle_names;    ///< the variables and files
  std::vector<std::string> also_matched;  ///< other platforms that were recognised, the most specific first
  std::vector<std::string> warnings;
  /// What was said otherwise, and is not used.
  std::vector<std::pair<Fact, Value>> unused;

  [[nodiscard]] unsigned number(Fact fact) const;  ///< 0 if it is absent or no plain number
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
