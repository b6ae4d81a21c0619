#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/fact.h"
#include "base/fault.h"
#include "node/node.h"
#include "platform/profile.h"
#include "platform/reasons.h"

namespace rankshim::platform {

/// An index over an environment: recognising a platform looks up some hundred names, and a pod can have a
/// thousand variables.
class VariableIndex {
 public:
  /// Views into `environment`, which must outlive this and stay unchanged. The user's number of nodes,
  /// wherever it is set, is RANKSHIM_NNODES to the profiles; the text must outlive this too.
  explicit VariableIndex(const Environment& environment, std::string_view users_nnodes = {});

  /// As Environment::get.
  [[nodiscard]] std::optional<std::string_view> get(std::string_view name) const;

 private:
  std::map<std::string_view, std::string_view> values_;
};

/// What the evaluations on one node share.
struct Reading {
  const Node& node;
  VariableIndex variables{node.environment()};
  std::vector<std::string> warnings;  ///< of ignored service links, each once
  Faults unreadable;                  ///< JSON and files that exist and cannot be read
};

/// Evaluates the expressions of one profile on one node. All arguments must outlive this object. The parser
/// bounds the depth of the recursion and the work (expression.h).
///
/// A value's source is "env NAME" for a bare variable, "file PATH" for file(PATH), "hostname" for hostname(),
/// "default" for a text, else "derived from" the variables and files that were used. Variables whose value is
/// a Kubernetes service link count as not set.
class Evaluation {
 public:
  /// `trace` gets what is read and what is lacking, if it is not null.
  Evaluation(const Profile& profile, Reading& on, Trace* trace = nullptr)
      : profile_(profile), on_(on), trace_(trace) {}

  std::optional<Value> value(const Expression& expression);

  /// The facts of the profile, whether it is recognised or not.
  Facts facts();

  bool holds(const Expression& condition);

  /// The conditions that make these hold, the one of `any` first; none if they do not hold.
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

  /// Reports a document that exists and cannot be read: ignoring it might mean to train alone.
  void check_document(const Value& document);
  void add_unreadable(std::string what, std::vector<std::string> names, std::string fix, bool is_transient);

  const Profile& profile_;
  Reading& on_;
  Trace* trace_;
};

}  // namespace rankshim::platform
