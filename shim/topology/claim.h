#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fact.h"
#include "base/fault.h"
#include "platform/recognise.h"
#include "settings/settings.h"

namespace rankshim::topology {

/// A part of a sentence, with the variables, options and files that it names.
struct Phrase {
  std::string text;
  std::vector<std::string> names;

  Phrase(std::string words, std::vector<std::string> named = {})
      : text(std::move(words)), names(std::move(named)) {}
  Phrase(const char* words) : text(words) {}
  Phrase& operator+=(const Phrase& more);
  /// Appends `more`, after a comma if there is text before it.
  Phrase& list(const Phrase& more) { return *this += (text.empty() ? "" : ", ") + more; }
  friend Phrase operator+(Phrase left, const Phrase& right) { return std::move(left += right); }
};

/// A fact with its value and source: "NODE_RANK=1".
Phrase said(Fact fact, const Value& value);

/// Makes a fault. All faults of this folder are made here.
Fault fault(ErrorCode error_code, Phrase what, std::string fix);

/// The start of a fix: "correct A" if only A is named, else "correct one of them".
std::string correct(const Phrase& what);

/// The ends of fixes: what settles the number of nodes, all of a node's numbers, and one fact ("settle it
/// with --nnodes …").
constexpr const char* settle_nodes =
    "describe this node with --nnodes and --node-rank (RANKSHIM_NNODES, RANKSHIM_NODE_RANK)";
constexpr const char* settle_node =
    "describe this node with --nnodes, --node-rank and --master-addr (RANKSHIM_NNODES, RANKSHIM_NODE_RANK, "
    "RANKSHIM_MASTER_ADDR)";
std::string settle(Fact fact);

/// The topology according to the flags of a command that is itself a launcher.
struct LauncherFlags {
  /// Each option is named as in the command, "torchrun --nnodes". For a launcher that meets no other node,
  /// this has nnodes 1 and nothing else about the rendezvous.
  Facts facts;
  bool meets_itself = false;  ///< its rendezvous is for one node only
};

/// The fault if a flag of torchrun contradicts a variable.
Fault flag_contradicts(Fact fact, const Value& flag, const Phrase& other);

/// Who makes a claim. Earlier ones win, except where decide() says otherwise.
enum class Source : std::uint8_t {
  flag,      ///< a flag of the command, if it is torchrun
  user,      ///< an option, RANKSHIM_* or the configuration file
  platform,  ///< the most specific profile that was recognised
  generic,   ///< names that anyone may set: NNODES, NODE_RANK, MASTER_ADDR, …
  torchrun,  ///< torchrun's flags as variables, PET_*, besides a platform
  part,      ///< a part of a job that says nothing about the rest of it (ProfileKind::part)
  other,     ///< another profile that was recognised too; compared, but never used
};

/// What one source says about one fact.
struct Claim {
  Fact fact = Fact::nnodes;
  Source source = Source::user;
  Value value;
  std::string_view by;  ///< the profile's name, for `platform`, `part` and `other`
};

using Claims = std::vector<Claim>;

/// Collects everything that is said about this node. `torchrun` is null if the command is not torchrun.
Claims collect_claims(const settings::Settings& settings, const platform::Platform& platform,
                      const LauncherFlags* torchrun);

/// What the decision depends on besides the claims themselves.
struct Circumstances {
  bool elastic = false;          ///< the platform's job has a rendezvous endpoint
  bool started_process = false;  ///< something started this process, and set MASTER_ADDR for it
  bool settled_by_user = false;  ///< the user set the node's numbers: platforms need not agree on them
};

struct Decision {
  const Claim* winner = nullptr;  ///< one of the claims; null if nobody says anything
  Faults faults;                  ///< contradictions
  std::vector<std::string> warnings;
};

/// Decides who wins, and what happens to each claim that says something else, by the table in claim.cpp.
/// Pure.
Decision decide(Fact fact, std::span<const Claim> claims, const Circumstances& circumstances);

/// Whether two texts mean the same value of a fact: 02 is 2, and a host can be spelt in several ways.
bool same_value(Fact fact, std::string_view a, std::string_view b);

}  // namespace rankshim::topology
