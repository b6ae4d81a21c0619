#include <catch2/catch.hpp>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>

#include "platform/recording_for_test.h"
#include "topology/resolve_for_test.h"

/// Every refusal's advice is tested: following its fix must lead to the right numbers.

namespace rankshim::topology {
namespace {

/// One action of a fix.
struct Step {
  std::string verb;   ///< set, unset, correct, mount, or option
  std::string name;   ///< the variable, file or option
  std::string value;  ///< of an option that has one in the text
};

/// All of a way out is done together.
using Way = std::vector<Step>;

bool has_option(const Way& way) {
  return std::any_of(way.begin(), way.end(), [](const Step& step) { return step.verb == "option"; });
}

bool is_variable(std::string_view word) {
  if (word == "RANK" || word == "NNODES") return true;
  return word.size() > 3 && word.front() >= 'A' && word.front() <= 'Z' &&
         word.find('_') != std::string_view::npos;
}

std::string without_brackets(std::string_view text) {
  std::string result;
  int depth = 0;
  for (const char c : text) {
    if (c == '(') ++depth;
    if (depth == 0) result += c;
    if (c == ')') --depth;
  }
  return result;
}

/// The ways out that a fix names, in its order: between "or" and "or".
std::vector<Way> ways_of(std::string_view fix) {
  std::vector<Way> ways(1);
  std::string verb, word;
  for (const char c : without_brackets(fix) + " ") {
    if (c != ' ' && c != ',' && c != ';') {
      word += c;
      continue;
    }
    if (word == "or") ways.emplace_back();
    if (word == "set" || word == "unset" || word == "correct" || word == "mount") verb = word;
    if (word.starts_with("--")) {
      const auto equals = word.find('=');
      ways.back().push_back(
          {"option", word.substr(0, equals), equals == std::string::npos ? "" : word.substr(equals + 1)});
    } else if (is_variable(word) || word.starts_with('/')) {
      ways.back().push_back({verb, word, ""});
    }
    word.clear();
  }
  std::erase_if(ways, [](const Way& way) { return way.empty(); });
  return ways;
}

/// A node of the job, as it is after some advice was followed.
struct State {
  std::vector<std::string> variables;
  std::map<std::string, std::string> files;
  std::map<std::string, std::string> options;

  void set(const std::string& name, const std::string& value) {
    unset(name);
    variables.push_back(name + "=" + value);
  }
  void unset(std::string_view name) {
    std::erase_if(variables,
                  [&](const std::string& entry) { return glob_match(node::entry_name(entry), name); });
  }
  [[nodiscard]] Outcome<Topology> resolved(const std::string& hostname) const {
    node::FakeHost host(variables);
    host.name = hostname;
    host.files = files;
    std::vector<std::string> words;
    words.reserve(options.size());
    for (const auto& [name, value] : options) words.emplace_back(name).append("=").append(value);
    return resolve(host, std::move(words));
  }
};

/// The platform's facts.
Facts facts_in(const State& state, const std::string& hostname) {
  node::FakeHost host(state.variables);
  host.name = hostname;
  host.files = state.files;
  const auto outcome = platform::recognise(platform::builtin_profiles(), "auto", host);
  const auto* platform = std::get_if<platform::Platform>(&outcome);
  return platform == nullptr ? Facts() : platform->facts;
}

/// What a user who follows the advice knows: the recorded environment, and the numbers that it gave.
class Walker {
 public:
  Walker(const platform::Recording& recording, const Topology& truth)
      : recording_(recording), truth_(truth) {}

  /// The variable that was altered; a fact that is still read from it has its value, and no program could
  /// know better.
  std::string altered;
  Facts believed;

  /// Follows the fault's fix, and all later ones, until nothing is wrong; nothing if a way needs what cannot
  /// be known here.
  [[nodiscard]] std::optional<Outcome<Topology>> follow(State state, const Way& first) const {
    if (!apply(first, state)) return std::nullopt;
    for (int i = 0; i < 6; ++i) {
      auto outcome = state.resolved(recording_.hostname);
      const auto* faults = std::get_if<Faults>(&outcome);
      if (faults == nullptr) return outcome;
      const auto before = std::pair(state.options, state.variables);
      for (const Fault& fault : *faults) {
        const auto ways = ways_of(fault.fix);
        std::find_if(ways.rbegin(), ways.rend(),
                     [&](const Way& way) { return has_option(way) && apply(way, state); });
      }
      if (std::pair(state.options, state.variables) == before) return outcome;
    }
    return state.resolved(recording_.hostname);
  }

  [[nodiscard]] bool is_right(const Topology& topology) const {
    const bool process = topology.is<CreatedProcess>();
    const bool same = topology.is<CreatedProcess>() == truth_.is<CreatedProcess>();
    const auto is_same = [&](Fact fact, Fact its) {
      const auto& value = topology.facts[fact];
      return topology.facts.text(fact) == truth_.facts.text(its) ||
             (value && value->detail.find(altered) != std::string::npos) ||
             (believed.has(fact) && believed.text(fact) == topology.facts.text(fact));
    };
    if (process && !is_same(Fact::rank, same ? Fact::rank : Fact::node_rank)) return false;
    if (process && !is_same(Fact::world_size, same ? Fact::world_size : Fact::nnodes)) return false;
    if (!process && !is_same(Fact::nnodes, Fact::nnodes)) return false;
    if (!process && !topology.is<ElasticNode>() && !is_same(Fact::node_rank, Fact::node_rank)) return false;
    // The host may have its name or localhost; alone there is nothing to meet.
    return topology.is_alone() || topology.hosts_master().value_or(false) ||
           is_same(Fact::master_addr, Fact::master_addr);
  }

  [[nodiscard]] bool is_alone() const { return truth_.is_alone(); }

 private:
  [[nodiscard]] std::string fact_of(std::string_view name) const {
    static const std::map<std::string_view, Fact> facts = {{"NNODES", Fact::nnodes},
                                                           {"NODE_RANK", Fact::node_rank},
                                                           {"MASTER_ADDR", Fact::master_addr},
                                                           {"MASTER_PORT", Fact::master_port},
                                                           {"LOCAL_RANK", Fact::local_rank},
                                                           {"NPROC_PER_NODE", Fact::nproc_per_node},
                                                           {"--nnodes", Fact::nnodes},
                                                           {"--node-rank", Fact::node_rank},
                                                           {"--master-addr", Fact::master_addr},
                                                           {"--master-port", Fact::master_port},
                                                           {"--nproc-per-node", Fact::nproc_per_node},
                                                           {"--rdzv-endpoint", Fact::rdzv_endpoint},
                                                           {"--rdzv-backend", Fact::rdzv_backend},
                                                           {"--max-restarts", Fact::max_restarts},
                                                           {"--run-id", Fact::run_id}};
    const bool process = truth_.is<CreatedProcess>();
    if (name == "RANK") return std::string(truth_.facts.text(process ? Fact::rank : Fact::node_rank));
    if (name == "LOCAL_RANK" && !process) return "0";
    if (name == "WORLD_SIZE")
      return std::string(truth_.facts.text(process ? Fact::world_size : Fact::nnodes));
    const auto found = facts.find(name);
    return found == facts.end() ? "" : std::string(truth_.facts.text(found->second));
  }

  bool apply(const Way& way, State& state) const {
    const State before = state;
    for (const Step& step : way) {
      if (apply(step, state)) continue;
      state = before;
      return false;
    }
    return true;
  }

  bool apply(const Step& step, State& state) const {
    if (step.verb == "option") {
      const std::string value = step.value.empty() ? fact_of(step.name) : step.value;
      if (value.empty()) return false;
      state.options.insert_or_assign(step.name, value);
      return true;
    }
    if (step.verb == "unset") {
      state.unset(step.name);
      return true;
    }
    if (step.name.starts_with('/')) {
      const auto file = recording_.files.find(step.name);
      if (file == recording_.files.end()) return false;
      state.files[file->first] = file->second;
      return true;
    }
    bool restored = false;
    for (const std::string& entry : recording_.variables) {
      if (!glob_match(node::entry_name(entry), step.name)) continue;
      state.set(std::string(node::entry_name(entry)), entry.substr(entry.find('=') + 1));
      restored = true;
    }
    if (restored) return true;
    const std::string value = fact_of(step.name);
    if (value.empty()) return false;
    state.set(step.name, value);
    return true;
  }

  const platform::Recording& recording_;
  const Topology& truth_;
};

/// A variable that is set, or a file.
bool names_something(const Fault& fault, const State& state) {
  return std::any_of(fault.names.begin(), fault.names.end(), [&](const std::string& name) {
    return name.starts_with('/') ||
           std::any_of(state.variables.begin(), state.variables.end(),
                       [&](const std::string& entry) { return glob_match(node::entry_name(entry), name); });
  });
}

void check_advice(const State& state, const Walker& walker, const Faults& faults) {
  const Fault& fault = faults.front();
  INFO(to_line(fault));
  CHECK(names_something(fault, state));
  if (fault.transient) return;  // waiting is the way out
  bool right_by_option = false;
  for (const Way& way : ways_of(fault.fix)) {
    std::string words;
    for (const Step& step : way) words += step.verb + " " + step.name + " " + step.value + "; ";
    INFO(words);
    const auto outcome = walker.follow(state, way);
    if (!outcome) continue;
    if (const auto* still = std::get_if<Faults>(&*outcome)) {
      INFO(to_line(still->front()));
      CHECK(std::holds_alternative<Topology>(*outcome));
      continue;
    }
    const auto& topology = std::get<Topology>(*outcome);
    // The user decides which platform counts and in which unit, but the node must not train alone.
    const bool is_choice = !way.front().value.empty() || way.front().verb == "unset";
    INFO(topology.facts.text(Fact::node_rank) << " of " << topology.facts.text(Fact::nnodes));
    if (is_choice)
      CHECK((walker.is_alone() || !topology.is_alone() || topology.is<Idle>()));
    else
      CHECK(walker.is_right(topology));
    if (has_option(way) && (is_choice || walker.is_right(topology))) right_by_option = true;
  }
  CHECK(right_by_option);
}

/// Alters each recorded environment in one thing after the other, follows the advice of each refusal, and
/// returns how many refusals there were. `alter` calls its second argument with each state that it makes.
using Look = std::function<void(const std::string& altered, const State& state, bool is_believed)>;
std::size_t follow_all(const std::function<void(const State& whole, const Look& look)>& alter) {
  std::size_t refusals = 0;
  for (const platform::Recording& recording : platform::recordings()) {
    const State whole{recording.variables, recording.files, {}};
    const auto outcome = whole.resolved(recording.hostname);
    const auto* truth = std::get_if<Topology>(&outcome);
    if (truth == nullptr || truth->is<Idle>()) continue;
    INFO(recording.path.string());
    Walker walker(recording, *truth);
    alter(whole, [&](const std::string& altered, const State& state, bool is_believed) {
      const auto found = state.resolved(recording.hostname);
      const auto* faults = std::get_if<Faults>(&found);
      if (faults == nullptr) return;
      ++refusals;
      walker.altered = altered;
      walker.believed = is_believed ? facts_in(state, recording.hostname) : Facts();
      check_advice(state, walker, *faults);
    });
  }
  return refusals;
}

/// The same where each variable has each of these values.
std::size_t follow_all(std::initializer_list<const char*> values) {
  return follow_all([&](const State& whole, const Look& look) {
    for (const std::string& entry : whole.variables) {
      const std::string name(node::entry_name(entry));
      for (const char* value : values) {
        INFO(name << " as '" << value << "'");
        State altered = whole;
        altered.set(name, value);
        look(name, altered, true);
      }
    }
  });
}

}  // namespace

TEST_CASE(
    "following a refusal's advice leads to the right numbers where a variable or file is missing or empty") {
  const std::size_t without = follow_all([](const State& whole, const Look& look) {
    for (const std::string& entry : whole.variables) {
      const std::string name(node::entry_name(entry));
      INFO("without " << name);
      State without = whole;
      without.unset(name);
      look(name, without, false);
    }
    for (const auto& [path, content] : whole.files) {
      INFO("without " << path);
      State without = whole;
      without.files.erase(path);
      look(path, without, false);
      INFO("empty");
      without.files[path] = "";
      look(path, without, false);
      INFO("damaged");
      without.files[path] = content.substr(0, content.size() / 2);
      look(path, without, false);
    }
  });
  CHECK(without > 300);
  CHECK(follow_all({""}) > 200);
}

TEST_CASE(
    "following a refusal's advice leads to the right numbers where a variable is not a number or list") {
  CHECK(follow_all({"x", "[]"}) > 700);
}

TEST_CASE("following a refusal's advice leads to the right numbers where a variable is another number") {
  CHECK(follow_all({"0", "7"}) > 600);
}

}  // namespace rankshim::topology
