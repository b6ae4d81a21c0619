#include "platform/recognise.h"

#include <algorithm>
#include <array>

#include "base/nearest.h"
#include "base/read_file.h"
#include "base/text.h"
#include "platform/json_field.h"
#include "platform/variables.h"

namespace rankshim::platform {
namespace {

constexpr std::string_view blanks = " \t\r\n";
constexpr std::size_t longest_value =
    1 << 20;  // as much as a file may hold; bounds what a profile can put together

/// Evaluates the expressions of one profile on one node. The depth of the recursion is that of the nesting,
/// which the parser bounds.
class Evaluation {
 public:
  Evaluation(const Profile& profile, const Node& node, const Variables& variables,
             std::vector<std::string>& warnings, Faults& unreadable)
      : profile_(profile),
        tables_(*profile.tables),
        node_(node),
        variables_(variables),
        warnings_(warnings),
        unreadable_(unreadable) {}

  std::optional<Value> value(std::uint16_t root) {
    const Step& step = tables_.steps[root];
    switch (step.op) {
      case Op::text:
        return something({std::string(tables_.text(step.index)), Origin::fallback, {}});
      case Op::variable:
        if (const auto text = variable(tables_.text(step.index)))
          return Value{std::string(*text), Origin::variable, std::string(tables_.text(step.index))};
        return std::nullopt;
      case Op::either: {
        auto first = value(child(step, 0));
        return first ? first : value(child(step, 1));
      }
      case Op::join:
        return join(step);
      case Op::call:
        return call(step);
    }
    return std::nullopt;
  }

  bool holds(const Condition& condition) {
    const Step& step = tables_.steps[condition.root];
    // Almost all conditions ask a variable; they need no copy of it.
    if (step.op == Op::variable) return holds(condition, variable(tables_.text(step.index)));
    const auto result = value(condition.root);
    return holds(condition, result ? std::optional<std::string_view>(result->text) : std::nullopt);
  }

  bool holds(const Alternative& alternative) {
    const auto conditions = tables_.conditions_of(alternative);
    return std::all_of(conditions.begin(), conditions.end(),
                       [&](const Condition& condition) { return holds(condition); });
  }

  /// Appends the variables and files that an expression reads, each once: all, or those that are not there.
  void add_inputs(std::uint16_t root, bool all, std::vector<std::string>& names) {
    const Step& step = tables_.steps[root];
    const auto add = [&](std::string_view name, bool there) {
      if ((all || !there) && std::find(names.begin(), names.end(), name) == names.end())
        names.emplace_back(name);
    };
    if (step.op == Op::variable) {
      add(tables_.text(step.index), variable(tables_.text(step.index)).has_value());
    } else if (step.function == Function::variables) {
      if (const auto glob = value(child(step, 0))) add(glob->text, false);
    } else if (step.function == Function::file || step.function == Function::variable ||
               step.function == Function::only_variable) {
      if (const auto name = value(child(step, 0))) add(name->text, value(root).has_value());
    }
    if (step.op == Op::text || step.op == Op::variable) return;
    // What may be left out, as another text stands for it, is not missing.
    if (step.op == Op::either && !all && tables_.steps[child(step, 1)].op == Op::text) return;
    for (const std::uint16_t one : tables_.children_of(step)) add_inputs(one, all, names);
  }

 private:
  [[nodiscard]] bool holds(const Condition& condition, std::optional<std::string_view> value) const {
    switch (condition.sign) {
      case Sign::set:
        return value.has_value();
      case Sign::not_set:
        return !value;
      case Sign::like:
        return value && fits(*value, tables_.text(condition.glob));
      case Sign::unlike:
        return !value || !fits(*value, tables_.text(condition.glob));
    }
    return false;
  }

  [[nodiscard]] std::uint16_t child(const Step& step, std::size_t index) const {
    return tables_.children_of(step)[index];
  }

  static std::optional<Value> something(Value value) {
    if (value.text.empty() || value.text.size() > longest_value) return std::nullopt;
    return value;
  }

  bool is_unset(const Step& step) { return step.op == Op::variable && !variable(tables_.text(step.index)); }

  std::optional<std::string_view> variable(std::string_view name) {
    const auto value = variables_.get(name);
    if (!value || !is_service_link(*value)) return value;
    std::string warning = quoted(name) + "=" + quoted(*value) + std::string(link_ignored);
    if (std::find(warnings_.begin(), warnings_.end(), warning) == warnings_.end())
      warnings_.push_back(std::move(warning));
    return std::nullopt;
  }

  /// Adds what `part` came from to the detail of what is derived from it.
  static void note_source(Value& derived, const Value& part) {
    std::string_view rest = part.origin == Origin::hostname ? "hostname" : std::string_view(part.detail);
    while (!rest.empty()) {  // itself derived from several perhaps
      const std::string name(rest.substr(0, rest.find(", ")));
      rest.remove_prefix(std::min(name.size() + 2, rest.size()));
      derived.origin = Origin::derived;
      if ((", " + derived.detail + ", ").find(", " + name + ", ") != std::string::npos) continue;
      derived.detail += (derived.detail.empty() ? "" : ", ") + name;
    }
  }

  std::optional<Value> join(const Step& step) {
    Value result;
    for (const std::uint16_t one : tables_.children_of(step)) {
      const auto part = value(one);
      if (!part || result.text.size() + part->text.size() > longest_value) return std::nullopt;
      result.text += part->text;
      note_source(result, *part);
    }
    return something(std::move(result));
  }

  std::optional<Value> call(const Step& step) {
    if (step.function == Function::only_if) {
      const auto condition = value(child(step, 0));
      if (!condition) return std::nullopt;
      const auto glob = value(child(step, 1));
      if (!glob || !fits(condition->text, glob->text)) return std::nullopt;
      auto chosen = value(child(step, 2));
      // A text has no source of its own: what chose it is its source.
      if (chosen && chosen->origin == Origin::fallback) {
        note_source(*chosen, *condition);
        note_source(*chosen, *glob);
      }
      return chosen;
    }
    if (step.function == Function::unless)
      return value(child(step, 0)) ? std::nullopt : value(child(step, 1));
    const auto children = tables_.children_of(step);
    // Most are asked about a variable that is not there.
    if (!children.empty() && is_unset(tables_.steps[children.front()])) return std::nullopt;
    Value result;
    Value first;  // where the first argument comes from
    std::vector<std::string> arguments;
    arguments.reserve(children.size());
    for (const std::uint16_t one : children) {
      auto argument = value(one);
      if (!argument) return std::nullopt;
      note_source(result, *argument);
      if (arguments.empty()) note_source(first, *argument);
      arguments.push_back(std::move(argument->text));
    }
    switch (step.function) {
      case Function::hostname:
        return something({node_.host_name(), Origin::hostname, {}});
      case Function::hostname_like: {
        std::string name = node_.host_name();
        if (!fits(name, arguments[0])) return std::nullopt;
        return something({std::move(name), Origin::hostname, {}});
      }
      case Function::domain:
        return domain();
      case Function::address: {
        auto own = node_.address_towards({});
        return own ? something({std::move(*own), Origin::derived, "this node's own address"}) : std::nullopt;
      }
      case Function::only_variable:
        return only_variable(arguments[0]);
      case Function::variables:
        return all_variables(arguments[0]);
      case Function::file:
        return file(arguments[0]);
      case Function::variable: {
        const auto text = variable(arguments[0]);
        return text ? std::optional(Value{std::string(*text), Origin::variable, arguments[0]}) : std::nullopt;
      }
      default:
        break;
    }
    auto text = compute(step.function, arguments);
    if (!text && step.function == Function::field) check_document(first, arguments[0]);
    if (!text) return std::nullopt;
    result.text = std::move(*text);
    return something(std::move(result));
  }

  /// A document that is there and cannot be read says something, only not what: to go on without it may be to
  /// train alone. `from` has where it comes from.
  void check_document(const Value& from, const std::string& document) {
    const std::string error = json_error(document);
    if (error.empty()) return;
    Fault fault{from.detail + " is no JSON (" + error + ")",
                {},
                "correct it, or say this node's place with --platform=generic, --nnodes, --node-rank and "
                "--master-addr (RANKSHIM_PLATFORM, …)"};
    from.append_inputs("a document", fault.names);
    // Where a platform writes its file while we look, what is half of it becomes whole.
    fault.passes = !profile_.pending().empty() && node_.file(fault.names.back()).has_value();
    add_unreadable(std::move(fault));
  }

  void add_unreadable(Fault fault) {
    const bool said = std::any_of(unreadable_.begin(), unreadable_.end(),
                                  [&](const Fault& other) { return other.what == fault.what; });
    if (!said) unreadable_.push_back(std::move(fault));
  }

  std::optional<Value> all_variables(const std::string& glob) {
    Value names{{}, Origin::derived, glob};
    for (const std::string& entry : node_.environment().entries()) {
      const std::string_view name = entry_name(entry);
      if (name.empty() || !fits(name, glob)) continue;
      const auto text = variable(name);
      if (!text || *text == "0") continue;
      if (!names.text.empty()) names.text += ',';
      names.text += name;
    }
    return something(std::move(names));
  }

  std::optional<Value> only_variable(std::string_view glob) {
    std::string_view found;
    for (const std::string& entry : node_.environment().entries()) {
      const std::string_view name = entry_name(entry);
      if (name.empty() || name == found || !fits(name, glob) || !variable(name)) continue;
      if (!found.empty()) return std::nullopt;
      found = name;
    }
    if (found.empty()) return std::nullopt;
    return Value{std::string(*variable(found)), Origin::variable, std::string(found)};
  }

  /// With setHostnameAsFQDN a pod's host name is its full one; else a pod with a subdomain has that in
  /// /etc/hosts, where the kubelet writes it (Kubernetes documentation, "DNS for Services and Pods").
  std::optional<Value> domain() {
    std::string own = node_.host_name();
    if (const auto dot = own.find('.'); dot != std::string::npos)
      return something({own.substr(dot + 1), Origin::hostname, {}});
    const auto content = node_.file("/etc/hosts");
    own += '.';
    if (!content || own.size() == 1) return std::nullopt;
    std::string_view rest = *content;
    while (!rest.empty()) {
      std::string_view line = rest.substr(0, rest.find('\n'));
      rest.remove_prefix(std::min(line.size() + 1, rest.size()));
      line = line.substr(0, line.find('#'));
      for (std::size_t at = 0; (at = line.find(own, at)) != std::string_view::npos; ++at) {
        if (at == 0 || blanks.find(line[at - 1]) == std::string_view::npos) continue;
        const std::string_view name = line.substr(at + own.size());
        return something(
            {std::string(name.substr(0, name.find_first_of(blanks))), Origin::file, "/etc/hosts"});
      }
    }
    return std::nullopt;
  }

  std::optional<Value> file(const std::string& path) {
    if (!path.starts_with('/')) return std::nullopt;
    const auto content = node_.file(path);
    if (!content) return std::nullopt;
    if (content->size() > largest_file) {  // a list that is cut would count too few nodes
      add_unreadable(
          {path + " is larger than 1 MiB",
           {path},
           "shorten it, or say this node's place with --platform=generic, --nnodes, --node-rank and "
           "--master-addr (RANKSHIM_PLATFORM, …)"});
      return std::nullopt;
    }
    return something({std::string(trimmed(*content)), Origin::file, path});
  }

  const Profile& profile_;
  const Tables& tables_;
  const Node& node_;
  const Variables& variables_;
  std::vector<std::string>& warnings_;
  Faults& unreadable_;
};

/// The calls that decide whether a place counts at all: where they yield nothing there is nothing to correct.
bool is_gate(Function function) { return function == Function::larger || function == Function::differ; }

/// Says in a person's words why expressions of one profile yield nothing, or a condition holds.
class Reasons {
 public:
  Reasons(const Profile& profile, const Node& node, const Variables& variables, const Evaluation& evaluation)
      : tables_(*profile.tables), node_(node), variables_(variables), evaluation_(evaluation) {}

  /// Why an expression that yields nothing does so.
  void add_lack(std::uint16_t root, Lack& lack) {
    const Step& step = tables_.steps[root];
    if (step.op == Op::variable) return add_unset(tables_.text(step.index), lack);
    if (step.op == Op::text) return;
    if (step.op == Op::call) return add_lack_of_call(step, lack);
    for (const std::uint16_t one : tables_.children_of(step))
      if (!evaluation_.value(one)) add_lack(one, lack);
  }

  /// The variables by which a condition holds: "ROLE=launcher", "STEP_ID is not set"; each once.
  void add_evidence(const Condition& condition, std::vector<std::string>& evidence) {
    std::vector<std::string> names, found;
    evaluation_.add_inputs(condition.root, true, names);
    for (const std::string& name : names)
      for (const std::string& entry : node_.environment().entries())
        if (const auto its = entry_name(entry); !its.empty() && fits(its, name) && variables_.get(its))
          found.push_back(shown(its, *variables_.get(its)));
    const bool asks_for_none = condition.sign == Sign::not_set || condition.sign == Sign::unlike;
    if (found.empty())
      for (const std::string& name : names) {
        if (name.front() == '/')
          found.push_back(asks_for_none ? "there is no " + name : name);
        else if (asks_for_none)
          found.push_back(name + " is not set");
      }
    for (std::string& one : found) add_once(std::move(one), evidence);
  }

 private:
  /// NAME=VALUE, of a value that can be a long document its beginning.
  static std::string shown(std::string_view name, std::string_view value) {
    constexpr std::size_t longest_shown = 80;
    const std::string_view start = cut(value, longest_shown);
    return std::string(name) + "=" + quoted(start) + (start.size() < value.size() ? "…" : "");
  }

  /// A value as what it came from: NAME=VALUE, a file's path, "this node's name gpu-3".
  static std::string shown(const Value& value) {
    switch (value.origin) {
      case Origin::variable:
        return shown(value.detail, value.text);
      case Origin::hostname:
        return "this node's name " + quoted(value.text);
      case Origin::fallback:
        return value.text;
      default:
        return value.detail;
    }
  }

  static void add_once(std::string text, std::vector<std::string>& all) {
    if (std::find(all.begin(), all.end(), text) == all.end()) all.push_back(std::move(text));
  }

  void add_unset(std::string_view name, Lack& lack) {
    if (node_.environment().has(name)) {
      const auto text = node_.environment().get(name);
      return add_unusable(
          Value{{}, Origin::variable, std::string(name)},
          text ? shown(name, *text) + " is a Kubernetes service link" : std::string(name) + " is empty",
          lack);
    }
    add_once(std::string(name), lack.unset);
    add_once(std::string(name), lack.names);
  }

  static void add_unusable(const Value& what, std::string why, Lack& lack,
                           const std::string& verb = "correct ") {
    add_once(std::move(why), lack.unusable);
    std::vector<std::string> names;
    what.append_inputs({}, names);
    for (std::string& name : names) {
      if (name.find(' ') != std::string::npos) continue;  // this node's own address
      if (lack.remedy.find(name) == std::string::npos)
        lack.remedy.append(lack.remedy.empty() ? "" : ", or ").append(verb).append(name);
      add_once(std::move(name), lack.names);
    }
  }

  void add_lack_of_call(const Step& step, Lack& lack) {
    const auto children = tables_.children_of(step);
    if (step.function == Function::unless) return add_lack(children[1], lack);
    std::vector<Value> arguments;
    for (const std::uint16_t one : children) {
      if (step.function == Function::only_if && arguments.size() == 2) {
        if (!fits(arguments[0].text, arguments[1].text)) return;  // another place's case
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

  void add_lack_of_file(const Value& path, Lack& lack) {
    if (path.origin == Origin::fallback) {  // where it usually is
      add_once(path.text, lack.absent);
      return add_once(path.text, lack.names);
    }
    path.append_inputs({}, lack.names);
    const Value file{{}, Origin::file, path.text};
    if (!path.text.starts_with('/'))
      return add_unusable(path, shown(path) + " is no path from the root", lack);
    if (node_.file(path.text)) return add_unusable(file, shown(path) + " is an empty file", lack);
    add_unusable(file, shown(path) + " cannot be read here", lack, "mount ");
  }

  /// What is wrong with the first argument.
  static std::string complaint(Function function, const std::vector<Value>& arguments) {
    const auto second = [&] { return arguments.size() > 1 ? shown(arguments[1]) : std::string(); };
    switch (function) {
      case Function::slurm_hosts:
        return "is no host list of Slurm's";
      case Function::hosts:
      case Function::first_host:
        return "names no host";
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
        return "names no host";
      case Function::port:
        return "has no port";
      case Function::before:
      case Function::after:
      case Function::until:
        return "has no '" + second() + "' in it";
      case Function::slurm_tasks:
        return "does not say the tasks of node " + second();
      case Function::divide:
        return "is no multiple of " + second();
      default:
        return arguments.size() > 1 ? "does not go with " + second() : "cannot be used";
    }
  }

  const Tables& tables_;
  const Node& node_;
  const Variables& variables_;
  Evaluation evaluation_;
};

struct Match {
  const Profile* profile;
  std::size_t signs;
  bool own;

  [[nodiscard]] bool operator<(const Match& other) const {
    const auto& a = *profile;
    const auto& b = *other.profile;
    if (a.fallback != b.fallback) return a.fallback < b.fallback;
    if (own != other.own) return own;
    if (a.granularity != b.granularity) return a.granularity == Granularity::process;
    if (signs != other.signs) return signs > other.signs;
    return a.name() < b.name();
  }
};

/// One of a profile's roles, refusals or pending states, in which this node is; the name is empty where in
/// none.
struct State {
  std::string name;
  std::string because;
  std::string fix;
  std::vector<std::string> names;
};

bool fits_any(std::string_view text, std::string_view globs) {
  while (!globs.empty()) {
    const std::string_view glob = globs.substr(0, globs.find(','));
    if (fits(text, glob)) return true;
    globs.remove_prefix(std::min(glob.size() + 1, globs.size()));
  }
  return false;
}

bool supersedes(const Profile& profile, const Profile& other) {
  return &profile != &other && fits_any(other.name(), profile.supersedes());
}

/// How many positive conditions the most specific fulfilled alternative has; nothing where none is fulfilled.
std::optional<std::size_t> fulfilled(const Profile& profile, Evaluation evaluation) {
  std::optional<std::size_t> best;
  for (const Alternative& alternative : profile.match()) {
    if (!evaluation.holds(alternative)) continue;
    const auto conditions = profile.tables->conditions_of(alternative);
    const auto positive = std::count_if(conditions.begin(), conditions.end(), [](const Condition& c) {
      return c.sign == Sign::set || c.sign == Sign::like;
    });
    best = std::max(best.value_or(0), static_cast<std::size_t>(positive));
  }
  return best;
}

/// By what the profile was recognised: what is there, of the first way that is fulfilled.
void add_recognised(const Profile& profile, const Node& node, const Variables& variables,
                    Evaluation evaluation, Platform& platform) {
  const auto ways = profile.match();
  const auto way =
      std::find_if(ways.begin(), ways.end(), [&](const Alternative& one) { return evaluation.holds(one); });
  if (way == ways.end()) return;
  Reasons reasons(profile, node, variables, evaluation);
  std::vector<std::string> evidence;
  for (const Condition& condition : profile.tables->conditions_of(*way)) {
    if (condition.sign == Sign::not_set || condition.sign == Sign::unlike) continue;
    evaluation.add_inputs(condition.root, true, platform.evidence_names);
    reasons.add_evidence(condition, evidence);
  }
  for (const std::string& one : evidence) platform.evidence += (platform.evidence.empty() ? "" : ", ") + one;
}

Facts read_facts(const Profile& profile, Evaluation evaluation) {
  Facts facts;
  for (const Place& place : profile.places())
    if (!facts.has(place.fact)) facts[place.fact] = evaluation.value(place.root);
  return facts;
}

/// Numbers on which two platforms of one job cannot differ.
constexpr auto decisive = std::to_array<Fact>({Fact::nnodes, Fact::node_rank, Fact::rank, Fact::world_size});

/// "NAME=VALUE", or "nnodes=VALUE (derived from …)".
std::string said(Fact fact, const Value& value) {
  if (value.origin == Origin::variable) return printable(value.detail) + "=" + quoted(value.text);
  return std::string(name(fact)) + "=" + quoted(value.text) + " (" + value.source() + ")";
}

/// Whether both are the same number of nodes, as 2, 02 and 2:2 are.
bool same_number(const std::string& a, const std::string& b) {
  const auto least = [](const std::string& text) {
    const auto colon = text.find(':');
    const bool range = colon != std::string::npos && text.substr(0, colon) != text.substr(colon + 1);
    return range ? text : text.substr(0, colon);
  };
  return !compute(Function::differ, std::array{least(a), least(b)});
}

void compare(const Platform& winner, const Profile& other, const Facts& theirs, Faults& faults) {
  for (const Fact fact : decisive) {
    const auto &mine = winner.facts[fact], &its = theirs[fact];
    if (!mine || !its || same_number(mine->text, its->text)) continue;
    Fault fault{said(fact, *mine) + " of " + winner.name + " contradicts " + said(fact, *its) + " of " +
                    std::string(other.name()),
                {},
                other.fallback != 0 ? "unset what is left over" : "unset what is not this job's"};
    mine->append_inputs(name(fact), fault.names);
    its->append_inputs(name(fact), fault.names);
    faults.push_back(std::move(fault));
    return;
  }
}

Fault unknown_platform(std::span<const Profile> profiles, std::string_view wanted) {
  std::vector<std::string_view> names = {"auto", "none"};
  for (const Profile& profile : profiles) names.push_back(profile.name());
  const std::string begin = std::string(wanted) + "-";
  std::string near;
  for (const std::string_view name : names)
    if (name.starts_with(begin)) near += (near.empty() ? "" : ", ") + std::string(name);
  if (near.empty()) near = nearest(wanted, names);
  Fault fault{"there is no platform " + quoted(wanted), {"--platform"}, {}};
  if (!near.empty()) fault.fix = "did you mean " + near + "? ";
  fault.fix += "`rankshim platforms` lists them; choose one with --platform";
  return fault;
}

}  // namespace

Facts read_facts(const Profile& profile, const Node& node, std::vector<std::string>& warnings) {
  Faults unreadable;  // found when the profile was recognised, if it was
  const Variables variables(node.environment());
  return read_facts(profile, Evaluation(profile, node, variables, warnings, unreadable));
}

const Profile* find(std::span<const Profile> profiles, std::string_view name) {
  const auto found = std::find_if(profiles.begin(), profiles.end(),
                                  [&](const Profile& profile) { return profile.name() == name; });
  return found == profiles.end() ? nullptr : &*found;
}

bool is_agent(const Profile& profile, std::string_view program) {
  return fits_any(program.substr(program.rfind('/') + 1), profile.agents());
}

Lack lack_of(const Profile& profile, Fact fact, const Node& node) {
  const Variables variables(node.environment());
  std::vector<std::string> warnings;
  Faults unreadable;
  Evaluation evaluation(profile, node, variables, warnings, unreadable);
  Reasons reasons(profile, node, variables, evaluation);
  Lack lack;
  for (const Place& place : profile.places()) {
    if (place.fact != fact) continue;
    reasons.add_lack(place.root, lack);
    evaluation.add_inputs(place.root, false, lack.names);
  }
  if (!lack.remedy.empty()) lack.remedy += ", or ";
  return lack;
}

std::vector<std::string> ignored_variables(std::span<const Profile> profiles, const Node& node) {
  const Variables variables(node.environment());
  std::vector<std::string> warnings, inputs, names;
  Faults unreadable;
  for (const Profile& profile : profiles) {
    Evaluation evaluation(profile, node, variables, warnings, unreadable);
    if (profile.opt_in || !fulfilled(profile, evaluation)) continue;
    for (const Place& place : profile.places())
      if (place.fact == Fact::master_addr ||
          std::find(decisive.begin(), decisive.end(), place.fact) != decisive.end())
        evaluation.add_inputs(place.root, true, inputs);
  }
  for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK"}) inputs.emplace_back(name);
  for (std::string& name : inputs)
    if (variables.get(name) && std::find(names.begin(), names.end(), name) == names.end())
      names.push_back(std::move(name));
  return names;
}

Outcome<Platform> recognise(std::span<const Profile> profiles, std::string_view wanted, const Node& node,
                            std::size_t own) {
  Platform result;
  if (wanted == "none") {
    result.name = "none";
    std::string ignored;
    for (const std::string& name : ignored_variables(profiles, node))
      ignored += (ignored.empty() ? "" : ", ") + name;
    if (!ignored.empty())
      result.warnings.push_back("the platform is none, so these are ignored: " + ignored +
                                "; where other nodes are not named by options, this one trains alone");
    return result;
  }
  const Variables variables(node.environment());
  Faults unreadable;
  const auto evaluation_of = [&](const Profile& profile) {
    return Evaluation(profile, node, variables, result.warnings, unreadable);
  };
  std::vector<Match> matches;
  const Profile* winner = nullptr;
  if (wanted == "auto") {
    for (const Profile& profile : profiles) {
      if (profile.opt_in) continue;
      if (const auto signs = fulfilled(profile, evaluation_of(profile))) {
        const Match match{&profile, *signs, &profile < profiles.data() + own};
        matches.insert(std::upper_bound(matches.begin(), matches.end(), match), match);
      }
    }
    if (!unreadable.empty()) return unreadable;
    if (matches.empty()) return result;
    const auto first = std::find_if(matches.begin(), matches.end(), [&](const Match& match) {
      return std::none_of(matches.begin(), matches.end(),
                          [&](const Match& other) { return supersedes(*other.profile, *match.profile); });
    });
    if (first != matches.end()) std::rotate(matches.begin(), first, first + 1);
    winner = matches.front().profile;
    for (const Match& other : std::span(matches).subspan(1))
      if (other.profile->fallback <= winner->fallback)
        result.also_matched.emplace_back(other.profile->name());
  } else {
    winner = find(profiles, wanted);
    if (winner == nullptr) return Faults{unknown_platform(profiles, wanted)};
  }

  result.profile = winner;
  result.name = winner->name();
  result.granularity = winner->granularity;
  result.facts = read_facts(*winner, evaluation_of(*winner));
  add_recognised(*winner, node, variables, evaluation_of(*winner), result);
  Evaluation evaluation = evaluation_of(*winner);
  const auto state = [&](std::span<const Role> states) {
    State one;
    const auto found = std::find_if(states.begin(), states.end(),
                                    [&](const Role& role) { return evaluation.holds(role.when); });
    if (found == states.end()) return one;
    one.name = winner->tables->text(found->name);
    one.fix = winner->tables->text(found->fix);
    Reasons reasons(*winner, node, variables, evaluation);
    std::vector<std::string> evidence;
    for (const Condition& condition : winner->tables->conditions_of(found->when)) {
      evaluation.add_inputs(condition.root, true, one.names);
      reasons.add_evidence(condition, evidence);
    }
    for (const std::string& each : evidence) one.because += (one.because.empty() ? "" : ", ") + each;
    return one;
  };
  if (!unreadable.empty()) return unreadable;
  State idle = state(winner->roles()), pending = state(winner->pending());
  result.idle_role = std::move(idle.name);
  result.idle_because = std::move(idle.because);
  result.idle_fix = std::move(idle.fix);
  result.idle_names = std::move(idle.names);
  result.pending = std::move(pending.name);
  result.pending_names = std::move(pending.names);
  if (!unreadable.empty()) return unreadable;
  if (wanted != "auto" || !result.idle_role.empty() || !result.pending.empty()) return result;

  Faults faults;
  if (State refused = state(winner->refusals()); !refused.name.empty())
    faults.push_back({refused.name + " (" + refused.because + ")", std::move(refused.names),
                      refused.fix.empty() ? "correct it" : refused.fix});
  for (const Match& other : matches) {
    // Of the names that anybody may set torchrun's are a launcher's own; the generic ones are compared later.
    if (other.profile == winner || other.profile->fallback > 1 || supersedes(*winner, *other.profile))
      continue;
    compare(result, *other.profile, read_facts(*other.profile, evaluation_of(*other.profile)), faults);
  }
  if (!unreadable.empty()) return unreadable;
  result.doubts = std::move(faults);
  return result;
}

}  // namespace rankshim::platform
