#include "plan/launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <system_error>
#include <unordered_set>
#include <utility>

#include "base/log.h"
#include "base/text.h"
#include "node/addresses.h"
#include "node/process.h"
#include "settings/not_found.h"
#include "topology/ranks.h"

namespace rankshim::plan {
namespace {

using node::Environment;
using node::Host;
using node::Variables;
using settings::Option;
using settings::Settings;

void set_known(EnvironmentChange& change, const Facts& facts, std::string_view name, Fact fact) {
  if (facts.has(fact)) change.set.emplace_back(name, facts.text(fact));
}

void set_known(EnvironmentChange& change, const Facts& facts, std::initializer_list<Fact> which) {
  for (const Fact fact : which) set_known(change, facts, variable_of(fact), fact);
}

void set_node(EnvironmentChange& change, const topology::Topology& topology, const Host& host) {
  const Facts& facts = topology.facts;
  set_known(change, facts, facts_of_node);
  const Environment& environment = host.environment();
  if (topology.is<topology::ElasticNode>()) {  // NNODES is not a number: scripts read these (LLaMA-Factory,
                                               // launcher.py)
    const auto [min, max] = min_and_max(facts.text(Fact::nnodes));
    change.set.insert(change.set.end(), {{"MIN_NNODES", std::string(min)}, {"MAX_NNODES", std::string(max)}});
    set_known(change, facts, "RDZV_ID", Fact::rdzv_id);
  }
  const auto* lone = topology.as<topology::LoneNode>();
  const bool has_ranks = topology.ranks.text(Fact::rank) || topology.ranks.text(Fact::world_size);
  if (lone != nullptr && lone->by_user && has_ranks) {
    // The platform's values are those of a job of several nodes, for which env:// would wait.
    const bool one = facts.text(Fact::nproc_per_node) == "1";
    for (const auto& [fact, value] : {std::pair(Fact::rank, "0"), std::pair(Fact::world_size, "1")})
      one ? void(change.set.emplace_back(variable_of(fact), value))
          : void(change.unset.emplace_back(variable_of(fact)));
  }
  if (lone != nullptr) return;
  // OpenMMLab's scripts read PORT as the master's port; other programs read it as their web server's port.
  if (!environment.get("PORT")) set_known(change, facts, "PORT", Fact::master_port);
  // A node with one worker is that worker's env:// process; the platform's RANK and WORLD_SIZE stay.
  if (!topology.is<topology::ElasticNode>() && facts.text(Fact::nproc_per_node) == "1" && !has_ranks) {
    set_known(change, facts, variable_of(Fact::rank), Fact::node_rank);
    set_known(change, facts, variable_of(Fact::world_size), Fact::nnodes);
  }
}

bool sets(const EnvironmentChange& change, std::string_view name) {
  return std::ranges::any_of(change.set, [&](const auto& one) { return one.first == name; });
}

/// Trims for the command, too, what rankshim read without surrounding blanks (RANK=1\r from a Windows file).
void set_trimmed(EnvironmentChange& change, const Facts& facts, const Environment& environment) {
  std::vector<std::string> read;
  std::ranges::transform(facts_of_process, std::back_inserter(read), variable_of);
  std::ranges::transform(facts_of_node, std::back_inserter(read), variable_of);
  for (const Fact fact : all_facts)
    if (facts.has(fact)) facts[fact]->append_inputs(name(fact), read);
  for (const std::string& entry : environment.entries()) {
    const std::string_view name = node::entry_name(entry);
    const std::string_view value = std::string_view(entry).substr(name.size() + (name.empty() ? 0 : 1));
    const std::string_view plain = trimmed(value);
    if (plain == value || plain.empty()) continue;
    const bool is_read = name.starts_with("PET_") || contains(read, name);
    if (is_read && !sets(change, name)) change.set.emplace_back(name, plain);
  }
}

/// Makes the platform's PET_* agree with rankshim's facts, and unsets empty ones, on which torchrun fails
/// (int('')).
void set_pet(EnvironmentChange& change, const topology::Topology& topology, bool add,
             const Environment& environment) {
  for (const Fact fact : facts_of_node)
    if (const std::string its = "PET_" + upper_case(name(fact)); add || environment.get(its))
      set_known(change, topology.facts, its, fact);
  std::unordered_set<std::string_view> names;
  for (const std::string& entry : environment.entries()) {
    const std::string_view name = node::entry_name(entry);
    if (!name.starts_with("PET_") || !names.insert(name).second) continue;  // first entry counts
    const bool is_empty = trimmed(std::string_view(entry).substr(name.size() + 1)).empty();
    if (is_empty && !sets(change, name)) change.unset.emplace_back(name);
  }
}

/// Whether peers can reach this node at the address that /etc/hosts gives its name: it must belong to the
/// interface that routes to the master, not to docker0 or another network. A name that only DNS knows is
/// treated as unreachable, because setting the interface is right for it too.
bool own_name_is_reachable(const Host& host, std::string_view master) {
  const std::string hosts = host.file("/etc/hosts").value_or("");
  const auto addresses = node::addresses_in_hosts(hosts, host.host_name());
  // A hosts file written by the kubelet has the pod's own address (Kubernetes documentation, "Adding entries
  // to Pod /etc/hosts with HostAliases"); on the host network the kubelet copies the node's file, with a
  // different header. Asking the kernel (socket, bind and close) would take 8 µs.
  const bool own = hosts.starts_with("# Kubernetes-managed hosts file.\n");
  return !addresses.empty() && std::ranges::all_of(addresses, [&](const auto& address) {
    const std::string text = address.to_string();
    return !node::unmapped(address).is_loopback() &&
           (own ||
            (host.owns_address(text) && host.interface_towards(text) == host.interface_towards(master)));
  });
}

/// Warns a script that joins the job by itself and would read RANK and WORLD_SIZE in different units. Most
/// programs never read both.
void warn_of_env(const topology::Topology& topology, const PythonWords& python, const Host& host,
                 std::vector<std::string>& warnings) {
  const topology::RankVariables& ranks = topology.ranks;
  topology::KnownNode known;
  known.nnodes = topology.nodes();
  known.node_rank = topology.node_rank();
  known.workers = topology.workers();
  if (python.module || !units_differ(ranks, known)) return;
  if (host.file(python.what).value_or("").find("init_process_group") == std::string::npos) return;
  warnings.push_back(fmt::format(
      "WORLD_SIZE={} counts processes but RANK={} counts nodes: {} calls init_process_group, which would "
      "wait forever with env://; give the script to rankshim instead (rankshim -- {})",
      *ranks.world_size, *ranks.rank, python.what, python.what));
}

}  // namespace

void EnvironmentChange::replace(std::string name, std::string value) {
  std::erase_if(set, [&](const auto& entry) { return entry.first == name; });
  std::erase(unset, name);
  set.emplace_back(std::move(name), std::move(value));
}

void EnvironmentChange::remove(const std::string& name, const Environment& environment) {
  std::erase_if(set, [&](const auto& entry) { return entry.first == name; });
  if (environment.has(name)) add_once(name, unset);
}

Environment EnvironmentChange::apply(const Environment& environment) const {
  std::map<std::string_view, const std::string*> values;  // null: to be removed
  for (const std::string& name : unset) values[name] = nullptr;
  for (const auto& [name, value] : set) values[name] = &value;
  std::vector<std::string> entries;
  entries.reserve(environment.entries().size() + set.size());
  for (const std::string& entry : environment.entries())
    if (!values.contains(node::entry_name(entry))) entries.push_back(entry);
  for (const auto& [name, value] : values)
    if (value != nullptr) entries.push_back(std::string(name).append("=").append(*value));
  return Environment(std::move(entries));
}

EnvironmentChange environment_change(const topology::Topology& topology, const Host& host, bool with_pet) {
  EnvironmentChange change;
  if (topology.is<topology::Idle>()) return change;
  if (topology.is<topology::CreatedProcess>())  // torch's variables, for a process that exists already
    set_known(change, topology.facts,
              {Fact::rank, Fact::world_size, Fact::local_rank, Fact::local_world_size, Fact::master_addr,
               Fact::master_port});
  else
    set_node(change, topology, host);
  set_pet(change, topology, with_pet, host.environment());
  set_trimmed(change, topology.facts, host.environment());
  return change;
}

Variables network_interface(const topology::Topology& topology, const Host& host,
                            const std::optional<std::string>& address) {
  if (topology.is_alone() || topology.is<topology::Idle>() || topology.nodes() == 1U) return {};
  if (host.environment().get(gloo_interface)) return {};
  std::string master = address.value_or(std::string(topology.facts.text(Fact::master_addr)));
  // If this node's master is "localhost", the other nodes reach it on the default route.
  if (topology::is_loopback(master)) master.clear();
  if (own_name_is_reachable(host, master)) return {};
  const std::string interface = host.interface_towards(master);
  if (interface.empty() || interface == "lo") return {};
  log::debug("this node's interface to the other nodes is {}", interface);
  return {{gloo_interface, interface}};
}

Variables hang_dumps(std::string_view folder, const Environment& environment) {
  Variables variables;
  for (const std::string_view name : {"TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"})
    if (!folder.empty() && !environment.has(name))
      variables.emplace_back(name, fmt::format("{}/rank_", folder));  // torch adds the rank
  return variables;
}

std::optional<PythonWords> read_python(const std::vector<std::string>& command) {
  if (command.empty()) return std::nullopt;
  if (command[0] == "-m" && command.size() > 1) return PythonWords{command[1], true, 2, {}};
  if (command[0].ends_with(".py")) return PythonWords{command[0], false, 1, {}};
  if (!is_version_of(command[0], "python")) return std::nullopt;
  const auto words_before = [&](std::size_t at) {
    return std::vector(command.begin(), command.begin() + static_cast<std::ptrdiff_t>(at));
  };
  for (std::size_t at = 1; at < command.size(); ++at) {
    const std::string& word = command[at];
    if (word == "--check-hash-based-pycs") {
      ++at;
      continue;
    }
    if (word.size() < 2 || word[0] != '-' || word.starts_with("--")) {
      if (word.starts_with('-')) return std::nullopt;
      return PythonWords{word, false, at + 1, words_before(at)};
    }
    const auto letter = word.find_first_of("mcWX", 1);
    if (letter == std::string::npos) continue;
    if (word[letter] == 'c') return std::nullopt;
    const bool apart = letter + 1 == word.size();  // -m MODULE, not -mMODULE
    if (word[letter] == 'm') {
      if (apart && at + 1 == command.size()) return std::nullopt;
      PythonWords words{apart ? command[at + 1] : word.substr(letter + 1), true, at + (apart ? 2 : 1),
                        words_before(at)};
      if (letter > 1) words.interpreter.push_back(word.substr(0, letter));  // -um: -u is an option
      return words;
    }
    if (apart) ++at;
  }
  return std::nullopt;
}

std::vector<std::size_t> possible_starts(const std::vector<std::string>& command) {
  // Each executes what follows its options and at most one argument (`conda run`, `gosu USER`).
  constexpr auto wrappers = std::to_array<std::string_view>(
      {"env",    "nohup",  "nice",    "ionice",     "chrt",  "taskset", "timeout",   "time",
       "setsid", "gosu",   "su-exec", "setpriv",    "sudo",  "tini",    "catatonit", "dumb-init",
       "uv",     "poetry", "pdm",     "pixi",       "hatch", "numactl", "nsys",      "ncu",
       "strace", "conda",  "mamba",   "micromamba", "stdbuf"});
  const bool starts_python = std::ranges::any_of(
      command, [](const std::string& word) { return word == "-m" || word.ends_with(".py"); });
  std::vector<std::size_t> starts;
  bool wrapped = false, value = false;
  for (std::size_t at = 0; at < command.size(); ++at) {
    const std::string_view word = command[at], name = base_name(word);
    const bool option = word.starts_with('-');
    if (at == 0 || !option) starts.push_back(at);
    const bool script_follows = at + 1 < command.size() && command[at + 1].ends_with(".sh");
    if (starts_python && (name.ends_with(".sh") || (node::is_shell(name) && script_follows))) {
      wrapped = value = false;
      continue;
    }
    if (node::is_shell(name)) break;
    if (contains(wrappers, name)) {
      wrapped = value = true;
      continue;
    }
    const bool number = !word.empty() && is_digit(word[0]);
    const auto equals = word.find('=');
    const bool assigns = equals != 0 && equals != std::string_view::npos && !option;
    if (!value && !assigns && !(wrapped && (option || number || word == "run")) &&
        !has_part("exec then do else if !", name, " "))
      break;
    value = wrapped && option && equals == std::string_view::npos;
  }
  return starts;
}

bool is_script(const std::vector<std::string>& command) {
  return !command.empty() && (command[0] == "-m" || command[0].ends_with(".py"));
}

std::string find_interpreter(const Settings& settings, const Host& host) {
  if (const auto& chosen = settings[Option::python]) return chosen->text;
  const auto python3 = host.find_program("python3"), python = host.find_program("python");
  const std::string_view path = host.environment().get("PATH").value_or(node::default_path);
  for (const std::string& candidate : node::executable_candidates("python3", path)) {
    if (candidate == python3) break;
    if (python && candidate == *python + "3") return "python";
  }
  return "python3";
}

std::vector<std::string> program_warnings(const topology::Topology& topology, const Settings& settings,
                                          const std::vector<std::string>& command, const Host& host) {
  std::vector<std::string> warnings;
  if (topology.is<topology::CreatedProcess>() || topology.is<topology::Idle>()) return warnings;
  const auto python = read_python(command);
  if (!python) return warnings;
  warn_of_env(topology, *python, host, warnings);
  const auto& nproc = settings[Option::nproc_per_node];
  if (nproc && topology::parse_count(nproc->text).value_or(0) > 1) {
    warnings.push_back(
        fmt::format("{}={}, but {} is a program, which is one process; rankshim starts workers for a script "
                    "(rankshim -- {}{})",
                    nproc->detail, nproc->text, command[0], python->module ? "-m " : "", python->what));
  }
  return warnings;
}

/// By default torchrun gives each worker one thread, and prints a banner about that.
void share_cpus(EnvironmentChange& change, bool launches, const LaunchInput& input) {
  const Environment& environment = input.host.environment();
  const bool created = input.topology.is<topology::CreatedProcess>();
  const unsigned workers = input.topology.workers();
  if ((!launches && !created) || workers < 2 || environment.get("OMP_NUM_THREADS")) return;
  // Slurm has already divided the CPUs (srun(1), --cpus-per-task).
  const auto per_task =
      created ? topology::parse_count(environment.get("SLURM_CPUS_PER_TASK").value_or("")) : std::nullopt;
  const unsigned threads = per_task ? *per_task : input.host.cpus().count / workers;
  change.set.emplace_back("OMP_NUM_THREADS", fmt::format("{}", std::max(threads, 1U)));
}

SignalSet notices(const Settings& settings) {
  constexpr SignalSet both = bit(SIGUSR1) | bit(SIGUSR2);
  return *settings.get<SignalSet>(Option::worker_signals) & both;
}

Variables user_variables(const Settings& settings) {
  return settings.get<Variables>(Option::env).value_or(Variables{});
}

void hide_own_settings(EnvironmentChange& change, const Environment& environment) {
  for (const std::string& entry : environment.entries()) {
    if (entry.starts_with("RANKSHIM_")) change.unset.emplace_back(node::entry_name(entry));
  }
}

}  // namespace rankshim::plan
