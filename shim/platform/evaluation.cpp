#include "platform/evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
#include "node/addresses.h"

namespace rankshim::platform {
namespace {

using node::Host;

constexpr std::size_t longest_value = largest_file;  // the limit for a text that a profile joins

std::optional<Value> something(Value value) {
  if (value.text.empty() || value.text.size() > longest_value) return std::nullopt;
  return value;
}

/// Adds the source of `part` to the inputs of `derived`.
void note_source(Value& derived, const Value& part) {
  std::vector<std::string> inputs;
  part.append_inputs(part.origin == Origin::hostname ? "hostname" : "", inputs);
  if (inputs.empty()) return;
  derived.origin = Origin::derived;
  for (std::string& input : inputs) add_once(std::move(input), derived.inputs);
}

/// NAME=VALUE, with only the beginning of a long value.
std::string shown(std::string_view name, std::string_view value) {
  constexpr std::size_t longest_shown = 80;
  const std::string_view start = cut(value, longest_shown);
  return std::string(name) + "=" + in_quotes(start) + (start.size() < value.size() ? "…" : "");
}

/// A value with its source: NAME=VALUE, a file's path, "this node's name gpu-3".
std::string shown(const Value& value) {
  switch (value.origin) {
    case Origin::variable:
      return shown(value.detail, value.text);
    case Origin::hostname:
      return "this node's name " + in_quotes(value.text);
    case Origin::fallback:
      return value.text;
    default:
      return value.from();
  }
}

}  // namespace

bool has_quotes_around(std::string_view text) {
  return text.size() > 1 && (text.front() == '"' || text.front() == '\'') && text.back() == text.front();
}

std::string_view without_quotes(std::string_view text) {
  return has_quotes_around(text) ? text.substr(1, text.size() - 2) : text;
}

EvalContext::EvalContext(const Host& on, std::string_view users_nnodes, bool is_unquoted) : host(on) {
  variables_.reserve(host.environment().entries().size() + 1);
  if (!users_nnodes.empty()) variables_.emplace("RANKSHIM_NNODES", trimmed(users_nnodes));
  for (const std::string_view entry : host.environment().entries()) {
    const std::string_view name = node::entry_name(entry);  // if a name occurs twice, the first entry counts
    if (name.empty()) continue;
    const std::string_view value = trimmed(entry.substr(name.size() + 1));
    variables_.emplace(name, is_unquoted ? without_quotes(value) : value);
  }
}

std::optional<std::string_view> EvalContext::get(std::string_view name) const {
  const auto found = variables_.find(name);
  const bool is_set = found != variables_.end() && !found->second.empty();
  return is_set ? std::optional(found->second) : std::nullopt;
}

std::optional<Value> Evaluation::value(const Expression& expression) {
  if (trace_ == nullptr) return evaluate(expression);
  const Lack before = trace_->lack;
  auto result = evaluate(expression);
  if (result) trace_->lack = before;  // an expression that yields something lacks nothing
  return result;
}

std::optional<Value> Evaluation::evaluate(const Expression& expression) {
  const auto children = expression.children;
  switch (expression.function) {
    case Function::text:
      return something({std::string(expression.text), Origin::fallback, {}});
    case Function::variable:
      return variable_value(expression.text);
    case Function::either:
      for (const Expression& one : children)
        if (auto first = value(one)) return first;
      return std::nullopt;
    case Function::join:
      return join(children);
    case Function::only_if:
      return only_if(children);
    case Function::unless:
      return unless(children);
    default:
      return call(expression.function, children);
  }
}

Facts Evaluation::facts() {
  Facts facts;
  for (const FactExpression& one : profile_.facts) facts[one.fact] = value(one.expression);
  return facts;
}

bool Evaluation::holds(const Expression& condition) {
  if (condition.is_negative()) return !holds(condition.children[0]) && holds(condition.children[1]);
  if (condition.function == Function::variable) return variable(condition.text).has_value();
  return value(condition).has_value();
}

std::vector<Expression> Evaluation::met(const Conditions& conditions) {
  const auto [all, any] = conditions;
  const auto is_met = [&](const Expression& condition) { return holds(condition); };
  if (!std::ranges::all_of(all, is_met)) return {};
  const auto one = std::ranges::find_if(any, is_met);
  std::vector<Expression> met;
  if (one != any.end())
    met.push_back(*one);
  else if (!any.empty())
    return {};
  met.insert(met.end(), all.begin(), all.end());
  return met;
}

std::optional<std::string_view> Evaluation::variable(std::string_view name) {
  auto value = context_.get(name);
  if (value && node::is_service_link(*value)) {
    add_once(in_quotes(name) + "=" + in_quotes(*value) + " is a Kubernetes service link and is ignored",
             context_.warnings);
    value.reset();
  }
  if (trace_ != nullptr) trace_->variable(name, value);
  return value;
}

std::optional<Value> Evaluation::variable_value(std::string_view name) {
  const auto text = variable(name);
  return text ? std::optional(Value{std::string(*text), Origin::variable, std::string(name)}) : std::nullopt;
}

std::optional<Value> Evaluation::join(Expressions parts) {
  Value result;
  bool is_whole = true;
  for (const Expression& one : parts) {  // all of them, for the trace
    const auto part = value(one);
    is_whole = is_whole && part && result.text.size() + part->text.size() <= longest_value;
    if (!is_whole) continue;
    result.text += part->text;
    note_source(result, *part);
  }
  return is_whole ? something(std::move(result)) : std::nullopt;
}

std::optional<Value> Evaluation::only_if(Expressions arguments) {
  auto text = value(arguments[0]);
  if (!text) return std::nullopt;
  const auto glob = value(arguments[1]);
  if (!glob || !glob_match(text->text, glob->text)) return std::nullopt;
  if (arguments.size() == 2) return text;
  auto chosen = value(arguments[2]);
  // A text has no source, so the source of the tested text is used.
  if (chosen && chosen->origin == Origin::fallback) {
    note_source(*chosen, *text);
    note_source(*chosen, *glob);
  }
  return chosen;
}

std::optional<Value> Evaluation::unless(Expressions arguments) {
  Trace* const trace = std::exchange(trace_, nullptr);  // what should be absent is not missing
  const bool is_there = holds(arguments[0]);
  trace_ = trace;
  return is_there ? std::nullopt : value(arguments[1]);
}

std::optional<Value> Evaluation::call(Function function, Expressions children) {
  std::vector<Value> arguments;
  for (const Expression& one : children) {
    auto argument = value(one);
    if (!argument) return std::nullopt;
    arguments.push_back(std::move(*argument));
  }
  switch (function) {
    case Function::hostname:
      if (trace_ != nullptr)
        trace_->inputs.push_back({{}, "this node's name is " + in_quotes(context_.host.host_name()), true});
      return something({context_.host.host_name(), Origin::hostname, {}});
    case Function::domain:
      return domain();
    case Function::address: {
      auto own = context_.host.address_towards({});
      return own ? something({std::move(*own), Origin::derived, "this node's own address"}) : std::nullopt;
    }
    case Function::file:
      return file(arguments[0]);
    case Function::named_variable:
      return variable_value(arguments[0].text);
    case Function::only_variable: {
      const auto names = names_like(arguments[0].text);
      const bool is_one = !names.empty() && std::ranges::count(names, names[0]) == std::ssize(names);
      return is_one ? variable_value(names[0]) : std::nullopt;
    }
    case Function::variables: {
      auto names = names_like(arguments[0].text);
      std::erase_if(names, [&](const std::string& name) { return context_.get(name) == "0"; });
      return something({joined(names, ","), Origin::derived, arguments[0].text});
    }
    default:
      break;
  }
  Value result;
  std::vector<std::string> texts;
  for (const Value& argument : arguments) {
    note_source(result, argument);
    texts.push_back(argument.text);
  }
  auto text =
      function == Function::field ? json::field(texts[0], texts[1]) : signature(function).compute(texts);
  if (text && function == Function::positive) return std::move(arguments[0]);
  if (text) {
    result.text = std::move(*text);
    return something(std::move(result));
  }
  if (function == Function::field) check_document(arguments[0]);
  if (trace_ != nullptr) trace_->failed(function, arguments);
  return std::nullopt;
}

void Evaluation::check_document(const Value& document) {
  const std::string error = json::error(document.text);
  if (error.empty()) return;
  std::vector<std::string> names;
  document.append_inputs("a document", names);
  // The platform may still be writing the file; an incomplete file will become complete.
  const bool is_transient = !profile_.pending.empty() && context_.host.file(names.back()).has_value();
  add_unreadable(joined(names) + " is not JSON (" + error + ")", names, "correct it", is_transient);
}

void Evaluation::add_unreadable(std::string what, std::vector<std::string> names, std::string fix,
                                bool is_transient) {
  if (std::ranges::find(context_.unreadable, what, &Fault::what) != context_.unreadable.end()) return;
  fix +=
      ", or describe this node with --platform=generic, --nnodes, --node-rank and --master-addr "
      "(RANKSHIM_PLATFORM, …)";
  context_.unreadable.push_back(
      {ErrorCode::document, std::move(what), std::move(names), std::move(fix), is_transient});
}

std::vector<std::string> Evaluation::names_like(std::string_view glob) {
  std::vector<std::string> names;
  for (const std::string& entry : context_.host.environment().entries()) {
    const std::string_view name = node::entry_name(entry);
    if (!name.empty() && glob_match(name, glob) && variable(name)) names.emplace_back(name);
  }
  if (trace_ != nullptr) trace_->variables(glob, !names.empty());
  return names;
}

/// With setHostnameAsFQDN a pod's host name is its full name. Otherwise, if a pod has a subdomain, the
/// kubelet writes its full name to /etc/hosts (Kubernetes documentation, "DNS for Services and Pods").
std::optional<Value> Evaluation::domain() {
  const std::string own = context_.host.host_name();
  if (const auto dot = own.find('.'); dot != std::string::npos)
    return something({own.substr(dot + 1), Origin::hostname, {}});
  const auto content = context_.host.file("/etc/hosts");
  return content ? something({node::domain_in_hosts(*content, own), Origin::file, "/etc/hosts"})
                 : std::nullopt;
}

std::optional<Value> Evaluation::file(const Value& path) {
  auto content = path.text.starts_with('/') ? context_.host.file(path.text) : std::nullopt;
  if (trace_ != nullptr) trace_->file(path, content);
  if (!content) return std::nullopt;
  if (content->size() <= largest_file)
    return something({std::string(trimmed(*content)), Origin::file, path.text});
  // A truncated list would count too few nodes.
  add_unreadable(path.text + " is larger than 1 MiB", {path.text}, "shorten it", false);
  return std::nullopt;
}

void Trace::variable(std::string_view name, std::optional<std::string_view> value) {
  inputs.push_back({std::string(name), value ? shown(name, *value) : "", value.has_value()});
  if (value) return;
  if (host_.environment().has(name)) {
    const auto text = host_.environment().get(name);
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
    if (!has_part(lack.remedy, verb + name, ", or "))
      lack.remedy.append(lack.remedy.empty() ? "" : ", or ").append(verb).append(name);
    add_once(std::move(name), lack.names);
  }
}

Causes causes_of(std::span<const Expression> conditions, const Profile& profile, EvalContext& context) {
  Causes causes;
  for (const Expression& condition : conditions) {
    Trace trace(context.host);
    Evaluation(profile, context, &trace).holds(condition);
    const bool has_read = std::ranges::any_of(
        trace.inputs, [](const Trace::Input& one) { return one.is_there && !one.name.empty(); });
    add_variables(condition, causes.names);
    for (auto& [name, shown, is_there] : trace.inputs) {
      const bool is_file = name.starts_with('/');
      if (is_there && !shown.empty()) add_once(std::move(shown), causes.shown);
      if (!has_read && !is_there && condition.is_negative())
        add_once(is_file ? "there is no " + name : name + " is not set", causes.shown);
      if (!name.empty()) add_once(std::move(name), causes.names);
    }
  }
  return causes;
}

Causes causes_of(const Profile& profile, const Host& host) {
  EvalContext context(host);
  Evaluation evaluation(profile, context);
  std::vector<Expression> conditions;
  std::ranges::copy_if(profile.signs, std::back_inserter(conditions),
                       [&](const Expression& sign) { return evaluation.holds(sign); });
  for (const Conditions& way : profile.match) {
    const std::vector<Expression> met = evaluation.met(way);
    std::ranges::copy_if(met, std::back_inserter(conditions),
                         [](const Expression& one) { return !one.is_negative(); });
    if (!met.empty()) break;
  }
  return causes_of(conditions, profile, context);
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

Lack lack_of(const Profile& profile, Fact fact, const Host& host) {
  EvalContext context(host);
  Trace trace(host);
  const auto found = std::ranges::find(profile.facts, fact, &FactExpression::fact);
  if (found == profile.facts.end()) return {};
  add_variables(found->expression, trace.lack.names);
  std::erase_if(trace.lack.names, [&](const std::string& name) { return context.get(name).has_value(); });
  Evaluation(profile, context, &trace).value(found->expression);
  if (!trace.lack.remedy.empty()) trace.lack.remedy += ", or ";
  return trace.lack;
}

}  // namespace rankshim::platform
