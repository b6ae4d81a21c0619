#include "platform/reasons.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "base/text.h"

namespace rankshim::platform {
namespace {

/// The calls that decide whether an expression applies at all: if they yield nothing, there is nothing to
/// correct.
bool is_gate(Function function) {
  return function == Function::larger || function == Function::positive || function == Function::differ;
}

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

/// What is wrong with the first argument; {} is the second.
constexpr auto complaints = std::to_array<std::pair<Function, std::string_view>>({
    {Function::slurm_hosts, "is not a Slurm host list"},
    {Function::hosts, "does not name a host"},
    {Function::first_host, "does not name a host"},
    {Function::host, "does not name a host"},
    {Function::count, "lists nothing"},
    {Function::entry, "has no entry {}"},
    {Function::position, "is not in {}"},
    {Function::field, "has no {} in it"},
    {Function::ordinal, "does not end in a number"},
    {Function::port, "has no port"},
    {Function::before, "has no '{}' in it"},
    {Function::after, "has no '{}' in it"},
    {Function::until, "has no '{}' in it"},
    {Function::slurm_tasks, "does not give the tasks of node {}"},
    {Function::divide, "is not a multiple of {}"},
});

std::string complaint(Function function, const std::vector<Value>& arguments) {
  const auto* const known = std::ranges::find(complaints, function, &decltype(complaints)::value_type::first);
  const std::string_view text = known != complaints.end() ? known->second
                                : arguments.size() > 1    ? "does not fit {}"
                                                          : "cannot be used";
  return fmt::format(fmt::runtime(text), arguments.size() > 1 ? shown(arguments[1]) : std::string());
}

/// Finds why expressions of one profile yield nothing.
class LackFinder {
 public:
  LackFinder(const Profile& profile, const Node& node, const Evaluation& evaluation, Lack& lack)
      : tables_(*profile.tables), node_(node), evaluation_(evaluation), lack_(lack) {}

  void add(std::uint16_t root) {
    const Step& step = tables_.steps[root];
    if (step.op == Op::variable) return add_unset(tables_.text(step.index));
    if (step.op == Op::text) return;
    if (step.op == Op::call) return add_call(step);
    for (const std::uint16_t one : tables_.children_of(step))
      if (!evaluation_.value(one)) add(one);
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

  void add_call(const Step& step) {
    const auto children = tables_.children_of(step);
    if (step.function == Function::unless) {
      if (!evaluation_.value(children[0])) add(children[1]);
      return;  // another expression applies
    }
    std::vector<Value> arguments;
    for (const std::uint16_t one : children) {
      if (step.function == Function::only_if && arguments.size() == 2) {
        if (!fits(arguments[0].text, arguments[1].text)) return;  // another expression applies
        return add(one);
      }
      auto argument = evaluation_.value(one);
      if (!argument) return add(one);
      arguments.push_back(std::move(*argument));
    }
    if (step.function == Function::file) return add_file(arguments[0]);
    if (step.function == Function::variable || step.function == Function::variables ||
        step.function == Function::only_variable)
      return add_unset(arguments[0].text);
    if (arguments.empty() || is_gate(step.function)) return;
    add_unusable(arguments[0], shown(arguments[0]) + " " + complaint(step.function, arguments), lack_);
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

  const Tables& tables_;
  const Node& node_;
  Evaluation evaluation_;
  Lack& lack_;
};

/// Whether an expression asks for this node's name.
bool asks_the_host_name(const Tables& tables, std::uint16_t root) {
  const Step& step = tables.steps[root];
  if (step.op == Op::text || step.op == Op::variable) return false;
  return step.function == Function::hostname || step.function == Function::hostname_like ||
         std::ranges::any_of(tables.children_of(step),
                             [&](std::uint16_t child) { return asks_the_host_name(tables, child); });
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
    else if (!condition.is_positive())
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
    evaluation.add_inputs(condition.root, true, inputs);
    for (std::string& one : found_by(condition, inputs, on)) add_once(std::move(one), texts);
    if (asks_the_host_name(*profile.tables, condition.root))
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
  for (const Condition& sign : profile.signs())
    if (evaluation.holds(sign)) conditions.push_back(sign);
  const auto way =
      std::ranges::find_if(profile.match(), [&](const Alternative& one) { return evaluation.holds(one); });
  if (way != profile.match().end())
    std::ranges::copy_if(profile.tables->conditions_of(*way), std::back_inserter(conditions),
                         &Condition::is_positive);
  return causes_of(conditions, profile, on);
}

std::vector<std::string> inputs_of(const Profile& profile, const Node& node) {
  Reading on{node};
  Evaluation evaluation(profile, on);
  std::vector<std::string> names;
  const auto add = [&](std::span<const Condition> conditions) {
    for (const Condition& condition : conditions) evaluation.add_inputs(condition.root, true, names);
  };
  add(profile.signs());
  add(profile.unless());
  for (const Alternative& way : profile.match()) add(profile.tables->conditions_of(way));
  for (const auto& states : {profile.roles(), profile.refusals(), profile.pending()})
    for (const Role& state : states) add(profile.tables->conditions_of(state.when));
  for (const FactExpression& expression : profile.expressions())
    evaluation.add_inputs(expression.root, true, names);
  return names;
}

Lack lack_of(const Profile& profile, Fact fact, const Node& node) {
  Reading on{node};
  Evaluation evaluation(profile, on);
  Lack lack;
  LackFinder finder(profile, node, evaluation, lack);
  for (const FactExpression& expression : profile.expressions()) {
    if (expression.fact != fact) continue;
    finder.add(expression.root);
    evaluation.add_inputs(expression.root, false, lack.names);
  }
  if (!lack.remedy.empty()) lack.remedy += ", or ";
  return lack;
}

}  // namespace rankshim::platform
