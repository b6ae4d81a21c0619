#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "platform/functions.h"
#include "topology/fact.h"

/// The model of a profile: what config/platforms/*.toml says. All views, so that the built-in profiles are
/// constant tables made at build time and a user's own, read at run time, are the same thing over owned
/// memory.
namespace rankshim::platform {

/// A part of Profile::pool. A third of a string_view's size: the built-in profiles have a thousand of them.
struct Piece {
  std::uint16_t at = 0;
  std::uint16_t size = 0;
};

/// One step of an expression (expression.h has the grammar). The steps of all expressions of a profile lie in
/// one table; the children of a step follow each other in the table of children.
enum class Op : std::uint8_t {
  text,      ///< `text` as it stands
  variable,  ///< the environment variable `text`; the child, where there is one, is the default of ${NAME:-…}
  join,      ///< the children's texts one after the other; nothing if one of them is nothing
  call,      ///< `function` on the children
};

struct Step {
  Op op = Op::text;
  Function function = Function::none;
  std::uint8_t child_count = 0;
  std::uint16_t first_child = 0;  ///< index into Profile::children
  Piece text = {};
};

/// What a condition asks of its expression, which is a variable or a function call.
enum class Sign : std::uint8_t {
  set,      ///< EXPR        it yields something that is not empty
  not_set,  ///< !EXPR       it yields nothing
  like,     ///< EXPR=GLOB   it yields what fits the glob (functions.h: fits)
  unlike,   ///< !EXPR=GLOB  it yields nothing, or what does not fit
};

/// A sign by which a platform is recognised.
struct Condition {
  Sign sign = Sign::set;
  std::uint16_t root = 0;  ///< index into Profile::steps
  Piece glob = {};
};

/// One way to be recognised: all conditions hold.
struct Alternative {
  std::span<const Condition> conditions;
};

/// A place where a fact is looked for: an expression, by the index of its root. A fact's first place that
/// yields a value that is not empty is the fact.
struct Place {
  Fact fact = Fact::nnodes;
  std::uint16_t root = 0;
};

/// A state of this node that changes what is to be done: a role that does not train though it has the
/// platform's variables, or something of the platform's that is not ready yet.
struct Role {
  std::string_view name;  ///< for the reader: "MPI launcher", "the rank table /user/… is initializing"
  Alternative when;
};

enum class Granularity : std::uint8_t { node, process };

struct Profile {
  std::string_view name;   ///< the file's name without .toml
  std::string_view title;  ///< for a person
  /// Globs by comma: profiles that are less specific than this one, whatever they ask for, and whose facts
  /// need not agree with it.
  std::string_view supersedes;
  Granularity granularity = Granularity::node;
  /// Recognised by name only (`--platform NAME`), never by itself.
  bool opt_in = false;
  /// 0 is a platform. Above it is what remains where no platform is recognised, the lower number first: names
  /// that tools read and people set by hand.
  std::uint8_t fallback = 0;
  std::span<const Alternative> match;
  std::span<const Place> places;   ///< by fact; those of one fact in the document's order
  std::span<const Role> roles;     ///< that do not train
  std::span<const Role> refusals;  ///< what can mean two things, and is not guessed
  std::span<const Role> pending;   ///< what has to end before the facts are right
  std::span<const Step> steps;
  std::span<const std::uint16_t> children;
  std::string_view pool;  ///< what the texts and globs are pieces of

  [[nodiscard]] std::string_view view(Piece piece) const { return pool.substr(piece.at, piece.size); }
};

}  // namespace rankshim::platform
