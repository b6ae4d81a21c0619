#include "launch/program_warnings.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/text.h"
#include "topology/python_words.h"

namespace rankshim {
namespace {

/// A launcher with its own flags for the other nodes.
struct OtherLauncher {
  std::string_view program;
  std::string_view subcommand;  ///< empty where it has none
  std::string_view module;      ///< `python -m` this is the same
  std::string_view flag;        ///< with this flag the launcher knows of the other nodes
  std::string_view ignores;     ///< the variables that it does not read
  std::string_view instead;
};

/// Tried on two nodes, or read in their sources: huggingface/accelerate@v1.15 commands/launch.py,
/// deepspeedai/DeepSpeed@v0.19 launcher/runner.py (without a hostfile it sets the master to 127.0.0.1),
/// pytorch/torchtune@v0.6.1 _cli/run.py (standalone without an endpoint), mosaicml/composer cli/launcher.py,
/// horovod/horovod runner/launch.py.
constexpr std::array<OtherLauncher, 5> other_launchers = {
    {{"accelerate", "launch", "accelerate.commands.launch", "machine_rank", "NNODES and NODE_RANK",
      "--num_machines, --machine_rank, --main_process_ip, --main_process_port and, for all nodes together, "
      "--num_processes"},
     {"deepspeed", "", "deepspeed.launcher.runner", "node_rank", "NNODES, NODE_RANK and MASTER_ADDR",
      "--hostfile with a line `nodeN slots=WORKERS` for each node, --no_ssh, --node_rank, --master_addr and "
      "--master_port"},
     {"tune", "run", "torchtune._cli.tune", "rdzv_endpoint", "NNODES and MASTER_ADDR",
      "--nnodes, --rdzv_backend c10d and --rdzv_endpoint HOST:PORT"},
     {"composer", "", "composer.cli.launcher", "base_rank", "NNODES",
      "--nproc, --world_size, --base_rank, --node_rank, --master_addr and --master_port"},
     {"horovodrun", "", "horovod.runner.launch", "hosts", "NNODES and NODE_RANK",
      "-np and --hosts on one node only, which starts the others' workers by ssh"}}};

/// Whether a word of the command is --flag, in either spelling, alone or with =value.
bool has_flag(const std::vector<std::string>& command, std::string_view flag) {
  return std::any_of(command.begin(), command.end(), [&](const std::string& word) {
    if (!word.starts_with("--")) return false;
    std::string name = word.substr(2, word.find('=') - 2);
    std::replace(name.begin(), name.end(), '-', '_');
    return name == flag;
  });
}

/// The launcher that the first word starts.
const OtherLauncher* launcher_at(const std::vector<std::string>& command) {
  const auto python = read_python(command);
  // An installed launcher is a Python script too: `python /usr/bin/deepspeed …`.
  const std::string_view name = base_name(python ? std::string_view(python->what) : command[0]);
  const std::size_t rest = python ? python->rest : 1;
  const std::string_view first = rest < command.size() ? std::string_view(command[rest]) : std::string_view{};
  for (const OtherLauncher& known : other_launchers) {
    const bool module = python && python->module && python->what == known.module;
    const bool program = !(python && python->module) && name == known.program &&
                         (known.subcommand.empty() || first == known.subcommand);
    if (module || program) return &known;
  }
  return nullptr;
}

template <std::size_t size>
bool is_one_of(std::string_view word, const std::array<std::string_view, size>& words) {
  return std::ranges::find(words, word) != words.end();
}

bool is_assignment(std::string_view word) {
  const auto equals = word.find('=');
  return equals != 0 && equals != std::string_view::npos && !word.starts_with('-');
}

/// The launcher that a wrapper starts: `env X=Y accelerate launch …`.
const OtherLauncher* other_launcher(std::vector<std::string> command);

/// The same for a shell command line, `cd /x && accelerate launch …`. Quotes are ignored, because only a
/// shell could interpret them.
const OtherLauncher* launcher_in_shell(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  for (const char c : std::string(text) + ';') {
    const bool between = std::string_view(";&|(){}\n").find(c) != std::string_view::npos;
    if (c == '"' || c == '\'') continue;
    if (c != ' ' && c != '\t' && !between) {
      word += c;
      continue;
    }
    if (!word.empty()) words.push_back(std::exchange(word, {}));
    if (!between) continue;
    if (const auto* known = other_launcher(std::exchange(words, {}))) return known;
  }
  return nullptr;
}

const OtherLauncher* other_launcher(std::vector<std::string> command) {
  constexpr std::array<std::string_view, 5> shells = {"sh", "bash", "dash", "zsh", "ksh"};
  constexpr std::array<std::string_view, 6> keywords = {"exec", "then", "do", "else", "if", "!"};
  // Each executes what follows its options and at most one argument (`conda run`, `gosu USER`).
  constexpr std::array<std::string_view, 25> wrappers = {
      "env",  "nohup",   "nice",    "ionice", "chrt",  "taskset",    "timeout",   "time", "setsid",
      "gosu", "su-exec", "setpriv", "sudo",   "tini",  "catatonit",  "dumb-init", "uv",   "numactl",
      "nsys", "ncu",     "strace",  "conda",  "mamba", "micromamba", "stdbuf"};
  bool wrapped = false, value = false;
  for (; !command.empty(); command.erase(command.begin())) {
    if (const auto* known = launcher_at(command)) return known;
    const std::string& word = command[0];
    const std::string_view name = base_name(word);
    if (is_one_of(name, shells)) {
      const auto text = std::ranges::find_if(
          command, [](const std::string& option) { return option[0] == '-' && option.ends_with('c'); });
      return text == command.end() || text + 1 == command.end() ? nullptr : launcher_in_shell(*(text + 1));
    }
    if (is_one_of(name, wrappers)) {
      wrapped = value = true;
      continue;
    }
    const bool option = wrapped && word.starts_with('-');
    const bool number = wrapped && word[0] >= '0' && word[0] <= '9';
    if (!value && !option && !number && !is_assignment(word) && !is_one_of(word, keywords)) return nullptr;
    value = option && word.find('=') == std::string::npos;
  }
  return nullptr;
}

/// If the platform counts WORLD_SIZE in processes and RANK in nodes, env:// in a program waits for ever. Most
/// programs never read both; only a script that joins by itself gets the warning.
void warn_of_env(const Topology& topology, const PythonWords& python, const Node& node,
                 std::vector<std::string>& warnings) {
  const Environment& environment = node.environment();
  const auto world = parse_count(environment.get("WORLD_SIZE").value_or(""));
  const auto rank = parse_count(environment.get("RANK").value_or(""));
  const unsigned nnodes = topology.number(Fact::nnodes), nproc = topology.number(Fact::nproc_per_node);
  if (nnodes < 2 || nproc < 2 || !world || !rank) return;
  if (*world != nnodes * nproc || *rank != topology.number(Fact::node_rank) || python.module) return;
  if (node.file(python.what).value_or("").find("init_process_group") == std::string::npos) return;
  warnings.push_back(fmt::format(
      "WORLD_SIZE={} counts processes but RANK={} counts nodes: {} calls init_process_group, which would "
      "wait for ever with env://; give the script to rankshim instead (rankshim -- {})",
      *world, *rank, python.what, python.what));
}

}  // namespace

std::vector<std::string> program_warnings(const Topology& topology, const Settings& settings,
                                          const std::vector<std::string>& command, const Node& node) {
  std::vector<std::string> warnings;
  if (topology.granularity != platform::Granularity::node || !topology.idle_role.empty()) return warnings;
  if (!topology.alone) {
    const OtherLauncher* other = other_launcher(command);
    if (other != nullptr && !has_flag(command, other->flag))
      warnings.push_back(
          fmt::format("{} does not read {}: each node trains alone unless the launcher is configured "
                      "otherwise; give it {}",
                      other->program, other->ignores, other->instead));
    if (other != nullptr) return warnings;
  }
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

}  // namespace rankshim
