#include "platform/reasons.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/text.h"
#include "platform/evaluation.h"
#include "platform/expression.h"

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
  if (std::ranges::find(all, text) == all.end()) all.push_back(std::move(text));
}

}  // namespace

void Trace::variable(std::string_view name, std::optional<std::string_view> value) {
  inputs.push_back({std::string(name), value ? shown(name, *value) : "", value.has_value()});
  if (value) return;
  if (node_.environment().has(name)) {
    const auto text = node_.environment().get(name);
    return add_unusable(
        Value{{}, Origin::variable, std::string(name)},
        text ? shown(name, *text) + " is a Kubernetes service link" : std::string(name) + " is empty");
  }
  add_once(std::string(name), lack.unset);
  add_once(std::string(name), lack.names);
}

void Trace::variables(std::string_view glob, bool are_there) {
  if (!are_there) return variable(glob, {});
  inputs.push_back({std::string(glob), {}, true});
}

void Trace::file(const Value& path, const std::optional<std::string>& content) {
  const bool is_usual_path = path.origin == Origin::fallback;
  inputs.push_back({path.text, is_usual_path ? path.text : "", content.has_value()});
  if (content && !trimmed(*content).empty()) return;
  if (is_usual_path) {
    add_once(path.text, lack.absent);
    return add_once(path.text, lack.names);
  }
  path.append_inputs({}, lack.names);
  if (!path.text.starts_with('/')) return add_unusable(path, shown(path) + " is not an absolute path");
  const Value file{{}, Origin::file, path.text};
  if (content) return add_unusable(file, shown(path) + " is an empty file");
  add_unusable(file, shown(path) + " cannot be read here", "mount ");
}

void Trace::host_name() {
  inputs.push_back({{}, "this node's name is " + in_quotes(node_.host_name()), true});
}

void Trace::failed(Function function, std::span<const Value> arguments) {
  const std::string_view complaint = signature(function).complaint;
  if (complaint.empty()) return;
  const std::string second = arguments.size() > 1 ? shown(arguments[1]) : "";
  add_unusable(arguments[0], shown(arguments[0]) + " " + fmt::format(fmt::runtime(complaint), second));
  for (const Value& argument : arguments)
    if (argument.origin != Origin::fallback && argument.origin != Origin::hostname)
      argument.append_inputs({}, lack.names);
}

void Trace::add_unusable(const Value& what, std::string why, const std::string& verb) {
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

Causes causes_of(std::span<const Expression> conditions, const Profile& profile, Reading& on) {
  Causes causes;
  std::vector<std::string> texts;
  for (const Expression& condition : conditions) {
    Trace trace(on.node);
    Evaluation(profile, on, &trace).holds(condition);
    const bool has_read = std::ranges::any_of(
        trace.inputs, [](const Trace::Input& one) { return one.is_there && !one.name.empty(); });
    add_variables(condition, causes.names);
    for (auto& [name, shown, is_there] : trace.inputs) {
      const bool is_file = name.starts_with('/');
      if (is_there && !shown.empty()) add_once(std::move(shown), texts);
      if (!has_read && !is_there && condition.is_negative())
        add_once(is_file ? "there is no " + name : name + " is not set", texts);
      if (!name.empty()) add_once(std::move(name), causes.names);
    }
  }
  causes.text = joined(texts);
  return causes;
}

Causes causes_of(const Profile& profile, const Node& node) {
  Reading on{node};
  Evaluation evaluation(profile, on);
  std::vector<Expression> conditions;
  std::ranges::copy_if(profile.signs, std::back_inserter(conditions),
                       [&](const Expression& sign) { return evaluation.holds(sign); });
  for (const Conditions& way : profile.match) {
    const std::vector<Expression> met = evaluation.met(way);
    std::ranges::copy_if(met, std::back_inserter(conditions),
                         [](const Expression& one) { return !one.is_negative(); });
    if (!met.empty()) break;
  }
  return causes_of(conditions, profile, on);
}

bool mentions(const Profile& profile, std::string_view name) {
  const auto is_name_part = [](char c) { return c == '_' || is_letter_or_digit(c); };
  const std::string_view text = profile.document;
  for (std::size_t at = text.find(name); at != std::string_view::npos; at = text.find(name, at + 1)) {
    const std::size_t end = at + name.size();
    const bool is_longer =
        (at > 0 && is_name_part(text[at - 1])) || (end < text.size() && is_name_part(text[end]));
    if (!is_longer) return true;
  }
  return false;
}

Lack lack_of(const Profile& profile, Fact fact, const Node& node) {
  Reading on{node};
  Trace trace(node);
  const auto found = std::ranges::find(profile.facts, fact, &FactExpression::fact);
  if (found == profile.facts.end()) return {};
  add_variables(found->expression, trace.lack.names);
  std::erase_if(trace.lack.names,
                [&](const std::string& name) { return on.variables.get(name).has_value(); });
  Evaluation(profile, on, &trace).value(found->expression);
  if (!trace.lack.remedy.empty()) trace.lack.remedy += ", or ";
  return trace.lack;
}

}  // namespace rankshim::platform
