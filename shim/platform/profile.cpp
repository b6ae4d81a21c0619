#include "platform/profile.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/text.h"
#include "base/toml.h"
#include "platform/expression.h"

namespace rankshim::platform {

namespace {

bool counts_something(Fact fact) {
  return fact == Fact::nnodes || fact == Fact::node_rank || fact == Fact::nproc_per_node ||
         fact == Fact::master_port || fact == Fact::attempt || fact >= Fact::max_restarts;
}

/// Whether a plain text was probably meant to be a variable's value.
bool looks_like_variable(std::string_view text, bool is_count) {
  if (!is_count) return was_meant_as_value(text);
  return is_shell_name(text) && text != "auto" && text != "gpu" && text != "cpu";
}

/// The variables of an expression, or the word for a file if it has none.
std::string inputs_of(const Expression& expression) {
  std::vector<std::string> names;
  add_variables(expression, names);
  return names.empty() ? "a file" : joined(names);
}

constexpr auto top_keys =
    std::to_array<std::string_view>({"title", "kind", "opt_in", "signs", "unless", "supersedes", "agents",
                                     "let", "match", "facts", "idle_role", "refuse", "warn", "pending"});
constexpr auto match_keys = std::to_array<std::string_view>({"all", "any"});
constexpr auto role_keys = std::to_array<std::string_view>({"name", "fix", "when", "any"});
constexpr auto same_keys = std::to_array<std::string_view>({"same"});

/// Reads one parsed document and collects faults.
class ProfileReader : public TomlDocument {
 public:
  ProfileReader(std::string_view path, Arena& arena, Faults& faults)
      : TomlDocument(path, faults), arena_(arena), faults_(faults) {}

  void read(const toml::table& top, Profile& profile) {
    reject_unknown(top, top_keys);
    profile.title = required_text(top, "title", "describe the platform in a few words");
    if (const auto* kind = get<toml::value<std::string>>(top, "kind", "a string")) {
      const auto found = std::ranges::find(kind_names, kind->get());
      if (found == kind_names.end())
        fault(*kind, "there is no kind '" + kind->get() + "'", "use one of " + joined(kind_names));
      else
        profile.kind = static_cast<ProfileKind>(found - kind_names.begin());
    }
    if (const auto* opt_in = get<toml::value<bool>>(top, "opt_in", "true or false"))
      profile.opt_in = opt_in->get();
    profile.supersedes = globs(top, "supersedes", "profiles' names");
    profile.agents = globs(top, "agents", "programs' names");
    lets(top);
    if (top.contains("unless")) profile.unless = conditions(top, "unless");
    if (top.contains("signs")) profile.signs = conditions(top, "signs");
    if (std::ranges::any_of(profile.signs, &Expression::is_negative))
      fault(*top.get("signs"), "a sign is a condition that something is set",
            "write what must not be set in 'unless', and conditions that belong together in [[match]]");
    profile.match = ways(top);
    if (profile.signs.empty() && profile.match.empty() && !profile.opt_in && faults_.empty())
      fault(1, "there is nothing to recognise the platform by", "write signs, [[match]] or opt_in = true");
    profile.facts = facts(top, profile.kind);
    profile.idle_roles = roles(top, "idle_role");
    profile.refusals = roles(top, "refuse");
    profile.warnings = roles(top, "warn");
    profile.pending = roles(top, "pending");
    if (profile.facts.empty() && faults_.empty())
      fault(1, "there are no facts", "write at least one in [facts]");
  }

 private:
  std::string_view kept(std::string text) { return arena_.keep(std::move(text)); }

  std::string_view required_text(const toml::table& table, std::string_view key, std::string_view advice) {
    const auto* text = get<toml::value<std::string>>(table, key, "a string");
    if (text != nullptr && !text->get().empty()) return kept(text->get());
    fault(std::max(table.source().begin.line, toml::source_index{1}),
          "'" + std::string(key) + "' is missing or empty", std::string(advice));
    return {};
  }

  Globs globs(const toml::table& table, std::string_view key, const std::string& what) {
    std::vector<std::string_view> result;
    if (const auto* array = get<toml::array>(table, key, "a list of " + what)) {
      for (const toml::node& element : *array) {
        if (const auto* text = element.as_string())
          result.push_back(kept(text->get()));
        else
          fault(element, "'" + std::string(key) + "' has an entry that is not a string", "write " + what);
      }
    }
    return arena_.keep(std::move(result));
  }

  /// Reads [let], in the document's order: each expression may use those above it.
  void lets(const toml::table& top) {
    const auto* table = get<toml::table>(top, "let", "a table, [let]");
    if (table == nullptr) return;
    std::map<toml::source_position, std::string> in_order;
    for (const auto& [key, node] : *table) in_order.emplace(node.source().begin, key.str());
    for (const auto& [where, name] : in_order)
      if (const auto its = expression(name, false, *table->get(name))) lets_[name] = *its;
  }

  /// The tables of `[[key]]`.
  std::vector<const toml::table*> tables_of(const toml::table& table, std::string_view key,
                                            std::span<const std::string_view> known) {
    std::vector<const toml::table*> result;
    const auto* array = get<toml::array>(table, key, "a list of tables, [[" + std::string(key) + "]]");
    if (array == nullptr) return result;
    for (const toml::node& element : *array) {
      if (const auto* one = element.as_table()) {
        reject_unknown(*one, known);
        result.push_back(one);
      } else {
        fault(element, "'" + std::string(key) + "' has an entry that is not a table",
              "write [[" + std::string(key) + "]]");
      }
    }
    return result;
  }

  std::span<const Conditions> ways(const toml::table& top) {
    std::vector<Conditions> result;
    for (const toml::table* one : tables_of(top, "match", match_keys))
      result.push_back(all_and_any(*one, "all"));
    return arena_.keep(std::move(result));
  }

  std::span<const Role> roles(const toml::table& top, std::string_view key) {
    std::vector<Role> result;
    for (const toml::table* one : tables_of(top, key, role_keys)) {
      const auto* fix = get<toml::value<std::string>>(*one, "fix", "a string");
      result.push_back({required_text(*one, "name", "describe the situation in a few words"),
                        kept(fix == nullptr ? "" : fix->get()), all_and_any(*one, "when")});
    }
    // Adds the refusals that `same` implies: two expressions of one fact that differ.
    if (key == "refuse") result.insert(result.end(), differing_.begin(), differing_.end());
    return arena_.keep(std::move(result));
  }

  /// The conditions of `key` and of `any`; one of the two may be missing.
  Conditions all_and_any(const toml::table& table, std::string_view key) {
    Conditions result;
    const bool has_any = table.contains("any");
    if (!has_any || table.contains(key)) result.all = conditions(table, key);
    if (has_any) result.any = conditions(table, "any");
    return result;
  }

  std::span<const Expression> conditions(const toml::table& table, std::string_view key) {
    std::vector<Expression> result;
    const auto* array = get<toml::array>(table, key, "a list of conditions");
    if (array == nullptr ? !table.contains(key) : array->empty())
      fault(table, "'" + std::string(key) + "' is missing or empty", "list at least one condition");
    if (array == nullptr) return {};
    for (const toml::node& element : *array)
      if (const auto condition = parsed(element, parse_condition, {})) result.push_back(*condition);
    return arena_.keep(std::move(result));
  }

  std::span<const FactExpression> facts(const toml::table& top, ProfileKind kind) {
    std::vector<FactExpression> result;
    const auto* table = get<toml::table>(top, "facts", "a table, [facts]");
    if (table == nullptr) return {};
    reject_unknown(*table, fact_names);
    for (const Fact fact : all_facts) {
      const toml::node* node = table->get(name(fact));
      if (node == nullptr) continue;
      if (fact >= Fact::rank && kind == ProfileKind::platform)
        fault(*node, std::string(name(fact)) + " is a fact of a process, and a platform has none",
              "write kind = \"launcher\" if there is one process per worker, else node_rank and nnodes");
      if (const auto its = expression(name(fact), counts_something(fact), *node))
        result.push_back({fact, *its});
    }
    return arena_.keep(std::move(result));
  }

  /// Calls use(NODE) with the node or, if it is a list, with each of its elements.
  template <class Use>
  static void each(const toml::node& node, const Use& use) {
    const auto* array = node.as_array();
    if (array == nullptr) return use(node);
    for (const toml::node& element : *array) use(element);
  }

  /// The expression of a fact or a [let]: a string; or { same = [expressions] }, which must agree; or a list
  /// of these, of which the first that yields something counts.
  std::optional<Expression> expression(std::string_view name, bool is_count, const toml::node& node) {
    const std::string begin = std::string(name) + ": ";
    std::vector<Expression> choices;
    const auto add = [&](const toml::node& one) {
      if (!choices.empty() && choices.back().function == Function::text)
        fault(one, begin + "the expression before this one always yields something",
              "put it before that one, or leave it out");
      const auto choice = parsed(one, parse_expression, begin);
      if (!choice) return;
      if (choice->function == Function::text && looks_like_variable(choice->text, is_count))
        fault(one, begin + "this is text, not the value of a variable",
              "write ${NAME} for a variable, and name() for a function");
      choices.push_back(*choice);
    };
    each(node, [&](const toml::node& one) {
      const auto* table = one.as_table();
      if (table == nullptr) return add(one);
      reject_unknown(*table, same_keys);
      const std::size_t first = choices.size();
      if (const auto* same = get<toml::array>(*table, "same", "a list of expressions")) each(*same, add);
      if (choices.size() - first < 2)
        fault(one, begin + "'same' has fewer than two expressions", "write { same = [A, B] }");
      must_agree(name, std::span(choices).subspan(first));
    });
    if (choices.size() < 2) return choices.empty() ? std::nullopt : std::optional(choices.front());
    const Expression either = combined(Function::either, std::move(choices), arena_);
    if (is_too_large(either)) fault(node, begin + too_large, "shorten it");
    return either;
  }

  std::optional<Expression> parsed(const toml::node& node, decltype(parse_expression)& parse,
                                   const std::string& begin) {
    const auto* text = node.as_string();
    std::string error = "this is not a string";
    const auto expression = text == nullptr ? std::nullopt : parse(text->get(), lets_, arena_, error);
    if (!expression) fault(node, begin + error, "correct it");
    return expression;
  }

  /// Adds a refusal for each pair of the expressions, which may yield different values.
  void must_agree(std::string_view name, std::span<const Expression> expressions) {
    for (; expressions.size() > 1; expressions = expressions.subspan(1)) {
      for (const Expression& other : expressions.subspan(1)) {
        const Expression& one = expressions.front();
        const std::vector<Expression> differ{combined(Function::differ, {one, other}, arena_)};
        differing_.push_back({kept(inputs_of(one) + " and " + inputs_of(other) + " both say " +
                                   std::string(name) + ", and contradict each other"),
                              {},
                              {arena_.keep(differ), {}}});
      }
    }
  }

  Arena& arena_;
  Faults& faults_;
  Lets lets_;
  std::vector<Role> differing_;
};

}  // namespace

Outcome<Profile> read_profile(std::string_view name, std::string document, std::string_view path,
                              Arena& arena) {
  Profile profile;
  profile.name = arena.keep(std::string(name));
  profile.document = arena.keep(std::move(document));
  Faults faults;
  ProfileReader reader(path, arena, faults);
  if (const auto parsed = reader.parse(profile.document)) reader.read(*parsed, profile);
  if (!faults.empty()) return faults;
  return profile;
}

}  // namespace rankshim::platform
