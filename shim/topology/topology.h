#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fact.h"
#include "base/fault.h"
#include "node/node.h"
#include "platform/profile.h"
#include "platform/recognise.h"
#include "settings/settings.h"
#include "topology/launcher_flags.h"

namespace rankshim {

/// This node's place in the job: facts that were checked and can be true together, each with its source.
struct Topology {
  std::string platform;
  platform::Granularity granularity = platform::Granularity::node;
  Facts facts;
  /// There are no other nodes: nobody has to be waited for.
  bool alone = false;
  /// MIN:MAX nodes, or a rendezvous that is not static: ranks are given out by torch.
  bool elastic = false;
  /// This node is where the master listens; nothing where that shows only once the master's name resolves.
  std::optional<bool> host;
  /// Why nothing trains in this container ("MPI launcher"); empty where it does.
  std::string idle_role;
  std::string idle_because;               ///< the variables that say so
  std::string idle_fix;                   ///< what the platform's user does instead; empty where nobody knows
  std::vector<std::string> idle_names;    ///< the variables and files
  std::vector<std::string> also_matched;  ///< other platforms that were recognised, the most specific first
  std::vector<std::string> warnings;

  [[nodiscard]] unsigned number(Fact fact) const;  ///< 0 where it is absent or no plain number
};

/// Puts together what the user, the platform and generic variables say; finds contradictions and what is
/// missing; fills in what follows. `torchrun`: the command is torchrun with these flags, which nothing else
/// may contradict; null where it is not.
Outcome<Topology> resolve_topology(const Settings& settings, const platform::Platform& platform,
                                   const Node& node, const LauncherFlags* torchrun = nullptr);

/// The port where none is given: the same on all nodes, for ever. 20000 + CRC-32 (IEEE 802.3, as in zlib) of
/// the run id mod 10000.
std::uint16_t default_port(std::string_view run_id);

/// A decimal number without sign, at most 1,000,000,000; nothing otherwise.
std::optional<unsigned> parse_count(std::string_view text);

/// localhost and its like by name, or an unspecified address, which as a destination is this host too (ip(7),
/// RFC 4291 2.5.2); not 127.0.0.1.
bool is_localhost_name(std::string_view host);

/// Whether a host can be of that name, or have that address (with a zone perhaps, RFC 4007 11).
bool is_host(std::string_view text);

/// A literal IPv4 or IPv6 address, with or without brackets.
bool is_literal(std::string_view host);

/// A literal loopback address or a localhost name.
bool is_loopback(std::string_view host);

/// Whether two texts name one host: letter case, a trailing dot, brackets and a name with and without its
/// domain aside.
bool same_host(std::string_view a, std::string_view b);

}  // namespace rankshim
