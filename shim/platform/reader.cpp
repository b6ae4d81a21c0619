#include "platform/reader.h"

#include <algorithm>
#include <limits>
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

constexpr auto top_keys =
    std::to_array<std::string_view>({"title", "kind", "opt_in", "signs", "unless", "supersedes", "agents",
                                     "let", "match", "facts", "idle_role", "refuse", "pending"});

/// Goes through one parsed document and collects faults.
class ProfileReader : public TomlDocument {
 public:
  ProfileReader(std::string_view path, OwnedTables& tables, Faults& faults)
      : TomlDocument(path, faults), tables_(tables) {}

  TextIndex required_text(const toml::table& table, std::string_view key, std::string_view advice) {
    const auto* text = get<toml::value<std::string>>(table, key, "a string");
    if (text != nullptr && !text->get().empty()) return text_index(text->get());
    fault(std::max(table.source().begin.line, toml::source_index{1}),
          "'" + std::string(key) + "' is missing or empty", std::string(advice));
    return {};
  }

  TextIndex text_index(std::string_view text) {
    const auto index = add_text(text, tables_);
    if (!index) too_large();
    return index.value_or(0);
  }

  /// Reads the keys that concern the profile as a whole.
  void head(const toml::table& top, Profile& profile) {
    profile.title_text = required_text(top, "title", "describe the platform in a few words");
    if (const auto* kind = get<toml::value<std::string>>(top, "kind", "a string")) {
      const auto found = std::find(kind_names.begin(), kind_names.end(), kind->get());
      if (found == kind_names.end())
        fault(*kind, "there is no kind '" + kind->get() + "'", "use one of " + joined(kind_names));
      else
        profile.kind = static_cast<ProfileKind>(found - kind_names.begin());
    }
    if (const auto* opt_in = get<toml::value<bool>>(top, "opt_in", "true or false"))
      profile.opt_in = opt_in->get();
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
      std::vector<std::uint16_t> roots;
      each(*node, [&](const toml::node& one) {
        if (const auto root = expression(name, one)) roots.push_back(*root);
      });
      std::string error;
      const auto root = roots.size() == 1 ? std::optional(roots.front())
                        : roots.empty()   ? std::nullopt
                                          : add_step(Op::either, Function::none, roots, tables_, error);
      if (!error.empty()) fault(*node, std::string(name).append(": ").append(error), "shorten it");
      if (root) lets_[name] = *root;
    }
  }

  /// `signs`: one is enough.
  Slice signs(const toml::table& top) {
    if (!top.contains("signs")) return {};
    const std::vector<Condition> list = conditions(top, "signs");
    if (!std::ranges::all_of(list, &Condition::is_positive))
      fault(*top.get("signs"), "a sign is a condition that something is set",
            "write what must not be set in 'unless', and conditions that belong together in [[match]]");
    return added(list);
  }

  /// `unless`: none may hold.
  Slice unless(const toml::table& top) {
    if (!top.contains("unless")) return {};
    return added(conditions(top, "unless"));
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

  /// The `all` of each [[match]], alone or combined with each of its `any`.
  Slice alternatives(const toml::table& top) {
    static constexpr auto keys = std::to_array<std::string_view>({"all", "any"});
    const std::size_t first = tables_.alternatives.size();
    for (const toml::table* one : tables_of(top, "match", keys))
      for (const auto& all : each_with_any(*one, "all")) alternative(all);
    return range(tables_.alternatives, first);
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

  /// Sorts the conditions that are quickest to decide to the front, because most alternatives of most
  /// profiles do not hold.
  void alternative(const std::vector<Condition>& all) {
    const auto cost = [&](const Condition& one) {
      const bool is_call = tables_.steps[one.root].op != Op::variable;
      return (is_call ? 2 : 0) + (one.is_positive() ? 0 : 1);
    };
    std::vector<Condition> cheapest_first;
    for (int wanted = 0; wanted <= 3; ++wanted) {
      for (const Condition& one : all) {
        if (cost(one) == wanted) cheapest_first.push_back(one);
      }
    }
    tables_.alternatives.push_back(added(cheapest_first));
  }

  Slice roles(const toml::table& top, std::string_view key) {
    static constexpr auto keys = std::to_array<std::string_view>({"name", "fix", "when", "any"});
    const std::size_t first = tables_.roles.size();
    for (const toml::table* one : tables_of(top, key, keys)) {
      const auto* fix = get<toml::value<std::string>>(*one, "fix", "a string");
      const TextIndex name = required_text(*one, "name", "describe the situation in a few words");
      const TextIndex advice = text_index(fix == nullptr ? "" : fix->get());
      for (const auto& when : each_with_any(*one, "when")) {
        if (!when.empty() && std::none_of(when.begin(), when.end(),
                                          [&](const Condition& one) { return reads_something(one.root); }))
          fault(*one, "'when' reads no variable and no file, so a message cannot give the reason",
                "add a condition on a variable or a file");
        tables_.roles.push_back({name, advice, added(when)});
      }
    }
    // The refusals of `same`: two expressions of one fact that differ.
    if (key == "refuse") tables_.roles.insert(tables_.roles.end(), differing_.begin(), differing_.end());
    return range(tables_.roles, first);
  }

  std::string globs(const toml::table& table, std::string_view key, const std::string& what) {
    std::string result;
    const auto* array = get<toml::array>(table, key, "a list of " + what);
    if (array == nullptr) return result;
    for (const toml::node& element : *array) {
      if (const auto* text = element.as_string())
        result.append(result.empty() ? "" : ",").append(text->get());
      else
        fault(element, "'" + std::string(key) + "' has an entry that is not a string", "write " + what);
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
          text == nullptr ? std::nullopt : parse_condition(text->get(), lets_, tables_, error);
      if (condition)
        result.push_back(*condition);
      else
        fault(element, error, "correct the condition");
    }
    return result;
  }

  Slice expressions(const toml::table& facts, ProfileKind kind) {
    const std::size_t first = tables_.expressions.size();
    reject_unknown(facts, fact_names);
    for (const Fact fact : all_facts) {
      const toml::node* node = facts.get(name(fact));
      if (node == nullptr) continue;
      if (fact >= Fact::rank && kind == ProfileKind::platform)
        fault(*node, std::string(name(fact)) + " is a fact of a process, and a platform has none",
              "write kind = \"launcher\" if there is one process per worker, else node_rank and nnodes");
      expressions_of(fact, *node);
    }
    return range(tables_.expressions, first);
  }

 private:
  static constexpr std::size_t most_conditions = 100;

  /// Calls use(NODE) with the node or, if it is a list, with each of its elements.
  template <class Use>
  static void each(const toml::node& node, const Use& use) {
    const auto* array = node.as_array();
    if (array == nullptr) return use(node);
    for (const toml::node& element : *array) use(element);
  }

  /// Parses the expression of a fact or of a let of that name.
  std::optional<std::uint16_t> expression(std::string_view name, const toml::node& node) {
    const auto* text = node.as_string();
    std::string error = "an expression is a string";
    const auto root = text == nullptr ? std::nullopt : parse_expression(text->get(), lets_, tables_, error);
    if (!root) fault(node, std::string(name) + ": " + error, "correct the expression");
    return root;
  }

  /// Reads a fact's expression, list of expressions, or { same = [expressions] }, whose expressions must
  /// agree.
  void expressions_of(Fact fact, const toml::node& node) {
    bool is_certain = false;  // expressions after a text are never read
    const auto add = [&](const toml::node& one) -> std::optional<std::uint16_t> {
      if (is_certain)
        fault(one, std::string(name(fact)) + ": the expression before this one always yields something",
              "put it before that one, or leave it out");
      const auto root = expression(name(fact), one);
      if (root) tables_.expressions.push_back({fact, *root});
      is_certain = root && tables_.steps[*root].op == Op::text;
      if (is_certain && looks_like_variable(fact, trimmed(one.as_string()->get())))
        fault(one, std::string(name(fact)) + ": this is a text, and not the value of a variable",
              "write ${NAME} for a variable, and name() for a function");
      return root;
    };
    each(node, [&](const toml::node& one) {
      const auto* table = one.as_table();
      if (table == nullptr) {
        add(one);
        return;
      }
      static constexpr auto keys = std::to_array<std::string_view>({"same"});
      reject_unknown(*table, keys);
      const auto* same = get<toml::array>(*table, "same", "a list of expressions");
      std::vector<std::uint16_t> roots;
      for (std::size_t i = 0; same != nullptr && i < same->size(); ++i)
        if (const auto root = add((*same)[i])) roots.push_back(*root);
      if (roots.size() < 2)
        fault(one, std::string(name(fact)) + ": 'same' has fewer than two expressions",
              "write { same = [A, B] }");
      must_agree(fact, roots, one);
    });
  }

  /// Adds a refusal for each two of the expressions, because they may yield different values.
  void must_agree(Fact fact, const std::vector<std::uint16_t>& roots, const toml::node& where) {
    for (std::size_t i = 0; i < roots.size(); ++i) {
      for (std::size_t j = i + 1; j < roots.size(); ++j) {
        std::string error;
        const auto differ = add_step(Op::call, Function::differ, {roots[i], roots[j]}, tables_, error);
        if (!differ) return fault(where, error, "shorten it");
        const std::string what = inputs_of(roots[i]) + " and " + inputs_of(roots[j]) + " both say " +
                                 std::string(name(fact)) + ", and contradict each other";
        differing_.push_back({text_index(what), text_index(""), added({{Sign::set, *differ, 0}})});
      }
    }
  }

  /// The variables of an expression, or its first function.
  std::string inputs_of(std::uint16_t root) {
    std::vector<std::string_view> names;
    add_variables(root, names);
    return names.empty() ? "a file" : joined(names);
  }

  void add_variables(std::uint16_t root, std::vector<std::string_view>& names) {
    const Step& step = tables_.steps[root];
    const Tables view = tables_.view();
    if (step.op == Op::variable) {
      const std::string_view name = view.text(step.index);
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
    if (step.op == Op::variable || step.op == Op::text) return;
    for (const std::uint16_t child : view.children_of(step)) add_variables(child, names);
  }

  /// Whether the value of an expression depends on the node.
  [[nodiscard]] bool reads_something(std::uint16_t root) const {
    const Step& step = tables_.steps[root];
    if (step.op == Op::text) return false;
    if (step.op == Op::variable) return true;
    const auto children = tables_.view().children_of(step);
    const bool is_call = step.op == Op::call;
    return (is_call && asks_the_node(step.function)) ||
           std::any_of(children.begin(), children.end(),
                       [&](std::uint16_t child) { return reads_something(child); });
  }

  Alternative added(const std::vector<Condition>& conditions) {
    const std::size_t first = tables_.conditions.size();
    tables_.conditions.insert(tables_.conditions.end(), conditions.begin(), conditions.end());
    return range(tables_.conditions, first);
  }

  /// The rows from `first` on.
  template <class Row>
  Slice range(const std::vector<Row>& rows, std::size_t first) {
    if (rows.size() > std::numeric_limits<std::uint16_t>::max()) too_large();
    return {static_cast<std::uint16_t>(first), static_cast<std::uint16_t>(rows.size() - first)};
  }

  void too_large() { fault(1, "the profile is too large", "shorten it"); }

  OwnedTables& tables_;
  Lets lets_;
  std::vector<Role> differing_;
};

}  // namespace

std::optional<Profile> read_profile(std::string_view name, std::string_view document, std::string_view path,
                                    OwnedTables& tables, Faults& faults) {
  const std::size_t known = faults.size();
  const auto is_good = [&] { return faults.size() == known; };
  ProfileReader reader(path, tables, faults);
  const auto parsed = reader.parse(document);
  if (!parsed) return std::nullopt;
  const toml::table& top = *parsed;
  reader.reject_unknown(top, top_keys);
  Profile profile;
  profile.name_text = reader.text_index(name);
  reader.head(top, profile);
  profile.supersedes_text = reader.text_index(reader.globs(top, "supersedes", "profiles' names"));
  profile.agents_text = reader.text_index(reader.globs(top, "agents", "programs' names"));
  reader.lets(top);
  profile.unless_range = reader.unless(top);
  profile.signs_range = reader.signs(top);
  profile.match_range = reader.alternatives(top);
  if (profile.signs_range.count == 0 && profile.match_range.count == 0 && !profile.opt_in && is_good())
    reader.fault(1, "there is nothing to recognise the platform by",
                 "write signs, [[match]] or opt_in = true");

  if (const auto* facts = reader.get<toml::table>(top, "facts", "a table, [facts]"))
    profile.expressions_range = reader.expressions(*facts, profile.kind);
  profile.roles_range = reader.roles(top, "idle_role");
  profile.refusals_range = reader.roles(top, "refuse");
  profile.pending_range = reader.roles(top, "pending");
  if (profile.expressions_range.count == 0 && is_good())
    reader.fault(1, "there are no facts", "write at least one in [facts]");
  return is_good() ? std::optional(profile) : std::nullopt;
}

Outcome<OwnedProfile> read_profile(std::string_view name, std::string document, std::string_view path) {
  OwnedProfile result;
  OwnedProfile::Storage& storage = *result.storage_;
  Faults faults;
  const auto profile = read_profile(name, document, path, storage.owned, faults);
  if (!profile) return faults;
  storage = {std::move(document), std::move(storage.owned), {}, *profile};
  storage.tables = storage.owned.view();
  storage.profile.tables = &storage.tables;
  return result;
}

}  // namespace rankshim::platform
