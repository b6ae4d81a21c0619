#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/fact.h"
#include "base/fault.h"
#include "node/host.h"
#include "platform/profile.h"

/// Evaluates profiles' expressions on a node, and tells the user why one was recognised or yields nothing.
namespace rankshim::platform {

/// Whether the text is enclosed in a pair of equal quotes. docker run --env-file and Kubernetes keep the
/// quotes of an env file.
bool has_quotes_around(std::string_view text);

/// The text without such quotes.
std::string_view without_quotes(std::string_view text);

/// What all evaluations on one node share. The host must outlive it, and its environment must not change.
class EvalContext {
 public:
  /// Profiles see the user's number of nodes as RANKSHIM_NNODES, wherever it was set; `users_nnodes` must
  /// outlive this object. `is_unquoted`: enclosing quotes are stripped from values, as if the env file had
  /// none.
  explicit EvalContext(const node::Host& host, std::string_view users_nnodes = {}, bool is_unquoted = false);

  /// Like Environment::get, but with an index: a pod can have a thousand variables, and hundreds are read.
  [[nodiscard]] std::optional<std::string_view> get(std::string_view name) const;

  const node::Host& host;
  std::vector<std::string> warnings;  ///< about ignored service links, each once
  Faults unreadable;                  ///< JSON and files that exist but cannot be read

 private:
  std::unordered_map<std::string_view, std::string_view> variables_;
};

/// Why something yields nothing, so that the user knows where to look.
struct Lack {
  std::vector<std::string> unset;     ///< variables that would provide it but are not set
  std::vector<std::string> absent;    ///< files that would provide it but do not exist
  std::vector<std::string> unusable;  ///< what exists but provides nothing: "LIST=[] does not name a host"
  std::vector<std::string> names;     ///< the variables and files of all these
  std::string remedy;  ///< what to do about `unusable`, for the start of a fix: "correct LIST, or "
};

/// Records what evaluations on a node read, and why they yielded nothing. An Evaluation calls it.
class Trace {
 public:
  struct Input {
    std::string name;   ///< of the variable or file; empty for this node's name
    std::string shown;  ///< for a message; empty if it would say nothing
    bool is_there;
  };

  explicit Trace(const node::Host& host) : host_(host) {}

  void variable(std::string_view name, std::optional<std::string_view> value);
  /// The variables that match a glob, as a group; call it after variable() for each of them.
  void variables(std::string_view glob, bool are_there);
  void file(const Value& path, const std::optional<std::string>& content);
  /// The function yields nothing for these arguments.
  void failed(Function function, std::span<const Value> arguments);

  std::vector<Input> inputs;
  Lack lack;

 private:
  void add_unusable(const Value& what, std::string why, const std::string& verb = "correct ");

  const node::Host& host_;
};

/// Evaluates the expressions of one profile on one node. All constructor arguments must outlive this object.
/// The parser bounds the recursion depth and the work (expression.h).
///
/// A value's source is "env NAME" for a bare variable, "file PATH" for file(PATH), "hostname" for hostname(),
/// "default" for a text, otherwise "derived from" the variables and files that were used. Variables whose
/// value is a Kubernetes service link are treated as not set.
class Evaluation {
 public:
  /// `trace` records what is read and what is missing; it may be null.
  Evaluation(const Profile& profile, EvalContext& context, Trace* trace = nullptr)
      : profile_(profile), context_(context), trace_(trace) {}

  std::optional<Value> value(const Expression& expression);

  /// The profile's facts, whether or not the profile is recognised.
  Facts facts();

  bool holds(const Expression& condition);

  /// The conditions because of which these hold, the one of `any` first; empty if they do not hold.
  [[nodiscard]] std::vector<Expression> met(const Conditions& conditions);

 private:
  using Expressions = std::span<const Expression>;

  std::optional<Value> evaluate(const Expression& expression);
  std::optional<std::string_view> variable(std::string_view name);
  std::optional<Value> variable_value(std::string_view name);
  std::optional<Value> join(Expressions parts);
  std::optional<Value> only_if(Expressions arguments);
  std::optional<Value> unless(Expressions arguments);
  std::optional<Value> call(Function function, Expressions children);

  /// The names of the variables that are set and match the glob.
  std::vector<std::string> names_like(std::string_view glob);
  std::optional<Value> domain();
  std::optional<Value> file(const Value& path);

  /// Reports a document that exists but cannot be read, because ignoring it might mean training alone.
  void check_document(const Value& document);
  void add_unreadable(std::string what, std::vector<std::string> names, std::string fix, bool is_transient);

  const Profile& profile_;
  EvalContext& context_;
  Trace* trace_;
};

/// Why conditions hold, for messages.
struct Causes {
  std::vector<std::string> shown;  ///< "SLURM_JOB_ID=7", "SLURM_STEP_ID=0"; each variable, file and name once
  std::vector<std::string> names;  ///< the variables and files
};

/// Why these conditions of a profile hold.
Causes causes_of(std::span<const Expression> conditions, const Profile& profile, EvalContext& context);

/// Why the profile was recognised: the signs that hold, and the first [[match]] that is met.
Causes causes_of(const Profile& profile, const node::Host& host);

/// Whether the profile's document mentions the variable.
bool mentions(const Profile& profile, std::string_view name);

/// Why the fact's expression yields nothing; each reason once.
Lack lack_of(const Profile& profile, Fact fact, const node::Host& host);

}  // namespace rankshim::platform
