#include "platform/recognise.h"

#include <algorithm>
#include <array>
#include <tuple>

#include "base/text.h"
#include "platform/evaluation.h"

namespace rankshim::platform {
namespace {

struct Match {
  const Profile* profile;
  std::ptrdiff_t signs;
  bool own;

  /// The more specific comes first. A platform and a launcher are of one rank, and compared by the rest.
  [[nodiscard]] bool operator<(const Match& other) const { return order() < other.order(); }

 private:
  [[nodiscard]] std::tuple<ProfileKind, bool, bool, std::ptrdiff_t, std::string_view> order() const {
    const bool is_launcher = profile->kind == ProfileKind::launcher;
    return {is_launcher ? ProfileKind::platform : profile->kind, !own, !is_launcher, -signs, profile->name};
  }
};

bool fits_any(std::string_view text, Globs globs) {
  return std::ranges::any_of(globs, [&](std::string_view glob) { return fits(text, glob); });
}

bool supersedes(const Profile& profile, const Profile& other) {
  return &profile != &other && fits_any(other.name, profile.supersedes);
}

/// How many signs hold, or how many positive conditions of the most specific [[match]] that is fulfilled;
/// nothing if the profile is not recognised.
std::optional<std::ptrdiff_t> fulfilled(const Profile& profile, Evaluation evaluation) {
  const auto holds = [&](const Condition& condition) { return evaluation.holds(condition); };
  // These come first, because they are variables, while a sign may be a file.
  if (std::ranges::any_of(profile.unless, holds)) return std::nullopt;
  std::optional<std::ptrdiff_t> best;
  if (const auto there = std::ranges::count_if(profile.signs, holds); there != 0) best = there;
  for (const Alternative& alternative : profile.match)
    if (evaluation.holds(alternative))
      best = std::max(best.value_or(0), std::ranges::count(alternative, false, &Condition::is_negative));
  return best;
}

/// Numbers on which two platforms of one job cannot differ.
constexpr auto decisive = std::to_array<Fact>({Fact::nnodes, Fact::node_rank, Fact::rank, Fact::world_size});

/// Whether a number of nodes that may be unknown is at most one.
bool is_one(std::string_view nnodes) { return nnodes.empty() || nnodes == "1"; }

/// Reads generic names and a launcher's flags, which anyone may have set beside the platform's. The first
/// profile that has a fact provides it.
void read_names(std::span<const Profile> profiles, Reading& on, Platform& platform) {
  const bool is_names = platform.profile != nullptr && platform.profile->kind == ProfileKind::names;
  for (const Profile& profile : profiles) {
    const bool has_names = profile.kind == ProfileKind::names && !is_names;
    if (!has_names && profile.kind != ProfileKind::flags) continue;
    Facts& facts = has_names ? platform.names : platform.flags;
    Facts its = Evaluation(profile, on).facts();
    for (const Fact fact : all_facts)
      if (!facts.has(fact)) facts[fact] = std::move(its[fact]);
  }
}

Fault unknown_platform(std::span<const Profile> profiles, std::string_view wanted) {
  std::vector<std::string_view> names = {"auto", "none"};
  for (const Profile& profile : profiles) names.push_back(profile.name);
  const std::string begin = std::string(wanted) + "-";
  std::string family;
  for (const std::string_view name : names)
    if (name.starts_with(begin)) family += (family.empty() ? "" : ", ") + std::string(name);
  return {Anchor::unknown_platform,
          "there is no platform " + in_quotes(wanted) +
              (family.empty() ? and_nearest(nearest(wanted, names)) : ", only " + family),
          {"--platform"},
          "choose one that `rankshim platforms` lists, with --platform"};
}

}  // namespace

const Profile* find(std::span<const Profile> profiles, std::string_view name) {
  const auto found = std::ranges::find(profiles, name, &Profile::name);
  return found == profiles.end() ? nullptr : &*found;
}

bool is_agent(const Profile& profile, std::string_view program) {
  return fits_any(base_name(program), profile.agents);
}

std::vector<std::string> ignored_variables(std::span<const Profile> profiles, const Node& node) {
  Reading on{node};
  std::vector<std::string> inputs, names;
  for (const Profile& profile : profiles) {
    Evaluation evaluation(profile, on);
    if (profile.opt_in || !fulfilled(profile, evaluation)) continue;
    for (const FactExpression& one : profile.facts)
      if (one.fact == Fact::master_addr || std::ranges::find(decisive, one.fact) != decisive.end())
        evaluation.add_inputs(one.expression, true, inputs);
  }
  for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK"}) inputs.emplace_back(name);
  for (std::string& name : inputs)
    if (on.variables.get(name) && std::find(names.begin(), names.end(), name) == names.end())
      names.push_back(std::move(name));
  return names;
}

Outcome<Platform> recognise(std::span<const Profile> profiles, std::string_view wanted, const Node& node,
                            std::size_t own, std::string_view users_nnodes) {
  Platform result;
  if (wanted == "none") {
    result.name = "none";
    const std::string ignored = joined(ignored_variables(profiles, node));
    if (!ignored.empty())
      result.warnings.push_back("the platform is none, so these variables are ignored: " + ignored +
                                "; unless options give the other nodes, this node trains alone");
    return result;
  }
  Reading on{.node = node, .variables = VariableIndex(node.environment(), users_nnodes)};
  const auto whole = [&] {
    result.warnings = std::move(on.warnings);
    return std::move(result);
  };
  std::vector<Match> matches;
  const Profile* winner = nullptr;
  if (wanted == "auto") {
    for (const Profile& profile : profiles) {
      if (profile.opt_in) continue;
      if (const auto signs = fulfilled(profile, Evaluation(profile, on))) {
        const Match match{&profile, *signs, &profile < profiles.data() + own};
        matches.insert(std::upper_bound(matches.begin(), matches.end(), match), match);
      }
    }
    if (!on.unreadable.empty()) return on.unreadable;
    if (matches.empty()) {
      read_names(profiles, on, result);
      return whole();
    }
    const auto first = std::find_if(matches.begin(), matches.end(), [&](const Match& match) {
      return std::none_of(matches.begin(), matches.end(),
                          [&](const Match& other) { return supersedes(*other.profile, *match.profile); });
    });
    if (first != matches.end()) std::rotate(matches.begin(), first, first + 1);
    winner = matches.front().profile;
    for (const Match& other : std::span(matches).subspan(1))
      if (other.profile->has_own_words() || winner->kind == ProfileKind::foreign)
        result.also_matched.emplace_back(other.profile->name);
  } else {
    winner = find(profiles, wanted);
    if (winner == nullptr) return Faults{unknown_platform(profiles, wanted)};
  }

  result.profile = winner;
  result.name = winner->name;
  result.granularity = winner->granularity();
  result.facts = Evaluation(*winner, on).facts();
  read_names(profiles, on, result);
  const auto state = [&](const Profile& profile, std::span<const Role> states) -> std::optional<State> {
    Evaluation evaluation(profile, on);
    const auto found =
        std::ranges::find_if(states, [&](Alternative when) { return evaluation.holds(when); }, &Role::when);
    if (found == states.end()) return std::nullopt;
    Causes causes = causes_of(found->when, profile, on);
    return State{std::string(found->name), std::move(causes.text), std::string(found->fix),
                 std::move(causes.names)};
  };
  if (!on.unreadable.empty()) return on.unreadable;
  result.idle = state(*winner, winner->idle_roles);
  result.pending = state(*winner, winner->pending);
  if (!on.unreadable.empty()) return on.unreadable;
  if (wanted != "auto" || result.idle || result.pending) return whole();

  if (auto refused = state(*winner, winner->refusals)) {
    if (refused->fix.empty())
      refused->fix = refused->names.size() == 1 ? "correct " + refused->names[0] : "correct one of them";
    result.doubts.push_back({Anchor::platform_state, refused->name + " (" + refused->because + ")",
                             std::move(refused->names), refused->fix});
  }
  for (const Match& match : matches) {
    const Profile& profile = *match.profile;
    // Generic names are claims of their own; a part says nothing about other nodes.
    if (&profile == winner || profile.kind == ProfileKind::names || profile.kind == ProfileKind::part ||
        supersedes(*winner, profile))
      continue;
    Other other{&profile, Evaluation(profile, on).facts(), {}, {}};
    if (profile.kind == ProfileKind::foreign) {
      const Causes causes = causes_of(profile, node);
      const bool counts = !state(profile, profile.refusals) && is_one(other.facts.text(Fact::nnodes));
      if (!counts) other.several = causes.text;
      other.names = causes.names;
    }
    result.others.push_back(std::move(other));
  }
  if (!on.unreadable.empty()) return on.unreadable;
  return whole();
}

}  // namespace rankshim::platform
