#include "plan/launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <variant>

#include "base/text.h"
#include "topology/ranks.h"

namespace rankshim {
namespace {

/// python, python3, python3.11.
bool is_interpreter(std::string_view word) {
  constexpr std::string_view name = "python";
  const std::string_view base = base_name(word);
  return base.starts_with(name) &&
         base.find_first_not_of("0123456789.", name.size()) == std::string_view::npos;
}

/// Most programs never read both variables; only a script that joins by itself gets the warning.
void warn_of_env(const Topology& topology, const PythonWords& python, const Node& node,
                 std::vector<std::string>& warnings) {
  const RankVariables ranks = rank_variables(node.environment());
  KnownNode known;
  known.nnodes = topology.nodes();
  known.node_rank = topology.node_rank();
  known.workers = topology.workers();
  if (python.module || !units_differ(ranks, known)) return;
  if (node.file(python.what).value_or("").find("init_process_group") == std::string::npos) return;
  warnings.push_back(fmt::format(
      "WORLD_SIZE={} counts processes but RANK={} counts nodes: {} calls init_process_group, which would "
      "wait for ever with env://; give the script to rankshim instead (rankshim -- {})",
      *ranks.world_size, *ranks.rank, python.what, python.what));
}

}  // namespace

std::optional<PythonWords> read_python(const std::vector<std::string>& command) {
  if (command.empty()) return std::nullopt;
  if (command[0] == "-m" && command.size() > 1) return PythonWords{command[1], true, 2, {}};
  if (command[0].ends_with(".py")) return PythonWords{command[0], false, 1, {}};
  if (!is_interpreter(command[0])) return std::nullopt;
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

bool is_script(const std::vector<std::string>& command) {
  return !command.empty() && (command[0] == "-m" || command[0].ends_with(".py"));
}

std::string find_interpreter(const Settings& settings, const Node& node) {
  if (const auto& chosen = settings[Option::python]) return chosen->text;
  const auto python3 = node.find_program("python3"), python = node.find_program("python");
  const std::string_view path = node.environment().get("PATH").value_or(default_path);
  for (const std::string& candidate : executable_candidates("python3", path)) {
    if (candidate == python3) break;
    if (python && candidate == *python + "3") return "python";
  }
  return "python3";
}

std::optional<Fault> check_idle_role(LaunchChoice& choice, const LaunchInput& input, bool can_train) {
  const auto* idle = input.topology.as<Idle>();
  if (idle == nullptr) return std::nullopt;
  const std::string what = fmt::format("this container's role on {} is '{}' ({})", input.topology.platform,
                                       idle->name, idle->because);
  if (!can_train) {
    choice.warnings.push_back(what + ", which does not train; the program runs as it is");
    return std::nullopt;
  }
  return Fault{Anchor::role, fmt::format("{}, where {} would train alone", what, input.command[0]),
               idle->names,
               fmt::format("{}, or describe this node with --platform=generic, --nnodes, "
                           "--node-rank and --master-addr (RANKSHIM_PLATFORM, …)",
                           idle->fix.empty() ? "start it where the job's training tasks run" : idle->fix)};
}

void choose_wait(LaunchChoice& choice, const LaunchInput& input) {
  const Topology& topology = input.topology;
  const std::string_view wanted = input.settings.text(Option::wait);
  const Master* master = topology.master();
  if (master == nullptr || wanted == "none") return;
  // `rankshim wait` has no command: its purpose is the master itself, not only its name.
  const bool joins = choice.by_torchrun() || (choice.launches() && is_script(input.command)) ||
                     input.command.empty() || topology.is<CreatedProcess>();
  const bool needs_no_wait =
      topology.is_alone() && (is_literal(master->host) || is_localhost_name(master->host));
  if (wanted == "auto" && (topology.platform == "none" || needs_no_wait)) return;
  const bool opens_port = topology.hosts_master().value_or(false);
  const bool to_port = wanted == "port" || (wanted == "auto" && joins);
  choice.wait = to_port && !opens_port ? Until::port : Until::name;
}

void choose_link(LaunchChoice& choice, const LaunchInput& input) {
  const auto& [topology, settings, command, node] = input;
  const std::string_view wanted = settings.text(Option::link);
  if (command.empty() || wanted == "off") return;
  if (wanted == "on") {
    choice.link_demanded_by = "--link=on";
  } else if (settings.get<RestartLimit>(Option::job_restarts)->most != 0) {
    choice.link_demanded_by = "--job-restarts";
  }
  const bool is_possible = topology.is<StaticNode>() && topology.master() != nullptr;
  const std::string_view wait = settings.text(Option::wait);
  const bool would_wait = wait == "auto" || wait == "port";
  const bool is_useful = (choice.launches() || choice.joins_nodes()) && would_wait;
  choice.links = is_possible && (is_useful || !choice.link_demanded_by.empty());
  if (wanted == "on" && !is_possible && !topology.is_alone())
    choice.warnings.emplace_back(
        "only nodes that have their numbers and a master from the beginning can be linked: this one goes on "
        "without a link");
}

/// A program that waits for nothing is executed at once, and the failure of that has the better message.
std::string find_missing(const LaunchChoice& choice, const LaunchInput& input, const std::string& script) {
  const Node& node = input.node;
  if (!choice.launches() && choice.wait == Until::none && !is_script(input.command)) return {};
  const std::string& program = choice.interpreter.empty() ? input.command[0] : choice.interpreter;
  // A file that exists and cannot be executed is a different case: executing it gives the reason.
  const bool is_path = program.find('/') != std::string::npos;
  if (!node.find_program(program) && !(is_path && node.file(program))) {
    if (!is_script(input.command)) return not_found(program);
    const auto& chosen = input.settings[Option::python];
    return chosen ? fmt::format("{}={} was not found", chosen->detail, chosen->text)
                  : "neither python3 nor python is in PATH; set RANKSHIM_PYTHON (--python)";
  }
  // A folder with a __main__.py is a script too, and a shell's <(…) can be read only once.
  if (script.empty() || script.starts_with("/dev/")) return {};
  const auto read = node.read(script);
  const auto* refusal = std::get_if<Unreadable>(&read);
  if (refusal == nullptr || node.file(script + "/__main__.py")) return {};
  std::error_code unknown;
  const std::string folder = script.starts_with('/') ? "" : std::filesystem::current_path(unknown).string();
  return fmt::format("the script {} cannot be read ({}){}{}", script, refusal->why(),
                     folder.empty() ? "" : "; the working directory is ", folder);
}

std::vector<std::string> program_warnings(const Topology& topology, const Settings& settings,
                                          const std::vector<std::string>& command, const Node& node) {
  std::vector<std::string> warnings;
  if (topology.is<CreatedProcess>() || topology.is<Idle>()) return warnings;
  const auto python = read_python(command);
  if (!python) return warnings;
  warn_of_env(topology, *python, node, warnings);
  const auto& nproc = settings[Option::nproc_per_node];
  if (nproc && parse_count(nproc->text).value_or(0) > 1) {
    warnings.push_back(
        fmt::format("{}={}, but {} is a program, which is one process; rankshim starts workers for a script "
                    "(rankshim -- {}{})",
                    nproc->detail, nproc->text, command[0], python->module ? "-m " : "", python->what));
  }
  return warnings;
}

/// By default torchrun gives each worker one thread, and prints a banner about it.
void share_cpus(EnvironmentChange& change, const LaunchChoice& choice, const LaunchInput& input) {
  const Environment& environment = input.node.environment();
  const bool created = input.topology.is<CreatedProcess>();
  const unsigned workers = input.topology.workers();
  if ((!choice.launches() && !created) || workers < 2 || environment.get("OMP_NUM_THREADS")) return;
  // Slurm has already shared them out (srun(1), --cpus-per-task).
  const auto per_task =
      created ? parse_count(environment.get("SLURM_CPUS_PER_TASK").value_or("")) : std::nullopt;
  const unsigned threads = per_task ? *per_task : input.node.cpus().count / workers;
  change.set.emplace_back("OMP_NUM_THREADS", fmt::format("{}", std::max(threads, 1U)));
}

Variables user_variables(const Settings& settings) {
  return settings.get<Variables>(Option::env).value_or(Variables{});
}

void hide_own_settings(EnvironmentChange& change, const Environment& environment) {
  for (const std::string& entry : environment.entries()) {
    if (entry.starts_with("RANKSHIM_")) change.unset.emplace_back(entry_name(entry));
  }
}

}  // namespace rankshim
