#include "platform/recognise.h"

#include <algorithm>
#include <array>
#include <compare>
#include <iterator>
#include <utility>

#include "base/text.h"
#include "platform/evaluation.h"

namespace rankshim::platform {
namespace {

using node::Host;

using namespace std::string_view_literals;

/// A variable that hints at a profile: a built-in profile can be recognised only if one of its clues is set.
struct Clue {
  std::string_view variable;  ///< empty: the profile can be recognised without any
  std::size_t profile;
};

// The profiles are constants generated at build time. Parsing their documents at startup would cost 25
// million instructions (callgrind), eleven times what all of `rankshim env` takes with a PyTorchJob's
// environment.
#include "builtin_profiles.inc"

constexpr std::string_view extension = ".toml";

std::string name_of(std::string_view path) {
  path = base_name(path);
  if (path.ends_with(extension)) path.remove_suffix(extension.size());
  return std::string(path);
}

Outcome<Profile> read(const std::string& path, const Host& host, Arena& arena) {
  auto document = host.file(path);
  if (!document) return Faults{unreadable_profile(path)};
  return read_profile(name_of(path), std::move(*document), path, arena);
}

/// A recognised profile, with the criteria by which the most specific one sorts first. A platform and a
/// launcher have the same rank, and are compared by the other criteria.
struct Match {
  ProfileKind rank;
  bool is_builtin, is_no_launcher;
  std::ptrdiff_t minus_signs;
  std::string_view name;
  const Profile* profile;

  auto operator<=>(const Match&) const = default;
};

bool matches_any(std::string_view text, Globs globs) {
  return std::ranges::any_of(globs, [&](std::string_view glob) { return glob_match(text, glob); });
}

bool supersedes(const Profile& profile, const Profile& other) {
  return &profile != &other && matches_any(other.name, profile.supersedes);
}

/// How many signs hold, or how many positive conditions the most specific [[match]] that is met has; nullopt
/// if neither applies.
std::optional<std::ptrdiff_t> signs_of(const Profile& profile, EvalContext& context) {
  Evaluation evaluation(profile, context);
  const auto holds = [&](const Expression& condition) { return evaluation.holds(condition); };
  std::optional<std::ptrdiff_t> best;
  if (const auto there = std::ranges::count_if(profile.signs, holds); there != 0) best = there;
  for (const Conditions& way : profile.match)
    if (const auto met = evaluation.met(way); !met.empty())
      best = std::max(best.value_or(0), std::ranges::count(met, false, &Expression::is_negative));
  return best;
}

/// As signs_of(); nullopt if the profile is not recognised.
std::optional<std::ptrdiff_t> fulfilled(const Profile& profile, EvalContext& context) {
  // `unless` comes first, because it only has variables, while a sign may be a file.
  Evaluation evaluation(profile, context);
  const auto holds = [&](const Expression& condition) { return evaluation.holds(condition); };
  return std::ranges::any_of(profile.unless, holds) ? std::nullopt : signs_of(profile, context);
}

/// Which profiles have a clue among the variables that are set. If the list has users' profiles, all are
/// treated as if they had.
std::vector<bool> candidates(std::span<const Profile> profiles, const Host& host) {
  if (profiles.data() != all_profiles.data()) return std::vector<bool>(profiles.size(), true);
  std::vector<bool> candidates(profiles.size());
  const auto add = [&](std::string_view variable) {
    for (const Clue& clue : std::ranges::equal_range(clues, variable, {}, &Clue::variable))
      candidates[clue.profile] = true;
  };
  for (const std::string_view without : {"", "RANKSHIM_NNODES"}) add(without);  // an option may set this
  for (const std::string_view entry : host.environment().entries()) add(node::entry_name(entry));
  return candidates;
}

/// The numbers in which two platforms of one job cannot differ.
constexpr auto decisive = std::to_array<Fact>({Fact::nnodes, Fact::node_rank, Fact::rank, Fact::world_size});

/// Whether a number of nodes, which may be unknown, is at most one.
bool is_one(std::string_view nnodes) { return nnodes.empty() || nnodes == "1"; }

/// See Platform::nodes_around.
std::optional<Value> nodes_around(std::span<const Profile> profiles, const std::vector<bool>& has_clue,
                                  EvalContext& context) {
  for (const Profile& profile : profiles) {
    if (profile.opt_in || profile.kind != ProfileKind::platform ||
        !has_clue[static_cast<std::size_t>(&profile - profiles.data())] || !signs_of(profile, context))
      continue;
    auto nnodes = Evaluation(profile, context).facts()[Fact::nnodes];
    if (nnodes && !is_one(nnodes->text)) return nnodes;
  }
  return std::nullopt;
}

/// The quoted variables from which a fact is read: those of the platform, generic names, and torchrun's.
/// Quotes can also be the reason that a platform is not recognised: if it would be without them, its
/// variables are included.
std::vector<Quoted> quoted_variables(std::span<const Profile> profiles, const std::vector<bool>& has_clue,
                                     const Profile* winner, EvalContext& context) {
  constexpr auto identifiers =
      std::to_array<Fact>({Fact::run_id, Fact::rdzv_id, Fact::rdzv_conf, Fact::attempt});
  std::vector<Quoted> quoted;
  const auto add = [&](Fact fact, std::string_view name, bool is_read) {
    const auto value = context.get(name);
    if (value && has_quotes_around(*value) && (is_read || parse_number<unsigned>(without_quotes(*value))) &&
        std::ranges::find(quoted, name, &Quoted::name) == quoted.end())
      quoted.push_back({fact, std::string(name), std::string(*value)});
  };
  const auto has_quotes = [](std::string_view entry) {
    const std::string_view name = node::entry_name(entry);
    return !name.empty() && has_quotes_around(trimmed(entry.substr(name.size() + 1)));
  };
  if (std::ranges::none_of(context.host.environment().entries(), has_quotes)) return quoted;
  EvalContext plain(context.host, context.get("RANKSHIM_NNODES").value_or(""), true);
  for (std::size_t i = 0; i < profiles.size(); ++i) {
    const Profile& profile = profiles[i];
    const bool is_read =
        &profile == winner || profile.kind == ProfileKind::names || profile.kind == ProfileKind::flags;
    const bool may_be_meant = has_clue[i] && !profile.opt_in &&
                              (winner == nullptr || !winner->has_own_words()) && fulfilled(profile, plain);
    if (!is_read && !may_be_meant) continue;
    // A variable that is a whole fact may also be part of others, so these come first.
    for (const bool is_whole : {true, false})
      for (const FactExpression& one : profile.facts) {
        std::vector<std::string> names;
        if (!contains(identifiers, one.fact) && is_whole == (one.expression.function == Function::variable))
          add_variables(one.expression, names);
        for (const std::string& name : names) add(one.fact, name, is_read);
      }
    std::vector<std::string> names;
    for (const Expression& sign : profile.signs)
      if (may_be_meant) add_variables(sign, names);
    for (const std::string& name : names) add(Fact::nnodes, name, is_read);
  }
  return quoted;
}

/// Reads what anyone may have set besides the platform. The first profile that has a fact provides it.
void read_names(std::span<const Profile> profiles, EvalContext& context, Platform& platform) {
  const bool is_names = platform.profile != nullptr && platform.profile->kind == ProfileKind::names;
  for (const Profile& profile : profiles) {
    const bool has_names = profile.kind == ProfileKind::names && !is_names;
    if (!has_names && profile.kind != ProfileKind::flags) continue;
    Facts& facts = has_names ? platform.names : platform.flags;
    Facts its = Evaluation(profile, context).facts();
    for (const Fact fact : all_facts)
      if (!facts.has(fact)) facts[fact] = std::move(its[fact]);
  }
}

/// The variables that `--platform=none` ignores, although they would identify the platform and give this node
/// its numbers.
std::vector<std::string> ignored_variables(std::span<const Profile> profiles, const Host& host) {
  EvalContext context(host);
  std::vector<std::string> inputs;
  for (const Profile& profile : profiles) {
    if (profile.opt_in || !fulfilled(profile, context)) continue;
    for (const FactExpression& one : profile.facts)
      if (one.fact == Fact::master_addr || contains(decisive, one.fact))
        add_variables(one.expression, inputs);
  }
  for (const Fact fact : {Fact::rank, Fact::world_size, Fact::local_rank})
    add_once(variable_of(fact), inputs);
  std::erase_if(inputs, [&](const std::string& name) { return !context.get(name); });
  return inputs;
}

/// The first of the states that applies to this node.
std::optional<State> state(const Profile& profile, std::span<const Role> states, EvalContext& context) {
  for (const Role& one : states) {
    const auto met = Evaluation(profile, context).met(one.when);
    if (met.empty()) continue;
    Causes causes = causes_of(met, profile, context);
    return State{std::string(one.name), joined(causes.shown), std::string(one.fix), std::move(causes.names)};
  }
  return std::nullopt;
}

/// Adds what casts doubt on the platform: an ambiguous state, and the other profiles that were recognised.
void weigh(std::span<const Match> matches, Platform& platform, EvalContext& context) {
  const Profile& winner = *platform.profile;
  if (auto refused = state(winner, winner.refusals, context)) {
    if (refused->fix.empty())
      refused->fix = refused->names.size() == 1 ? "correct " + refused->names[0] : "correct one of them";
    platform.doubts.push_back({ErrorCode::platform_state, refused->name + " (" + refused->because + ")",
                               std::move(refused->names), refused->fix});
  }
  platform.looks_like_several = state(winner, winner.warnings, context);
  for (const Match& match : matches) {
    const Profile& profile = *match.profile;
    // Generic names are claims of their own; a part says nothing about other nodes.
    if (&profile == &winner || profile.kind == ProfileKind::names || profile.kind == ProfileKind::part ||
        supersedes(winner, profile))
      continue;
    Other other{&profile, Evaluation(profile, context).facts(), {}, {}};
    if (profile.kind == ProfileKind::foreign) {
      Causes causes = causes_of(profile, context.host);
      const bool counts =
          !state(profile, profile.refusals, context) && is_one(other.facts.text(Fact::nnodes));
      if (!counts) other.several = std::move(causes.shown);
      other.names = std::move(causes.names);
    }
    platform.others.push_back(std::move(other));
  }
}

}  // namespace

std::string PlatformId::name() const {
  switch (kind_) {
    case PlatformKind::off:
      return "none";
    case PlatformKind::unknown:
      return "single-node";
    case PlatformKind::recognised:
      break;
  }
  return profile_;
}

std::span<const Profile> builtin_profiles() { return all_profiles; }

Fault unreadable_profile(const std::string& path) {
  return {ErrorCode::profile_file,
          path + ": cannot be read",
          {path},
          "name a readable file with --profile (RANKSHIM_PROFILE)"};
}

Fault unknown_platform(std::span<const Profile> profiles, std::string_view wanted) {
  std::vector<std::string_view> names = {"auto", "none"};
  for (const Profile& profile : profiles) names.push_back(profile.name);
  const std::string begin = std::string(wanted) + "-";
  std::string family;
  for (const std::string_view name : names)
    if (name.starts_with(begin)) family += (family.empty() ? "" : ", ") + std::string(name);
  return {ErrorCode::unknown_platform,
          "there is no platform " + in_quotes(wanted) +
              (family.empty() ? and_nearest(nearest(wanted, names)) : ", only " + family),
          {"--platform"},
          "choose one that `rankshim platforms` lists, with --platform"};
}

std::vector<std::string> users_files(std::string_view file, bool of_launchers, const Host& host) {
  std::vector<std::string> paths;
  host.each_name(profile_folder, [&](std::string_view entry) {
    if (entry.ends_with(extension)) paths.push_back(std::string(profile_folder).append("/").append(entry));
  });
  std::ranges::sort(paths);
  if (!file.empty()) paths.emplace(paths.begin(), file);
  std::erase_if(paths,
                [&](const std::string& path) { return path.ends_with(launcher_extension) != of_launchers; });
  return paths;
}

Outcome<ProfileSet> read_profiles(std::string_view file, const Host& host) {
  const std::vector<std::string> paths = users_files(file, false, host);
  ProfileSet set;
  std::vector<Profile> all;
  Faults faults;
  for (const std::string& path : paths) {
    if (!file.empty() && path != paths.front() && name_of(path) == name_of(file)) continue;
    const auto outcome = read(path, host, set.arena);
    if (const auto* wrong = std::get_if<Faults>(&outcome))
      faults.insert(faults.end(), wrong->begin(), wrong->end());
    else
      all.push_back(std::get<Profile>(outcome));
  }
  if (!faults.empty()) return faults;
  if (all.empty()) return set;
  set.own = all.size();
  std::ranges::copy_if(builtin_profiles(), std::back_inserter(all), [&](const Profile& one) {
    return find(std::span(all).first(set.own), one.name) == nullptr;
  });
  set.profiles = set.arena.keep(std::move(all));
  return set;
}

Faults check_profile(const std::string& path, const Host& host) {
  Arena arena;
  const auto outcome = read(path, host, arena);
  if (const auto* faults = std::get_if<Faults>(&outcome)) return *faults;
  std::vector<std::string> others;
  const auto add = [&](std::string_view entry) { others.push_back(name_of(entry)); };
  const auto slash = path.rfind('/');
  const std::string beside = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  for (const char* folder : {beside.c_str(), profile_folder}) host.each_name(folder, add);
  for (const Profile& other : builtin_profiles()) others.emplace_back(other.name);
  std::erase(others, name_of(path));
  Faults faults;
  for (const std::string_view glob : std::get<Profile>(outcome).supersedes) {
    if (std::ranges::any_of(others, [&](const std::string& name) { return glob_match(name, glob); }))
      continue;
    const std::vector<std::string_view> known(others.begin(), others.end());
    faults.push_back({ErrorCode::profile_file,
                      path + ": no profile fits '" + std::string(glob) + "' in 'supersedes'" +
                          and_nearest(nearest(glob, known)),
                      {path},
                      "write a name that `rankshim platforms` lists, or leave it out"});
  }
  return faults;
}

const Profile* find(std::span<const Profile> profiles, std::string_view name) {
  const auto found = std::ranges::find(profiles, name, &Profile::name);
  return found == profiles.end() ? nullptr : &*found;
}

bool is_agent(const Profile& profile, std::string_view program) {
  return matches_any(base_name(program), profile.agents);
}

Outcome<Platform> recognise(std::span<const Profile> profiles, std::string_view wanted, const Host& host,
                            std::size_t own, std::string_view users_nnodes) {
  Platform result;
  if (wanted == "none") {
    result.id = PlatformId(PlatformKind::off);
    const std::string ignored = joined(ignored_variables(profiles, host));
    if (!ignored.empty())
      result.warnings.push_back("the platform is none, so these variables are ignored: " + ignored +
                                "; unless options give the other nodes, this node trains alone");
    return result;
  }
  EvalContext context(host, users_nnodes);
  std::vector<Match> matches;
  const std::vector<bool> has_clue = candidates(profiles, host);
  if (wanted == "auto") {
    for (const Profile& profile : profiles) {
      if (profile.opt_in || !has_clue[static_cast<std::size_t>(&profile - profiles.data())]) continue;
      const auto signs = fulfilled(profile, context);
      if (!signs) continue;
      const bool is_launcher = profile.kind == ProfileKind::launcher;
      matches.push_back({is_launcher ? ProfileKind::platform : profile.kind,
                         &profile >= profiles.data() + own, !is_launcher, -*signs, profile.name, &profile});
    }
    std::ranges::sort(matches);
    const auto first = std::ranges::find_if(matches, [&](const Match& match) {
      return std::ranges::none_of(
          matches, [&](const Match& other) { return supersedes(*other.profile, *match.profile); });
    });
    if (!matches.empty()) result.profile = (first == matches.end() ? matches.begin() : first)->profile;
    if (result.profile != nullptr && result.profile->kind == ProfileKind::launcher)
      result.nodes_around = nodes_around(profiles, has_clue, context);
    for (const auto& match : matches)
      if (match.profile != result.profile &&
          (match.profile->has_own_words() || result.profile->kind == ProfileKind::foreign))
        result.also_matched.emplace_back(match.name);
  } else {
    result.profile = find(profiles, wanted);
    if (result.profile == nullptr) return Faults{unknown_platform(profiles, wanted)};
  }
  if (const Profile* profile = result.profile) {
    result.id = PlatformId(std::string(profile->name));
    result.granularity = profile->granularity();
    result.facts = Evaluation(*profile, context).facts();
    result.idle = state(*profile, profile->idle_roles, context);
    result.pending = state(*profile, profile->pending, context);
  }
  read_names(profiles, context, result);
  if (!result.idle) result.quoted = quoted_variables(profiles, has_clue, result.profile, context);
  if (result.profile != nullptr && wanted == "auto" && !result.idle && !result.pending)
    weigh(matches, result, context);
  if (!context.unreadable.empty()) return context.unreadable;
  result.warnings = std::move(context.warnings);
  return result;
}

}  // namespace rankshim::platform
