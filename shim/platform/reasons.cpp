#include "platform/reasons.h"

#include <algorithm>

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

/// What is wrong with the first argument.
std::string complaint(Function function, const std::vector<Value>& arguments) {
  const auto second = [&] { return arguments.size() > 1 ? shown(arguments[1]) : std::string(); };
  switch (function) {
    case Function::slurm_hosts:
      return "is not a Slurm host list";
    case Function::hosts:
    case Function::first_host:
      return "does not name a host";
    case Function::count:
      return "lists nothing";
    case Function::entry:
      return "has no entry " + second();
    case Function::position:
      return "is not in " + second();
    case Function::field:
      return "has no " + second() + " in it";
    case Function::ordinal:
      return "does not end in a number";
    case Function::host:
      return "does not name a host";
    case Function::port:
      return "has no port";
    case Function::before:
    case Function::after:
    case Function::until:
      return "has no '" + second() + "' in it";
    case Function::slurm_tasks:
      return "does not give the tasks of node " + second();
    case Function::divide:
      return "is not a multiple of " + second();
    default:
      return arguments.size() > 1 ? "does not fit " + second() : "cannot be used";
  }
}

}  // namespace

void Reasons::add_lack(std::uint16_t root, Lack& lack) {
  const Step& step = tables_.steps[root];
  if (step.op == Op::variable) return add_unset(tables_.text(step.index), lack);
  if (step.op == Op::text) return;
  if (step.op == Op::call) return add_lack_of_call(step, lack);
  for (const std::uint16_t one : tables_.children_of(step))
    if (!evaluation_.value(one)) add_lack(one, lack);
}

void Reasons::add_causes(const Condition& condition, std::vector<std::string>& causes) {
  std::vector<std::string> names, found;
  evaluation_.add_inputs(condition.root, true, names);
  for (const std::string& name : names)
    for (const std::string& entry : node_.environment().entries())
      if (const auto its = entry_name(entry); !its.empty() && fits(its, name) && variables_.get(its))
        found.push_back(shown(its, *variables_.get(its)));
  const bool asks_for_none = condition.sign == Sign::not_set || condition.sign == Sign::unlike;
  if (found.empty())
    for (const std::string& name : names) {
      const bool is_file = name.front() == '/';
      if (is_file && node_.file(name))
        found.push_back(name);
      else if (asks_for_none)
        found.push_back(is_file ? "there is no " + name : name + " is not set");
    }
  if (asks_the_host_name(condition.root))
    found.push_back("this node's name is " + in_quotes(node_.host_name()));
  for (std::string& one : found) add_once(std::move(one), causes);
}

bool Reasons::asks_the_host_name(std::uint16_t root) const {
  const Step& step = tables_.steps[root];
  if (step.op == Op::text || step.op == Op::variable) return false;
  if (step.function == Function::hostname || step.function == Function::hostname_like) return true;
  const auto children = tables_.children_of(step);
  return std::any_of(children.begin(), children.end(),
                     [&](std::uint16_t child) { return asks_the_host_name(child); });
}

void Reasons::add_unset(std::string_view name, Lack& lack) {
  if (node_.environment().has(name)) {
    const auto text = node_.environment().get(name);
    return add_unusable(
        Value{{}, Origin::variable, std::string(name)},
        text ? shown(name, *text) + " is a Kubernetes service link" : std::string(name) + " is empty", lack);
  }
  add_once(std::string(name), lack.unset);
  add_once(std::string(name), lack.names);
}

void Reasons::add_lack_of_call(const Step& step, Lack& lack) {
  const auto children = tables_.children_of(step);
  if (step.function == Function::unless) {
    if (!evaluation_.value(children[0])) add_lack(children[1], lack);
    return;  // another expression applies
  }
  std::vector<Value> arguments;
  for (const std::uint16_t one : children) {
    if (step.function == Function::only_if && arguments.size() == 2) {
      if (!fits(arguments[0].text, arguments[1].text)) return;  // another expression applies
      return add_lack(one, lack);
    }
    auto argument = evaluation_.value(one);
    if (!argument) return add_lack(one, lack);
    arguments.push_back(std::move(*argument));
  }
  if (step.function == Function::file) return add_lack_of_file(arguments[0], lack);
  if (step.function == Function::variable || step.function == Function::variables ||
      step.function == Function::only_variable)
    return add_unset(arguments[0].text, lack);
  if (arguments.empty() || is_gate(step.function)) return;
  add_unusable(arguments[0], shown(arguments[0]) + " " + complaint(step.function, arguments), lack);
  for (const Value& argument : arguments)
    if (argument.origin != Origin::fallback && argument.origin != Origin::hostname)
      argument.append_inputs({}, lack.names);
}

void Reasons::add_lack_of_file(const Value& path, Lack& lack) {
  if (path.origin == Origin::fallback) {  // the usual path
    add_once(path.text, lack.absent);
    return add_once(path.text, lack.names);
  }
  path.append_inputs({}, lack.names);
  const Value file{{}, Origin::file, path.text};
  if (!path.text.starts_with('/')) return add_unusable(path, shown(path) + " is not an absolute path", lack);
  if (node_.file(path.text)) return add_unusable(file, shown(path) + " is an empty file", lack);
  add_unusable(file, shown(path) + " cannot be read here", lack, "mount ");
}

}  // namespace rankshim::platform
