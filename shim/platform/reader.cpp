#include "platform/reader.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/text.h"
#include "base/toml.h"

namespace rankshim::platform {

namespace {

bool counts_something(Fact fact) {
  return fact == Fact::nnodes || fact == Fact::node_rank || fact == Fact::nproc_per_node ||
         fact == Fact::master_port || fact == Fact::attempt || fact >= Fact::max_restarts;
}

/// Whether the fact's plain text was meant to be a variable's value.
bool looks_like_variable(Fact fact, std::string_view text) {
  if (!counts_something(fact)) return was_meant_as_value(text);
  return is_shell_name(text) && text != "auto" && text != "gpu" && text != "cpu";
}

/// Whether the value of an expression depends on the node.
bool reads_something(const Expression& expression) {
  bool reads = false;
  each_part(expression, [&](const Expression& part) {
    reads |= part.function == Function::variable || asks_the_node(part.function);
  });
  return reads;
}

/// The variables of an expression, or that it is a file's.
std::string inputs_of(const Expression& expression) {
  std::vector<std::string_view> names;
  each_part(expression, [&](const Expression& part) {
    if (part.function == Function::variable && std::ranges::find(names, part.text) == names.end())
      names.push_back(part.text);
  });
  return names.empty() ? "a file" : joined(names);
}

/// How long it takes to decide a condition.
int cost(const Condition& condition) {
  return (condition.expression.function == Function::variable ? 0 : 2) + (condition.is_negative ? 1 : 0);
}

constexpr auto top_keys =
    std::to_array<std::string_view>({"title", "kind", "opt_in", "signs", "unless", "supersedes", "agents",
                                     "let", "match", "facts", "idle_role", "refuse", "pending"});

/// Goes through one parsed document and collects faults.
class ProfileReader : public TomlDocument {
 public:
  ProfileReader(std::string_view path, Store& store, Faults& faults)
      : TomlDocument(path, faults), store_(store), faults_(faults) {}

  void read(const toml::table& top, Profile& profile) {
    reject_unknown(top, top_keys);
    profile.title = required_text(top, "title", "describe the platform in a few words");
    if (const auto* kind = get<toml::value<std::string>>(top, "kind", "a string")) {
      const auto found = std::find(kind_names.begin(), kind_names.end(), kind->get());
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
    if (top.contains("unless")) profile.unless = store_.keep(conditions(top, "unless"));
    if (top.contains("signs")) profile.signs = store_.keep(conditions(top, "signs"));
    if (std::ranges::any_of(profile.signs, &Condition::is_negative))
      fault(*top.get("signs"), "a sign is a condition that something is set",
            "write what must not be set in 'unless', and conditions that belong together in [[match]]");
    profile.match = alternatives(top);
    if (profile.signs.empty() && profile.match.empty() && !profile.opt_in && faults_.empty())
      fault(1, "there is nothing to recognise the platform by", "write signs, [[match]] or opt_in = true");
    if (const auto* table = get<toml::table>(top, "facts", "a table, [facts]"))
      profile.facts = facts(*table, profile.kind);
    profile.idle_roles = roles(top, "idle_role");
    profile.refusals = roles(top, "refuse");
    profile.pending = roles(top, "pending");
    if (profile.facts.empty() && faults_.empty())
      fault(1, "there are no facts", "write at least one in [facts]");
  }

 private:
  static constexpr std::size_t most_conditions = 100;

  std::string_view kept(std::string text) { return store_.keep(std::move(text)); }

  std::string_view required_text(const toml::table& table, std::string_view key, std::string_view advice) {
    const auto* text = get<toml::value<std::string>>(table, key, "a string");
    if (text != nullptr && !text->get().empty()) return kept(text->get());
    fault(std::max(table.source().begin.line, toml::source_index{1}),
          "'" + std::string(key) + "' is missing or empty", std::string(advice));
    return {};
  }

  Globs globs(const toml::table& table, std::string_view key, const std::string& what) {
    const auto* array = get<toml::array>(table, key, "a list of " + what);
    if (array == nullptr) return {};
    std::vector<std::string_view> result;
    for (const toml::node& element : *array) {
      if (const auto* text = element.as_string())
        result.push_back(kept(text->get()));
      else
        fault(element, "'" + std::string(key) + "' has an entry that is not a string", "write " + what);
    }
    return store_.keep(std::move(result));
  }

  /// Reads [let], in the document's order: each expression may use those above it.
  void lets(const toml::table& top) {
    const auto* table = get<toml::table>(top, "let", "a table, [let]");
    if (table == nullptr) return;
    std::vector<std::pair<std::string, const toml::node*>> in_order;
    for (const auto& [key, node] : *table) in_order.emplace_back(std::string(std::string_view(key)), &node);
    std::ranges::sort(in_order, [](const auto& a, const auto& b) {
      return a.second->source().begin < b.second->source().begin;
    });
    for (const auto& [name, node] : in_order) {
      if (!is_shell_name(name)) fault(*node, "'" + name + "' is no name", "use letters, digits and _");
      std::vector<Expression> choices;
      each(*node, [&](const toml::node& one) {
        if (const auto choice = expression(name, one)) choices.push_back(*choice);
      });
      if (choices.empty()) continue;
      std::string error;
      lets_[name] = choices.size() == 1 ? choices.front()
                                        : combined(Function::either, std::move(choices), store_, error);
      if (!error.empty()) fault(*node, std::string(name).append(": ").append(error), "shorten it");
    }
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

  /// The `all` of each [[match]], alone or combined with each of its `any`. The conditions that are quickest
  /// to decide come first, because most alternatives of most profiles do not hold.
  std::span<const Alternative> alternatives(const toml::table& top) {
    static constexpr auto keys = std::to_array<std::string_view>({"all", "any"});
    std::vector<Alternative> result;
    for (const toml::table* one : tables_of(top, "match", keys)) {
      for (const auto& all : each_with_any(*one, "all")) {
        std::vector<Condition> sorted;
        for (const Condition& condition : all)
          sorted.insert(std::ranges::upper_bound(sorted, cost(condition), {}, cost), condition);
        result.emplace_back(store_.keep(std::move(sorted)));
      }
    }
    return store_.keep(std::move(result));
  }

  std::span<const Role> roles(const toml::table& top, std::string_view key) {
    static constexpr auto keys = std::to_array<std::string_view>({"name", "fix", "when", "any"});
    std::vector<Role> result;
    for (const toml::table* one : tables_of(top, key, keys)) {
      const auto* fix = get<toml::value<std::string>>(*one, "fix", "a string");
      const std::string_view name = required_text(*one, "name", "describe the situation in a few words");
      const std::string_view advice = kept(fix == nullptr ? "" : fix->get());
      for (auto& when : each_with_any(*one, "when")) {
        if (!when.empty() && std::ranges::none_of(when, reads_something, &Condition::expression))
          fault(*one, "'when' reads no variable and no file, so a message cannot give the reason",
                "add a condition on a variable or a file");
        result.push_back({name, advice, store_.keep(std::move(when))});
      }
    }
    // The refusals of `same`: two expressions of one fact that differ.
    if (key == "refuse") result.insert(result.end(), differing_.begin(), differing_.end());
    return store_.keep(std::move(result));
  }

  /// The conditions of `key`, which must all hold, combined with each of `any`; one of the two may be
  /// missing.
  std::vector<std::vector<Condition>> each_with_any(const toml::table& table, std::string_view key) {
    const bool has_any = table.contains("any");
    std::vector<Condition> all;
    if (!has_any || table.contains(key)) all = conditions(table, key);
    if (!has_any) return {all};
    std::vector<std::vector<Condition>> result;
    for (const Condition& any : conditions(table, "any")) {
      result.push_back({any});
      result.back().insert(result.back().end(), all.begin(), all.end());
    }
    return result;
  }

  std::vector<Condition> conditions(const toml::table& table, std::string_view key) {
    std::vector<Condition> result;
    const auto* array = get<toml::array>(table, key, "a list of conditions");
    if (array == nullptr || array->empty()) {
      if (array != nullptr || !table.contains(key))
        fault(table, "'" + std::string(key) + "' is missing or empty", "list at least one condition");
      return result;
    }
    if (array->size() > most_conditions) {
      fault(table, "'" + std::string(key) + "' has more than 100 conditions", "shorten it");
      return result;
    }
    for (const toml::node& element : *array) {
      const auto* text = element.as_string();
      std::string error = "a condition is a string";
      const auto condition =
          text == nullptr ? std::nullopt : parse_condition(text->get(), lets_, store_, error);
      if (condition)
        result.push_back(*condition);
      else
        fault(element, error, "correct the condition");
    }
    return result;
  }

  std::span<const FactExpression> facts(const toml::table& table, ProfileKind kind) {
    std::vector<FactExpression> result;
    reject_unknown(table, fact_names);
    for (const Fact fact : all_facts) {
      const toml::node* node = table.get(name(fact));
      if (node == nullptr) continue;
      if (fact >= Fact::rank && kind == ProfileKind::platform)
        fault(*node, std::string(name(fact)) + " is a fact of a process, and a platform has none",
              "write kind = \"launcher\" if there is one process per worker, else node_rank and nnodes");
      for (const Expression& one : expressions(fact, *node)) result.push_back({fact, one});
    }
    return store_.keep(std::move(result));
  }

  /// Calls use(NODE) with the node or, if it is a list, with each of its elements.
  template <class Use>
  static void each(const toml::node& node, const Use& use) {
    const auto* array = node.as_array();
    if (array == nullptr) return use(node);
    for (const toml::node& element : *array) use(element);
  }

  /// Parses the expression of a fact or of a let of that name.
  std::optional<Expression> expression(std::string_view name, const toml::node& node) {
    const auto* text = node.as_string();
    std::string error = "an expression is a string";
    const auto parsed = text == nullptr ? std::nullopt : parse_expression(text->get(), lets_, store_, error);
    if (!parsed) fault(node, std::string(name) + ": " + error, "correct the expression");
    return parsed;
  }

  /// Reads a fact's expression, list of expressions, or { same = [expressions] }, whose expressions must
  /// agree.
  std::vector<Expression> expressions(Fact fact, const toml::node& node) {
    const std::string begin = std::string(name(fact)) + ": ";
    std::vector<Expression> result;
    const auto add = [&](const toml::node& one) {
      if (!result.empty() && result.back().function == Function::text)
        fault(one, begin + "the expression before this one always yields something",
              "put it before that one, or leave it out");
      const auto parsed = expression(name(fact), one);
      if (!parsed) return;
      if (parsed->function == Function::text && looks_like_variable(fact, parsed->text))
        fault(one, begin + "this is a text, and not the value of a variable",
              "write ${NAME} for a variable, and name() for a function");
      result.push_back(*parsed);
    };
    each(node, [&](const toml::node& one) {
      const auto* table = one.as_table();
      if (table == nullptr) return add(one);
      static constexpr auto keys = std::to_array<std::string_view>({"same"});
      reject_unknown(*table, keys);
      const std::size_t first = result.size();
      if (const auto* same = get<toml::array>(*table, "same", "a list of expressions")) each(*same, add);
      if (result.size() - first < 2)
        fault(one, begin + "'same' has fewer than two expressions", "write { same = [A, B] }");
      must_agree(fact, std::span(result).subspan(first), one);
    });
    return result;
  }

  /// Adds a refusal for each two of the expressions, because they may yield different values.
  void must_agree(Fact fact, std::span<const Expression> expressions, const toml::node& where) {
    for (; expressions.size() > 1; expressions = expressions.subspan(1)) {
      for (const Expression& other : expressions.subspan(1)) {
        const Expression& one = expressions.front();
        std::string error;
        const Expression differ = combined(Function::differ, {one, other}, store_, error);
        if (!error.empty()) return fault(where, error, "shorten it");
        differing_.push_back({kept(inputs_of(one) + " and " + inputs_of(other) + " both say " +
                                   std::string(name(fact)) + ", and contradict each other"),
                              {},
                              store_.keep(std::vector<Condition>{{false, differ, {}}})});
      }
    }
  }

  Store& store_;
  Faults& faults_;
  Lets lets_;
  std::vector<Role> differing_;
};

}  // namespace

Outcome<OwnedProfile> read_profile(std::string_view name, std::string document, std::string_view path) {
  OwnedProfile result;
  Faults faults;
  ProfileReader reader(path, result.store, faults);
  if (const auto parsed = reader.parse(document)) reader.read(*parsed, result.profile);
  if (!faults.empty()) return faults;
  result.profile.name = result.store.keep(std::string(name));
  result.document = std::move(document);
  return result;
}

}  // namespace rankshim::platform
