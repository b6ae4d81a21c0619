#include "platform/evaluation.h"

#include <algorithm>
#include <array>

#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
#include "node/addresses.h"

namespace rankshim::platform {
namespace {

constexpr std::size_t longest_value =
    1 << 20;  // as much as a file may hold; bounds the length of a text that a profile joins

std::optional<Value> something(Value value) {
  if (value.text.empty() || value.text.size() > longest_value) return std::nullopt;
  return value;
}

/// Adds the source of `part` to the sources of what is derived from it.
void note_source(Value& derived, const Value& part) {
  std::string_view rest = part.origin == Origin::hostname ? "hostname" : std::string_view(part.detail);
  while (!rest.empty()) {  // may itself be derived from several
    const std::string_view name = take_part(rest, ", ");
    derived.origin = Origin::derived;
    if (!has_part(derived.detail, name, ", "))
      derived.detail.append(derived.detail.empty() ? "" : ", ").append(name);
  }
}

}  // namespace

VariableIndex::VariableIndex(const Environment& environment, std::string_view users_nnodes) {
  values_.reserve(environment.entries().size() + 1);
  if (!users_nnodes.empty()) values_.emplace("RANKSHIM_NNODES", users_nnodes);
  for (const std::string_view entry : environment.entries()) {
    const std::string_view name = entry_name(entry);  // of one that occurs twice, the first counts
    if (!name.empty()) values_.emplace(name, entry.substr(name.size() + 1));
  }
}

std::optional<std::string_view> VariableIndex::get(std::string_view name) const {
  const auto found = values_.find(name);
  const std::string_view value = found == values_.end() ? std::string_view() : trimmed(found->second);
  return value.empty() ? std::nullopt : std::optional(value);
}

std::optional<Value> Evaluation::value(const Expression& expression) {
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
    case Function::positive:
      return positive(children[0]);
    case Function::unless:
      return value(children[0]) ? std::nullopt : value(children[1]);
    default:
      return call(expression.function, children);
  }
}

Facts Evaluation::facts() {
  Facts facts;
  for (const FactExpression& one : profile_.facts)
    if (!facts.has(one.fact)) facts[one.fact] = value(one.expression);
  return facts;
}

bool Evaluation::holds(const Condition& condition) {
  const auto& [is_negative, expression, glob] = condition;
  // Almost all conditions are that a variable is set; they need no copy of it.
  if (expression.function == Function::variable && glob.empty())
    return variable(expression.text).has_value() != is_negative;
  const auto found = value(expression);
  return (found && (glob.empty() || fits(found->text, glob))) != is_negative;
}

bool Evaluation::holds(Alternative conditions) {
  return std::ranges::all_of(conditions, [&](const Condition& condition) { return holds(condition); });
}

void Evaluation::add_inputs(const Expression& expression, bool all, std::vector<std::string>& names) {
  const auto children = expression.children;
  const auto add = [&](std::string_view name) {
    const bool is_wanted = all || expression.function == Function::variables || !value(expression);
    if (is_wanted && std::ranges::find(names, name) == names.end()) names.emplace_back(name);
  };
  switch (expression.function) {
    case Function::variable:
      add(expression.text);
      break;
    case Function::file:
    case Function::named_variable:
    case Function::only_variable:
    case Function::variables:
      if (const auto name = value(children[0])) add(name->text);
      break;
    case Function::either:
      // A part that may be missing, because another text replaces it, does not count as missing.
      if (!all && children.back().function == Function::text) return;
      break;
    default:
      break;
  }
  for (const Expression& one : children) add_inputs(one, all, names);
}

std::optional<std::string_view> Evaluation::variable(std::string_view name) {
  const auto value = on_.variables.get(name);
  if (!value || !is_service_link(*value)) return value;
  std::string warning =
      in_quotes(name) + "=" + in_quotes(*value) + " is a Kubernetes service link and is ignored";
  if (std::find(on_.warnings.begin(), on_.warnings.end(), warning) == on_.warnings.end())
    on_.warnings.push_back(std::move(warning));
  return std::nullopt;
}

std::optional<Value> Evaluation::variable_value(std::string_view name) {
  const auto text = variable(name);
  return text ? std::optional(Value{std::string(*text), Origin::variable, std::string(name)}) : std::nullopt;
}

std::optional<Value> Evaluation::join(Expressions parts) {
  Value result;
  for (const Expression& one : parts) {
    const auto part = value(one);
    if (!part || result.text.size() + part->text.size() > longest_value) return std::nullopt;
    result.text += part->text;
    note_source(result, *part);
  }
  return something(std::move(result));
}

std::optional<Value> Evaluation::only_if(Expressions arguments) {
  const auto condition = value(arguments[0]);
  if (!condition) return std::nullopt;
  const auto glob = value(arguments[1]);
  if (!glob || !fits(condition->text, glob->text)) return std::nullopt;
  auto chosen = value(arguments[2]);
  // A text has no source: the source of the choice is used.
  if (chosen && chosen->origin == Origin::fallback) {
    note_source(*chosen, *condition);
    note_source(*chosen, *glob);
  }
  return chosen;
}

std::optional<Value> Evaluation::positive(const Expression& number) {
  auto result = value(number);
  const bool is_above = result && compute(Function::larger, std::array<std::string, 2>{result->text, "0"});
  return is_above ? result : std::nullopt;
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
      return something({on_.node.host_name(), Origin::hostname, {}});
    case Function::hostname_like: {
      std::string name = on_.node.host_name();
      return fits(name, arguments[0].text) ? something({std::move(name), Origin::hostname, {}})
                                           : std::nullopt;
    }
    case Function::domain:
      return domain();
    case Function::address: {
      auto own = on_.node.address_towards({});
      return own ? something({std::move(*own), Origin::derived, "this node's own address"}) : std::nullopt;
    }
    case Function::file:
      return file(arguments[0].text);
    case Function::named_variable:
      return variable_value(arguments[0].text);
    case Function::only_variable:
      return only_variable(arguments[0].text);
    case Function::variables:
      return all_variables(arguments[0].text);
    default:
      break;
  }
  Value result;
  std::vector<std::string> texts;
  for (const Value& argument : arguments) {
    note_source(result, argument);
    texts.push_back(argument.text);
  }
  auto text = compute(function, texts);
  if (!text && function == Function::field) check_document(arguments[0]);
  if (!text) return std::nullopt;
  result.text = std::move(*text);
  return something(std::move(result));
}

void Evaluation::check_document(const Value& document) {
  const std::string error = json::error(document.text);
  if (error.empty()) return;
  Value from;
  note_source(from, document);
  Fault fault{Anchor::document,
              from.detail + " is not JSON (" + error + ")",
              {},
              "correct it, or describe this node with --platform=generic, --nnodes, --node-rank and "
              "--master-addr (RANKSHIM_PLATFORM, …)"};
  from.append_inputs("a document", fault.names);
  // The platform may be writing the file now; an incomplete file becomes complete.
  fault.transient = !profile_.pending.empty() && on_.node.file(fault.names.back()).has_value();
  add_unreadable(std::move(fault));
}

void Evaluation::add_unreadable(Fault fault) {
  const bool is_known = std::any_of(on_.unreadable.begin(), on_.unreadable.end(),
                                    [&](const Fault& other) { return other.what == fault.what; });
  if (!is_known) on_.unreadable.push_back(std::move(fault));
}

std::optional<Value> Evaluation::all_variables(std::string_view glob) {
  Value names{{}, Origin::derived, std::string(glob)};
  for (const std::string& entry : on_.node.environment().entries()) {
    const std::string_view name = entry_name(entry);
    if (name.empty() || !fits(name, glob)) continue;
    const auto text = variable(name);
    if (!text || *text == "0") continue;
    if (!names.text.empty()) names.text += ',';
    names.text += name;
  }
  return something(std::move(names));
}

std::optional<Value> Evaluation::only_variable(std::string_view glob) {
  std::string_view found;
  for (const std::string& entry : on_.node.environment().entries()) {
    const std::string_view name = entry_name(entry);
    if (name.empty() || name == found || !fits(name, glob) || !variable(name)) continue;
    if (!found.empty()) return std::nullopt;
    found = name;
  }
  return variable_value(found);
}

/// With setHostnameAsFQDN a pod's host name is its full name; else a pod with a subdomain has the full name
/// in /etc/hosts, where the kubelet writes it (Kubernetes documentation, "DNS for Services and Pods").
std::optional<Value> Evaluation::domain() {
  const std::string own = on_.node.host_name();
  if (const auto dot = own.find('.'); dot != std::string::npos)
    return something({own.substr(dot + 1), Origin::hostname, {}});
  const auto content = on_.node.file("/etc/hosts");
  return content ? something({domain_in_hosts(*content, own), Origin::file, "/etc/hosts"}) : std::nullopt;
}

std::optional<Value> Evaluation::file(const std::string& path) {
  if (!path.starts_with('/')) return std::nullopt;
  const auto content = on_.node.file(path);
  if (!content) return std::nullopt;
  if (content->size() > largest_file) {  // a list that is cut would count too few nodes
    add_unreadable({Anchor::document,
                    path + " is larger than 1 MiB",
                    {path},
                    "shorten it, or describe this node with --platform=generic, --nnodes, --node-rank and "
                    "--master-addr (RANKSHIM_PLATFORM, …)"});
    return std::nullopt;
  }
  return something({std::string(trimmed(*content)), Origin::file, path});
}

}  // namespace rankshim::platform
