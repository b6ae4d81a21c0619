#include "platform/reasons.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "base/text.h"

namespace rankshim::platform {
namespace {

/// NAME=VALUE; of a value that can be a long document, its beginning.
std::string shown(std::string_view name, std::string_view value) {
  constexpr std::size_t longest_shown = 80;
  const std::string_view start = cut(value, longest_shown);
  return std::string(name) + "=" + in_quotes(start) + (start.size() < value.size() ? "…" : "");
}

/// A value by its source: NAME=VALUE, a file's path, "this node's name gpu-3".
std::string shown(const Value& value) {
  switch (value.origin) {
    case Origin::variable:
      return shown(value.detail, value.text);
    case Origin::hostname:
      return "this node's name " + in_quotes(value.text);
    case Origin::fallback:
      return value.text;
    default:
      return value.detail;
  }
}

void add_once(std::string text, std::vector<std::string>& all) {
  if (std::find(all.begin(), all.end(), text) == all.end()) all.push_back(std::move(text));
}

void add_unusable(const Value& what, std::string why, Lack& lack, const std::string& verb = "correct ") {
  add_once(std::move(why), lack.unusable);
  std::vector<std::string> names;
  what.append_inputs({}, names);
  for (std::string& name : names) {
    if (name.find(' ') != std::string::npos) continue;  // this node's address
    if (lack.remedy.find(name) == std::string::npos)
      lack.remedy.append(lack.remedy.empty() ? "" : ", or ").append(verb).append(name);
    add_once(std::move(name), lack.names);
  }
}

/// Finds why expressions of one profile yield nothing.
class LackFinder {
 public:
  LackFinder(const Node& node, const Evaluation& evaluation, Lack& lack)
      : node_(node), evaluation_(evaluation), lack_(lack) {}

  void add(const Expression& expression) {
    const auto children = expression.children;
    switch (expression.function) {
      case Function::text:
        return;
      case Function::variable:
        return add_unset(expression.text);
      case Function::either:
      case Function::join:
        for (const Expression& one : children)
          if (!evaluation_.value(one)) add(one);
        return;
      case Function::unless:
        if (!evaluation_.value(children[0])) add(children[1]);
        return;  // another expression applies
      default:
        return add_call(expression.function, children);
    }
  }

 private:
  void add_unset(std::string_view name) {
    if (node_.environment().has(name)) {
      const auto text = node_.environment().get(name);
      return add_unusable(
          Value{{}, Origin::variable, std::string(name)},
          text ? shown(name, *text) + " is a Kubernetes service link" : std::string(name) + " is empty",
          lack_);
    }
    add_once(std::string(name), lack_.unset);
    add_once(std::string(name), lack_.names);
  }

  void add_call(Function function, std::span<const Expression> children) {
    std::vector<Value> arguments;
    for (const Expression& one : children) {
      if (function == Function::only_if && arguments.size() == 2) {
        if (!fits(arguments[0].text, arguments[1].text)) return;  // another expression applies
        return add(one);
      }
      auto argument = evaluation_.value(one);
      if (!argument) return add(one);
      arguments.push_back(std::move(*argument));
    }
    if (function == Function::file) return add_file(arguments[0]);
    if (function == Function::named_variable || function == Function::variables ||
        function == Function::only_variable)
      return add_unset(arguments[0].text);
    const std::string_view complaint =
        std::ranges::find(signatures, function, &Signature::function)->complaint;
    if (arguments.empty() || complaint.empty()) return;
    const std::string second = arguments.size() > 1 ? shown(arguments[1]) : "";
    add_unusable(arguments[0], shown(arguments[0]) + " " + fmt::format(fmt::runtime(complaint), second),
                 lack_);
    for (const Value& argument : arguments)
      if (argument.origin != Origin::fallback && argument.origin != Origin::hostname)
        argument.append_inputs({}, lack_.names);
  }

  void add_file(const Value& path) {
    if (path.origin == Origin::fallback) {  // the usual path
      add_once(path.text, lack_.absent);
      return add_once(path.text, lack_.names);
    }
    path.append_inputs({}, lack_.names);
    const Value file{{}, Origin::file, path.text};
    if (!path.text.starts_with('/'))
      return add_unusable(path, shown(path) + " is not an absolute path", lack_);
    if (node_.file(path.text)) return add_unusable(file, shown(path) + " is an empty file", lack_);
    add_unusable(file, shown(path) + " cannot be read here", lack_, "mount ");
  }

  const Node& node_;
  Evaluation evaluation_;
  Lack& lack_;
};

/// Whether an expression asks for this node's name.
bool asks_the_host_name(const Expression& expression) {
  bool asks = false;
  each_part(expression, [&](const Expression& part) {
    asks |= part.function == Function::hostname || part.function == Function::hostname_like;
  });
  return asks;
}

/// The variables and files that make a condition hold: "ROLE=launcher", "STEP_ID is not set".
std::vector<std::string> found_by(const Condition& condition, const std::vector<std::string>& inputs,
                                  const Reading& on) {
  std::vector<std::string> found;
  for (const std::string& name : inputs)
    for (const std::string& entry : on.node.environment().entries())
      if (const auto its = entry_name(entry); !its.empty() && fits(its, name) && on.variables.get(its))
        found.push_back(shown(its, *on.variables.get(its)));
  if (!found.empty()) return found;
  for (const std::string& name : inputs) {
    const bool is_file = name.front() == '/';
    if (is_file && on.node.file(name))
      found.push_back(name);
    else if (condition.is_negative)
      found.push_back(is_file ? "there is no " + name : name + " is not set");
  }
  return found;
}

}  // namespace

Causes causes_of(std::span<const Condition> conditions, const Profile& profile, Reading& on) {
  Evaluation evaluation(profile, on);
  Causes causes;
  std::vector<std::string> texts;
  for (const Condition& condition : conditions) {
    std::vector<std::string> inputs;
    evaluation.add_inputs(condition.expression, true, inputs);
    for (std::string& one : found_by(condition, inputs, on)) add_once(std::move(one), texts);
    if (asks_the_host_name(condition.expression))
      add_once("this node's name is " + in_quotes(on.node.host_name()), texts);
    for (std::string& one : inputs) add_once(std::move(one), causes.names);
  }
  causes.text = joined(texts);
  return causes;
}

Causes causes_of(const Profile& profile, const Node& node) {
  Reading on{node};
  Evaluation evaluation(profile, on);
  std::vector<Condition> conditions;
  const auto add = [&](std::span<const Condition> all) {
    std::ranges::copy_if(all, std::back_inserter(conditions),
                         [&](const Condition& one) { return !one.is_negative && evaluation.holds(one); });
  };
  add(profile.signs);
  const auto way =
      std::ranges::find_if(profile.match, [&](const Alternative& one) { return evaluation.holds(one); });
  if (way != profile.match.end()) add(*way);
  return causes_of(conditions, profile, on);
}

std::vector<std::string> inputs_of(const Profile& profile, const Node& node) {
  Reading on{node};
  Evaluation evaluation(profile, on);
  std::vector<std::string> names;
  const auto add = [&](std::span<const Condition> conditions) {
    for (const Condition& one : conditions) evaluation.add_inputs(one.expression, true, names);
  };
  add(profile.signs);
  add(profile.unless);
  for (const Alternative& way : profile.match) add(way);
  for (const auto& states : {profile.idle_roles, profile.refusals, profile.pending})
    for (const Role& state : states) add(state.when);
  for (const FactExpression& one : profile.facts) evaluation.add_inputs(one.expression, true, names);
  return names;
}

Lack lack_of(const Profile& profile, Fact fact, const Node& node) {
  Reading on{node};
  Evaluation evaluation(profile, on);
  Lack lack;
  LackFinder finder(node, evaluation, lack);
  for (const FactExpression& one : profile.facts) {
    if (one.fact != fact) continue;
    finder.add(one.expression);
    evaluation.add_inputs(one.expression, false, lack.names);
  }
  if (!lack.remedy.empty()) lack.remedy += ", or ";
  return lack;
}

}  // namespace rankshim::platform
