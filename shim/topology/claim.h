#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/fact.h"
#include "base/fault.h"
#include "platform/recognise.h"
#include "settings/settings.h"

namespace rankshim {

/// The topology according to the flags of a command that is a launcher itself.
struct LauncherFlags {
  /// Each option is named as it is in the command, "torchrun --nnodes". For a launcher that meets no other
  /// node this has nnodes 1 and nothing else about the rendezvous.
  Facts facts;
  bool meets_itself = false;  ///< it makes a rendezvous for one node
  bool names_nnodes = false;  ///< by the flag for that, not by one that implies 1 (--standalone)
};

/// The fault of a flag ("torchrun --nnodes=1") that cannot be true together with `other` ("PET_NNODES=2"),
/// whose name is `name`.
Fault flag_contradicts(const std::string& flag, const std::string& other, const std::string& name);

/// Who makes a claim. The order is that in which they win, except where decide() says otherwise.
enum class Source : std::uint8_t {
  flag,      ///< a flag of the command, which is torchrun itself
  user,      ///< an option, RANKSHIM_* or the configuration file
  platform,  ///< the most specific profile that was recognised
  generic,   ///< names that anyone may set: NNODES, NODE_RANK, MASTER_ADDR, …
  torchrun,  ///< torchrun's flags as variables, PET_*, beside a platform
  part,      ///< a part of a job that says nothing about the rest of it (ProfileKind::part)
  other,     ///< another profile that was recognised too; it is compared, and never used
};

/// What one source says about one fact.
struct Claim {
  Fact fact = Fact::nnodes;
  Source source = Source::user;
  Value value;
  std::string_view by;  ///< the profile's name, of `platform`, `part` and `other`
};

using Claims = std::vector<Claim>;

/// All that is said about this node, side by side. `torchrun` is null if the command is not torchrun.
Claims collect_claims(const Settings& settings, const platform::Platform& platform,
                      const LauncherFlags* torchrun);

/// What decides beside the claims themselves.
struct Circumstances {
  bool elastic = false;          ///< the platform's job meets at an endpoint
  bool started_process = false;  ///< something has started this process, and has set MASTER_ADDR for it
  bool names_nnodes = true;      ///< torchrun's flag for nnodes is --nnodes, and not one that implies it
  bool settled_by_user = false;  ///< the user has set the node's numbers: platforms need not agree on them
};

struct Decision {
  const Claim* winner = nullptr;  ///< one of the claims; nullptr if nobody says anything
  Faults faults;                  ///< contradictions
  std::vector<std::string> warnings;
};

/// Who wins, and what becomes of each claim that says something else: claim.cpp has the table. A pure
/// function.
Decision decide(Fact fact, std::span<const Claim> claims, const Circumstances& circumstances);

/// Whether two texts mean the same value of a fact: 02 is 2, and a host has several spellings.
bool same_value(Fact fact, std::string_view a, std::string_view b);

/// The source of a value as a fault names it: the variable, option or file.
std::string name_of(Fact fact, const Value& value);

/// What a user does to decide a fact: "settle it with --nnodes (RANKSHIM_NNODES)".
std::string settle(Fact fact);

}  // namespace rankshim
