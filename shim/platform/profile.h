#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/fact.h"
#include "platform/functions.h"

/// The model of a profile, as config/platforms/*.toml describes it. It consists of tables of small numbers
/// that refer to each other: the built-in profiles share one set of tables, made at build time, and a user's
/// profile, read at run time, has its own tables of the same form.
namespace rankshim::platform {

/// A part of Tables::pool.
struct Piece {
  std::uint16_t at = 0;
  std::uint16_t size = 0;
};

/// The index of a Piece in Tables::texts.
using TextIndex = std::uint16_t;

/// Consecutive rows of a table.
struct Slice {
  std::uint16_t first = 0;
  std::uint16_t count = 0;
};

enum class Op : std::uint8_t {
  text,      ///< the text itself
  variable,  ///< the environment variable of that name
  either,    ///< the first child that yields something: ${NAME:-…}, or a [let] that is a list
  join,      ///< the children's texts joined; nothing if one of them is nothing
  call,      ///< `function` on the children
};

/// One step of an expression (expression.h has the grammar).
struct Step {
  Op op = Op::text;
  Function function = Function::none;
  /// For a text or a variable its TextIndex; else an index into Tables::children, where the number of
  /// children is followed by their indices into Tables::steps.
  std::uint16_t index = 0;
};

/// What a condition requires of its expression, which is a variable or a function call.
enum class Sign : std::uint8_t {
  set,      ///< EXPR        it yields something that is not empty
  not_set,  ///< !EXPR       it yields nothing
  like,     ///< EXPR=GLOB   it yields a text that matches the glob (functions.h: fits)
  unlike,   ///< !EXPR=GLOB  it yields nothing, or a text that does not match
};

/// A sign by which a platform is recognised.
struct Condition {
  Sign sign = Sign::set;
  std::uint16_t root = 0;  ///< index into Tables::steps
  TextIndex glob = 0;      ///< of `like` and `unlike`

  /// Whether it holds only if the expression yields something.
  [[nodiscard]] bool is_positive() const { return sign == Sign::set || sign == Sign::like; }
};

/// Conditions that must all hold: one way to be recognised, or when a role is this node's.
using Alternative = Slice;

/// An expression that may provide a fact, by the index of its root. The fact's value is that of its first
/// expression that yields a text that is not empty.
struct FactExpression {
  Fact fact = Fact::nnodes;
  std::uint16_t root = 0;
};

/// A state of this node that changes what is to be done: a role that does not train although it has the
/// platform's variables, or a part of the platform that is not ready yet.
struct Role {
  TextIndex name = 0;  ///< for messages: "MPI launcher", "the rank table /user/… is initializing"
  TextIndex fix = 0;   ///< what to do, for messages; empty if the platform has no advice
  Alternative when;
};

struct Tables {
  std::span<const Step> steps;
  std::span<const std::uint16_t> children;
  std::span<const Piece> texts;
  std::span<const Condition> conditions;
  std::span<const Alternative> alternatives;
  std::span<const FactExpression> expressions;
  std::span<const Role> roles;
  std::string_view pool;

  [[nodiscard]] std::string_view text(TextIndex index) const {
    return pool.substr(texts[index].at, texts[index].size);
  }
  [[nodiscard]] std::span<const std::uint16_t> children_of(const Step& step) const {
    return children.subspan(step.index + std::size_t{1}, children[step.index]);
  }
  [[nodiscard]] std::span<const Condition> conditions_of(const Alternative& alternative) const {
    return part(conditions, alternative);
  }
  template <class Row>
  static std::span<const Row> part(std::span<const Row> rows, Slice range) {
    return rows.subspan(range.first, range.count);
  }
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

struct Profile {
  const Tables* tables = nullptr;
  TextIndex name_text = 0, title_text = 0, supersedes_text = 0, agents_text = 0;
  ProfileKind kind = ProfileKind::platform;
  /// Recognised by name only (`--platform NAME`), never automatically.
  bool opt_in = false;
  Slice signs_range, unless_range, match_range, expressions_range, roles_range, refusals_range, pending_range;

  /// Whether its variables belong to this process or to the node.
  [[nodiscard]] Granularity granularity() const {
    return kind == ProfileKind::launcher ? Granularity::process : Granularity::node;
  }
  /// A platform or a launcher has its own variables; the other kinds are names that anyone may set, or belong
  /// to no torch job.
  [[nodiscard]] bool has_own_words() const {
    return kind == ProfileKind::platform || kind == ProfileKind::launcher;
  }
  /// The file's name without .toml.
  [[nodiscard]] std::string_view name() const { return tables->text(name_text); }
  /// For messages.
  [[nodiscard]] std::string_view title() const { return tables->text(title_text); }
  /// Globs, separated by commas: profiles that are less specific than this one, whatever their conditions,
  /// and whose facts need not agree with it.
  [[nodiscard]] std::string_view supersedes() const { return tables->text(supersedes_text); }
  /// Globs, separated by commas: programs that find the master through the platform, and need no address.
  [[nodiscard]] std::string_view agents() const { return tables->text(agents_text); }
  /// It is recognised if at least one of these holds; the more hold, the surer.
  [[nodiscard]] std::span<const Condition> signs() const {
    return Tables::part(tables->conditions, signs_range);
  }
  /// It is not recognised if one of these holds, whatever else does.
  [[nodiscard]] std::span<const Condition> unless() const {
    return Tables::part(tables->conditions, unless_range);
  }
  /// Further ways to be recognised.
  [[nodiscard]] std::span<const Alternative> match() const {
    return Tables::part(tables->alternatives, match_range);
  }
  /// Sorted by fact; the expressions of one fact are in the document's order.
  [[nodiscard]] std::span<const FactExpression> expressions() const {
    return Tables::part(tables->expressions, expressions_range);
  }
  /// The roles that do not train.
  [[nodiscard]] std::span<const Role> roles() const { return Tables::part(tables->roles, roles_range); }
  /// States that can mean two things; rankshim does not guess which.
  [[nodiscard]] std::span<const Role> refusals() const { return Tables::part(tables->roles, refusals_range); }
  /// States that have to end before the facts are right.
  [[nodiscard]] std::span<const Role> pending() const { return Tables::part(tables->roles, pending_range); }
};

}  // namespace rankshim::platform
