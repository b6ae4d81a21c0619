#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/fact.h"
#include "base/fault.h"
#include "platform/expression.h"

/// The model of a profile, as config/platforms/*.toml describes it. It consists of views: into constants
/// generated at build time for a built-in profile, and into an Arena for a user's profile, which is read at
/// run time.
namespace rankshim::platform {

/// What must hold for a [[match]] or a role to apply: all of `all`, and one of `any` unless it is empty.
struct Conditions {
  std::span<const Expression> all, any;
};

struct FactExpression {
  Fact fact = Fact::nnodes;
  Expression expression;
};

/// A state of this node that changes what rankshim does: a role that does not train although it has the
/// platform's variables, or a part of the platform that is not ready yet.
struct Role {
  std::string_view name;  ///< for messages: "MPI launcher", "the rank table /user/… is initializing"
  std::string_view fix;   ///< what to do, for messages; empty if there is no advice
  Conditions when;
};

enum class Granularity : std::uint8_t { node, process };

/// What kind of thing set the variables. Of several recognised profiles, those of the earliest kind win.
enum class ProfileKind : std::uint8_t {
  platform,  ///< a platform: each node starts its own launcher
  launcher,  ///< a process launcher: one process per worker exists already
  flags,     ///< a launcher's flags as variables, PET_*, which anyone may set
  names,     ///< generic names, which anyone may set; they provide facts that a platform does not
  part,  ///< a part of a job, which knows nothing of the rest: its facts count only if nothing else provides
         ///< them
  foreign,  ///< not a torch job: another framework's launcher, or a pod that is alone
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
  bool opt_in = false;  ///< only by name (`--platform NAME`), never automatically
  Globs supersedes;  ///< profiles that are less specific, whatever their conditions, and need not agree with
                     ///< this one
  Globs agents;      ///< programs that find the master through the platform and need no address
  std::span<const Expression> signs;   ///< one that holds is enough to recognise it; the more hold, the surer
  std::span<const Expression> unless;  ///< one that holds prevents recognition, whatever else holds
  std::span<const Conditions> match;   ///< further ways to be recognised
  std::span<const FactExpression> facts;  ///< at most one for each fact
  std::span<const Role> idle_roles;       ///< the roles that do not train
  std::span<const Role> refusals;         ///< states that can mean two things; rankshim does not guess which
  std::span<const Role> warnings;         ///< states that look like other nodes, for a node that trains alone
  std::span<const Role> pending;          ///< states that must end before the facts can be trusted

  /// Whether the profile's variables belong to this process or to the node.
  [[nodiscard]] Granularity granularity() const {
    return kind == ProfileKind::launcher ? Granularity::process : Granularity::node;
  }
  /// Whether the variables are the platform's own. Those of other kinds are names that anyone may set, or do
  /// not belong to a torch job.
  [[nodiscard]] bool has_own_words() const {
    return kind == ProfileKind::platform || kind == ProfileKind::launcher;
  }
};

/// Reads one TOML document in the form that docs/platforms.md describes; `name` is the file's name without
/// .toml. Every fault begins with "PATH:LINE: " and names `path`. The build uses this for the built-in
/// profiles and the program for a user's, so that both follow the same rules. `arena` owns the profile's
/// memory.
Outcome<Profile> read_profile(std::string_view name, std::string document, std::string_view path,
                              Arena& arena);

}  // namespace rankshim::platform
