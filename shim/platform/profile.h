#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/fact.h"
#include "platform/functions.h"

/// The model of a profile, as config/platforms/*.toml describes it. It consists of views: the built-in
/// profiles are constants, made at build time, and a user's profile, read at run time, has a Store
/// (expression.h).
namespace rankshim::platform {

/// expression.h has the grammar.
struct Expression {
  Function function = Function::text;
  std::string_view text;  ///< of Function::text, and the name of Function::variable
  std::span<const Expression> children;
};

/// Calls see(EXPRESSION) with the expression and with everything that it consists of.
template <class See>
void each_part(const Expression& expression, const See& see) {
  see(expression);
  for (const Expression& child : expression.children) each_part(child, see);
}

/// A sign by which a platform is recognised. Its expression is a variable or a function call, and has to
/// yield something, or nothing if the condition is negative: EXPR or !EXPR.
struct Condition {
  bool is_negative = false;
  Expression expression;
  std::string_view
      glob;  ///< what it yields has to fit this (functions.h: fits): EXPR=GLOB; empty if anything counts
};

/// Conditions that must all hold: one way to be recognised, or when a role is this node's.
using Alternative = std::span<const Condition>;

/// An expression that may provide a fact. The fact's value is that of its first expression that yields a text
/// that is not empty.
struct FactExpression {
  Fact fact = Fact::nnodes;
  Expression expression;
};

/// A state of this node that changes what is to be done: a role that does not train although it has the
/// platform's variables, or a part of the platform that is not ready yet.
struct Role {
  std::string_view name;  ///< for messages: "MPI launcher", "the rank table /user/… is initializing"
  std::string_view fix;   ///< what to do, for messages; empty if the platform has no advice
  Alternative when;
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
  std::string_view name;   ///< the file's name without .toml
  std::string_view title;  ///< for messages
  ProfileKind kind = ProfileKind::platform;
  bool opt_in = false;  ///< recognised by name only (`--platform NAME`), never automatically
  Globs supersedes;     ///< profiles that are less specific, whatever their conditions, and need not agree
  Globs agents;         ///< programs that find the master through the platform, and need no address
  std::span<const Condition> signs;    ///< it is recognised if one holds; the more hold, the surer
  std::span<const Condition> unless;   ///< it is not recognised if one holds, whatever else does
  std::span<const Alternative> match;  ///< further ways to be recognised
  std::span<const FactExpression>
      facts;                         ///< by fact; the expressions of one fact are in the document's order
  std::span<const Role> idle_roles;  ///< the roles that do not train
  std::span<const Role> refusals;    ///< states that can mean two things; rankshim does not guess which
  std::span<const Role> pending;     ///< states that have to end before the facts are right

  /// Whether its variables belong to this process or to the node.
  [[nodiscard]] Granularity granularity() const {
    return kind == ProfileKind::launcher ? Granularity::process : Granularity::node;
  }
  /// A platform or a launcher has its own variables; the other kinds are names that anyone may set, or belong
  /// to no torch job.
  [[nodiscard]] bool has_own_words() const {
    return kind == ProfileKind::platform || kind == ProfileKind::launcher;
  }
};

}  // namespace rankshim::platform
