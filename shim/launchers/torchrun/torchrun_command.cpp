#include "launchers/torchrun/torchrun_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/text.h"
#include "topology/python_words.h"
#include "topology/topology.h"

namespace rankshim {
namespace {

struct Known {
  std::string_view name;
  bool has_value;
  char letter = 0;  ///< its short form
};

/// Every flag of torch.distributed.run and .launch, to distinguish a flag's value from the script.
constexpr std::array<Known, 33> known_flags = {{{"nnodes", true},
                                                {"nproc_per_node", true},
                                                {"rdzv_backend", true},
                                                {"rdzv_endpoint", true},
                                                {"rdzv_id", true},
                                                {"rdzv_conf", true},
                                                {"standalone", false},
                                                {"max_restarts", true},
                                                {"monitor_interval", true},
                                                {"start_method", true},
                                                {"event_log_handler", true},
                                                {"role", true},
                                                {"module", false, 'm'},
                                                {"no_python", false},
                                                {"run_path", false},
                                                {"log_dir", true},
                                                {"redirects", true, 'r'},
                                                {"tee", true, 't'},
                                                {"local_ranks_filter", true},
                                                {"duplicate_stdout_filters", true},
                                                {"duplicate_stderr_filters", true},
                                                {"node_rank", true},
                                                {"master_addr", true},
                                                {"master_port", true},
                                                {"local_addr", true},
                                                {"logs_specs", true},
                                                {"numa_binding", true},
                                                {"signals_to_handle", true},
                                                {"shutdown_timeout", true},
                                                {"virtual_local_rank", false},
                                                {"use_env", false},
                                                {"log_line_prefix_template", true},
                                                {"print_completion", true}}};

constexpr std::array<std::pair<std::string_view, Fact>, 10> fact_flags = {
    {{"nnodes", Fact::nnodes},
     {"node_rank", Fact::node_rank},
     {"nproc_per_node", Fact::nproc_per_node},
     {"master_addr", Fact::master_addr},
     {"master_port", Fact::master_port},
     {"rdzv_id", Fact::run_id},
     {"rdzv_backend", Fact::rdzv_backend},
     {"rdzv_endpoint", Fact::rdzv_endpoint},
     {"rdzv_conf", Fact::rdzv_conf},
     {"max_restarts", Fact::max_restarts}}};

/// torchrun, torchrun3, torchrun-3.11.
bool is_torchrun(std::string_view word) {
  constexpr std::string_view name = "torchrun";
  const std::string_view base = base_name(word);
  return base.starts_with(name) &&
         base.find_first_not_of("0123456789.-", name.size()) == std::string_view::npos;
}

bool is_torchrun(const PythonWords& python) {
  if (python.module)
    return python.what == "torch.distributed.run" || python.what == "torch.distributed.launch";
  return is_torchrun(python.what) || python.what.ends_with("torch/distributed/run.py") ||
         python.what.ends_with("torch/distributed/launch.py");
}

/// The flag for a long option without its dashes, possibly abbreviated; null if none or several match.
const Known* long_flag(std::string_view word) {
  std::string name(word);
  std::replace(name.begin(), name.end(), '-', '_');
  const Known* found = nullptr;
  for (const Known& flag : known_flags) {
    if (flag.name == name) return &flag;
    if (!flag.name.starts_with(name)) continue;
    if (found != nullptr) return nullptr;
    found = &flag;
  }
  return found;
}

void read_flags(const std::vector<std::string>& command, TorchrunCommand& torchrun) {
  std::size_t at = torchrun.flags_at;
  while (at < command.size()) {
    const std::string_view word = command[at];
    if (word == "--") {
      ++at;
      break;
    }
    if (word.size() < 2 || word[0] != '-') break;
    const Known* known = nullptr;
    std::optional<std::string> value;
    if (word.starts_with("--")) {
      const auto equals = word.find('=');
      known = long_flag(word.substr(2, equals == std::string_view::npos ? equals : equals - 2));
      if (equals != std::string_view::npos) value = std::string(word.substr(equals + 1));
    } else {
      const auto flag = std::find_if(known_flags.begin(), known_flags.end(),
                                     [&](const Known& candidate) { return candidate.letter == word[1]; });
      if (flag != known_flags.end()) known = &*flag;
      if (word.size() > 2) value = std::string(word.substr(word[2] == '=' ? 3 : 2));  // -r3, -r=3
    }
    std::size_t words = 1;
    if (known != nullptr && known->has_value && !value && at + 1 < command.size()) {
      value = command[at + 1];
      words = 2;
    }
    const std::string_view written = word.substr(word[1] == '-' ? 2 : 1);
    torchrun.flags.push_back({known != nullptr ? known->name : written.substr(0, written.find('=')),
                              value.value_or(""), at, words});
    at += words;
  }
  torchrun.script_at = std::min(at, command.size());
}

/// The flag's name as the user wrote it, for messages: "torchrun --node-rank".
std::string written(const TorchrunCommand::Flag& flag, const std::vector<std::string>& command) {
  const std::string& word = command[flag.at];
  return "torchrun " + word.substr(0, word.find('='));
}

/// Port 0 is any free port, which no other node could know. As in torch, the port of ::1:0 is 0: the address
/// needs no brackets (elastic/rendezvous/utils.py, parse_rendezvous_endpoint).
bool is_own_endpoint(std::string_view endpoint) {
  const auto colon = endpoint.rfind(':');
  return colon != std::string_view::npos && endpoint.substr(colon + 1) == "0" &&
         is_loopback(endpoint.substr(0, colon));
}

void read_facts(const std::vector<std::string>& command, TorchrunCommand& torchrun) {
  for (const auto& [name, fact] : fact_flags) {
    if (const auto* flag = torchrun.find(name))
      torchrun.given.facts[fact] = Value{flag->value, Origin::option, written(*flag, command)};
  }
  Facts& facts = torchrun.given.facts;
  const auto* standalone = torchrun.find("standalone");
  const auto* endpoint = torchrun.find("rdzv_endpoint");
  const bool own = endpoint != nullptr && is_own_endpoint(endpoint->value);
  torchrun.given.names_nnodes = torchrun.find("nnodes") != nullptr;
  torchrun.given.meets_itself = standalone != nullptr || own;
  if (!torchrun.given.meets_itself) return;
  for (const Fact other : {Fact::node_rank, Fact::master_addr, Fact::master_port, Fact::run_id,
                           Fact::rdzv_backend, Fact::rdzv_endpoint, Fact::rdzv_conf})
    facts[other].reset();
  if (!facts.has(Fact::nnodes))
    facts[Fact::nnodes] = Value{"1", Origin::option,
                                standalone != nullptr ? std::string("torchrun --standalone")
                                                      : written(*endpoint, command) + "=" + endpoint->value};
}

}  // namespace

const TorchrunCommand::Flag* TorchrunCommand::find(std::string_view name) const {
  const auto found =
      std::find_if(flags.rbegin(), flags.rend(), [&](const Flag& f) { return f.name == name; });
  return found == flags.rend() ? nullptr : &*found;
}

std::string TorchrunCommand::script(const std::vector<std::string>& command) const {
  if (script_at >= command.size() || find("module") != nullptr || find("no_python") != nullptr) return {};
  return command[script_at];
}

std::optional<TorchrunCommand> read_torchrun(const std::vector<std::string>& command) {
  TorchrunCommand torchrun;
  if (!command.empty() && is_torchrun(command[0])) {
    torchrun.program = command[0];
    torchrun.flags_at = 1;
  } else if (auto python = read_python(command); python && is_torchrun(*python)) {
    torchrun.interpreter = std::move(python->interpreter);
    torchrun.flags_at = python->rest;
  } else {
    return std::nullopt;
  }
  read_flags(command, torchrun);
  read_facts(command, torchrun);
  return torchrun;
}

TorchrunCommand read_torchrun_args(const std::vector<std::string>& words) {
  TorchrunCommand torchrun;
  read_flags(words, torchrun);
  return torchrun;
}

}  // namespace rankshim
