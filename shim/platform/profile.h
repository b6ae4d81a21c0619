#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/fact.h"
#include "base/fault.h"
#include "platform/expression.h"

/// The model of a profile, as config/platforms/*.toml describes it. It consists of views: the built-in
/// profiles are constants, made at build time, and a user's profile, read at run time, has an Arena.
namespace rankshim::platform {

/// What must hold for a way to be recognised or a role to be taken: `all`, and one of `any` unless empty.
struct Conditions {
  std::span<const Expression> all, any;
};

struct FactExpression {
  Fact fact = Fact::nnodes;
  Expression expression;
};

/// A state of this node that changes what is to be done: a role that does not train although it has the
/// platform's variables, or a part of the platform that is not ready yet.
struct Role {
  std::string_view name;  ///< for messages: "MPI launcher", "the rank table /user/… is initializing"
  std::string_view fix;   ///< what to do, for messages; empty if the platform has no advice
  Conditions when;
};

enum class Granularity : std::uint8_t { node, process };

/// What kind of thing set the variables. Of several profiles that are recognised, one of a later kind counts
/// only if there is none of an earlier kind.
enum class ProfileKind : std::uint8_t {
  platform,  ///< a platform: each node starts its own launcher
  launcher,  ///< a process launcher: one process per worker exists already
  flags,     ///< a launcher's flags as variables, PET_*, which anyone may set
  names,     ///< generic names, which anyone may set; they provide facts that a platform does not
  part,      ///< a part of a job, which knows nothing of the rest: its facts count where nobody else says any
  foreign,   ///< not a torch job: another framework's launcher, or a pod that is alone
};

inline constexpr std::array<std::string_view, 6> kind_names = {"platform", "launcher", "flags",
                                                               "names",    "part",     "foreign"};

/// Globs of names.
using Globs = std::span<const std::string_view>;

struct Profile {
  std::string_view name;      ///< the file's name without .toml
  std::string_view document;  ///< the file's text
  std::string_view title;     ///< for messages
  ProfileKind kind = ProfileKind::platform;
  bool opt_in = false;  ///< recognised by name only (`--platform NAME`), never automatically
  Globs supersedes;     ///< profiles that are less specific, whatever their conditions, and need not agree
  Globs agents;         ///< programs that find the master through the platform, and need no address
  std::span<const Expression> signs;      ///< it is recognised if one holds; the more hold, the surer
  std::span<const Expression> unless;     ///< it is not recognised if one holds, whatever else does
  std::span<const Conditions> match;      ///< further ways to be recognised
  std::span<const FactExpression> facts;  ///< at most one for each fact
  std::span<const Role> idle_roles;       ///< the roles that do not train
  std::span<const Role> refusals;         ///< states that can mean two things; rankshim does not guess which
  std::span<const Role> warnings;         ///< states that look like other nodes, for a node that trains alone
  std::span<const Role> pending;          ///< states that must end before the facts are right

  /// Whether its variables belong to this process or to the node.
  [[nodiscard]] Granularity granularity() const {
    return kind == ProfileKind::launcher ? Granularity::process : Granularity::node;
  }
  /// The variables of other kinds are names that anyone may set, or belong to no torch job.
  [[nodiscard]] bool has_own_words() const {
    return kind == ProfileKind::platform || kind == ProfileKind::launcher;
  }
};

/// Reads one TOML document in the form that docs/platforms.md describes; `name` is the file's name without
/// .toml. Every fault begins with "PATH:LINE: " and names `path`. The build uses it for the built-in
/// profiles, and the program for a user's: both follow the same rules. `arena` has the profile's memory.
Outcome<Profile> read_profile(std::string_view name, std::string document, std::string_view path,
                              Arena& arena);

}  // namespace rankshim::platform
