#include "platform/reader.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "base/sort.h"
#include "base/toml.h"
#include "base/toml_nesting.h"
#include "platform/expression.h"

namespace rankshim::platform {

struct OwnedProfile::Storage {
  std::string document;
  OwnedTables owned;
  Tables tables;  // of `owned`
  Profile profile;
};

namespace {

std::string joined(std::span<const std::string_view> names) {
  std::string result;
  for (const std::string_view name : names) result.append(result.empty() ? "" : ", ").append(name);
  return result;
}

/// Goes through one parsed document and collects faults.
class Reader {
 public:
  Reader(std::string_view path, OwnedTables& tables, Faults& faults)
      : path_(path), tables_(tables), faults_(faults) {}

  void fault(const toml::node& where, const std::string& what, const std::string& fix) {
    fault(where.source(), what, fix);
  }

  void fault(const toml::source_region& where, const std::string& what, const std::string& fix) {
    fault(where.begin.line, what, fix);
  }

  void fault(std::size_t line, const std::string& what, const std::string& fix) {
    constexpr std::size_t most = 50;  // what follows is seldom news
    if (faults_.size() == most) return;
    faults_.push_back(
        {std::string(path_) + ":" + std::to_string(line) + ": " + what, {std::string(path_)}, fix});
  }

  /// The value of a key, of that type; nothing, and a fault, where it is of another. Every key that is asked
  /// for is known to `reject_unknown`.
  template <class Type>
  const Type* get(const toml::table& table, std::string_view key, std::string_view wanted) {
    const toml::node* node = table.get(key);
    if (node == nullptr) return nullptr;
    const Type* value = node->template as<Type>();
    if (value == nullptr)
      fault(*node, "'" + std::string(key) + "' is not " + std::string(wanted),
            "write " + std::string(wanted));
    return value;
  }

  void reject_unknown(const toml::table& table, std::span<const std::string_view> known) {
    for (const auto& [key, node] : table)
      if (std::find(known.begin(), known.end(), std::string_view(key)) == known.end())
        fault(node, "there is no key '" + std::string(std::string_view(key)) + "' here",
              "use one of " + joined(known));
  }

  TextIndex required_text(const toml::table& table, std::string_view key) {
    const auto* text = get<toml::value<std::string>>(table, key, "a string");
    if (text != nullptr && !text->get().empty()) return text_index(text->get());
    fault(std::max(table.source().begin.line, toml::source_index{1}),
          "'" + std::string(key) + "' is missing or empty", "say in a few words what this is");
    return {};
  }

  TextIndex text_index(std::string_view text) {
    const auto index = add_text(text, tables_);
    if (!index) too_large();
    return index.value_or(0);
  }

  /// All that a profile says of itself as a whole.
  void head(const toml::table& top, Profile& profile) {
    profile.title_text = required_text(top, "title");
    if (const auto* granularity =
            get<toml::value<std::string>>(top, "granularity", "\"node\" or \"process\"")) {
      if (granularity->get() == "process")
        profile.granularity = Granularity::process;
      else if (granularity->get() != "node")
        fault(*granularity, "'granularity' is '" + granularity->get() + "'", "write \"node\" or \"process\"");
    }
    if (const auto* opt_in = get<toml::value<bool>>(top, "opt_in", "true or false"))
      profile.opt_in = opt_in->get();
    if (const auto* fallback = get<toml::value<std::int64_t>>(top, "fallback", "a number from 0 to 9")) {
      if (fallback->get() < 0 || fallback->get() > 9)
        fault(*fallback, "'fallback' is " + std::to_string(fallback->get()), "write a number from 0 to 9");
      else
        profile.fallback = static_cast<std::uint8_t>(fallback->get());
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
        fault(element, "'" + std::string(key) + "' holds what is no table",
              "write [[" + std::string(key) + "]]");
      }
    }
    return result;
  }

  /// The `all` of each [[match]], alone and with each of its `any`.
  Range alternatives(const toml::table& top) {
    static constexpr auto keys = std::to_array<std::string_view>({"all", "any"});
    const std::size_t first = tables_.alternatives.size();
    for (const toml::table* one : tables_of(top, "match", keys)) {
      const bool has_any = one->contains("any");
      std::vector<Condition> all;
      if (!has_any || one->contains("all")) all = conditions(*one, "all");
      if (!has_any) alternative(all);
      if (!has_any) continue;
      for (const Condition& any : conditions(*one, "any")) {
        auto each = all;
        each.push_back(any);
        alternative(std::move(each));
      }
    }
    return range(tables_.alternatives, first);
  }

  /// What is decided soonest is asked first, as most alternatives of most profiles do not hold.
  void alternative(std::vector<Condition> all) {
    const auto cost = [&](const Condition& one) {
      const bool is_call = tables_.steps[one.root].op != Op::variable;
      const bool holds_of_nothing = one.sign == Sign::not_set || one.sign == Sign::unlike;
      return (is_call ? 2 : 0) + (holds_of_nothing ? 1 : 0);
    };
    insertion_sort(all, [&](const Condition& a, const Condition& b) { return cost(a) < cost(b); });
    tables_.alternatives.push_back(added(all));
  }

  Range roles(const toml::table& top, std::string_view key) {
    static constexpr auto keys = std::to_array<std::string_view>({"name", "fix", "when"});
    const std::size_t first = tables_.roles.size();
    for (const toml::table* one : tables_of(top, key, keys)) {
      const auto* fix = get<toml::value<std::string>>(*one, "fix", "a string");
      tables_.roles.push_back({required_text(*one, "name"), text_index(fix == nullptr ? "" : fix->get()),
                               added(conditions(*one, "when"))});
    }
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
        fault(element, "'" + std::string(key) + "' holds what is no string", "write " + what);
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
    for (const toml::node& element : *array) {
      const auto* text = element.as_string();
      std::string error = "a condition is a string";
      const auto condition = text == nullptr ? std::nullopt : parse_condition(text->get(), tables_, error);
      if (condition)
        result.push_back(*condition);
      else
        fault(element, error, "correct the condition");
    }
    return result;
  }

  void place(Fact fact, const toml::node& node) {
    const auto* text = node.as_string();
    std::string error = "a place is a string";
    const auto root = text == nullptr ? std::nullopt : parse_place(text->get(), tables_, error);
    if (root)
      tables_.places.push_back({fact, *root});
    else
      fault(node, std::string(name(fact)) + ": " + error, "correct the place");
  }

  Range places(const toml::table& facts) {
    const std::size_t first = tables_.places.size();
    reject_unknown(facts, fact_names);
    for (std::size_t i = 0; i < fact_count; ++i) {
      const toml::node* node = facts.get(fact_names[i]);
      if (node == nullptr) continue;
      if (const auto* array = node->as_array()) {
        for (const toml::node& element : *array) place(static_cast<Fact>(i), element);
      } else {
        place(static_cast<Fact>(i), *node);
      }
    }
    return range(tables_.places, first);
  }

 private:
  Alternative added(const std::vector<Condition>& conditions) {
    const std::size_t first = tables_.conditions.size();
    tables_.conditions.insert(tables_.conditions.end(), conditions.begin(), conditions.end());
    return {range(tables_.conditions, first)};
  }

  /// The rows from `first` on.
  template <class Row>
  Range range(const std::vector<Row>& rows, std::size_t first) {
    if (rows.size() > std::numeric_limits<std::uint16_t>::max()) too_large();
    return {static_cast<std::uint16_t>(first), static_cast<std::uint16_t>(rows.size() - first)};
  }

  void too_large() { fault(1, "the profile is too large", "shorten it"); }

  std::string_view path_;
  OwnedTables& tables_;
  Faults& faults_;
};

}  // namespace

OwnedProfile::OwnedProfile() : storage_(std::make_unique<Storage>()) {}
OwnedProfile::~OwnedProfile() = default;
OwnedProfile::OwnedProfile(OwnedProfile&&) noexcept = default;
OwnedProfile& OwnedProfile::operator=(OwnedProfile&&) noexcept = default;

const Profile& OwnedProfile::profile() const { return storage_->profile; }
std::string_view OwnedProfile::document() const { return storage_->document; }

Outcome<OwnedProfile> read_profile(std::string_view name, std::string document, std::string_view path) {
  OwnedProfile result;
  OwnedProfile::Storage& storage = *result.storage_;
  Faults faults;
  Reader reader(path, storage.owned, faults);
  storage.document = std::move(document);

  if (storage.document.size() > longest_document) {
    reader.fault(1, "the profile is longer than 64 KiB", "shorten it");
    return faults;
  }
  if (const auto line = line_of_too_many_dots(storage.document)) {
    reader.fault(*line, "there are more dots outside strings than a profile can need",
                 "write tables as [name]");
    return faults;
  }
  const toml::parse_result parsed = toml::parse(std::string_view(storage.document));
  if (!parsed) {
    reader.fault(parsed.error().source(), std::string(parsed.error().description()), "correct the TOML");
    return faults;
  }
  const toml::table& top = parsed.table();
  static constexpr auto known =
      std::to_array<std::string_view>({"title", "granularity", "opt_in", "fallback", "supersedes", "agents",
                                       "match", "facts", "idle_role", "refuse", "pending"});
  reader.reject_unknown(top, known);
  Profile& profile = storage.profile;
  profile.name_text = reader.text_index(name);
  reader.head(top, profile);
  profile.supersedes_text = reader.text_index(reader.globs(top, "supersedes", "profiles' names"));
  profile.agents_text = reader.text_index(reader.globs(top, "agents", "programs' names"));
  profile.match_range = reader.alternatives(top);
  if (profile.match_range.count == 0 && !profile.opt_in && faults.empty())
    reader.fault(1, "nothing says how the platform is recognised", "write [[match]], or opt_in = true");

  profile.roles_range = reader.roles(top, "idle_role");
  profile.refusals_range = reader.roles(top, "refuse");
  profile.pending_range = reader.roles(top, "pending");
  if (const auto* facts = reader.get<toml::table>(top, "facts", "a table, [facts]"))
    profile.places_range = reader.places(*facts);
  if (profile.places_range.count == 0 && faults.empty())
    reader.fault(1, "there are no facts", "write at least one in [facts]");
  if (!faults.empty()) return faults;

  storage.tables = storage.owned.view();
  profile.tables = &storage.tables;
  return result;
}

}  // namespace rankshim::platform
