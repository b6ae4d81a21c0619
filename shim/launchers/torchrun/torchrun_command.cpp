#include "launchers/torchrun/torchrun_command.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "base/text.h"
#include "plan/launch.h"

namespace rankshim::launchers {
namespace {

// Every flag of torch.distributed.run and .launch, to tell a flag's value from the script.
constexpr std::string_view value_flags =
    "nnodes nproc_per_node rdzv_backend rdzv_endpoint rdzv_id rdzv_conf max_restarts monitor_interval "
    "start_method event_log_handler role log_dir redirects tee local_ranks_filter duplicate_stdout_filters "
    "duplicate_stderr_filters node_rank master_addr master_port local_addr logs_specs numa_binding "
    "signals_to_handle shutdown_timeout log_line_prefix_template print_completion";
constexpr std::string_view switches = "standalone module no_python run_path virtual_local_rank use_env";

/// The facts for which torchrun has flags of the same name; its rdzv_id is the run id.
constexpr auto fact_flags = std::to_array<Fact>(
    {Fact::nnodes, Fact::node_rank, Fact::nproc_per_node, Fact::master_addr, Fact::master_port, Fact::rdzv_id,
     Fact::rdzv_backend, Fact::rdzv_endpoint, Fact::rdzv_conf, Fact::max_restarts});

bool is_torchrun(std::string_view word) { return is_version_of(word, "torchrun"); }

bool is_torchrun(const plan::PythonWords& python) {
  if (python.module)
    return python.what == "torch.distributed.run" || python.what == "torch.distributed.launch";
  return is_torchrun(python.what) || python.what.ends_with("torch/distributed/run.py") ||
         python.what.ends_with("torch/distributed/launch.py");
}

/// The full name of an option, possibly abbreviated; empty if none or several match.
std::string_view full_name(std::string_view option) {
  if (option.starts_with("-m")) return "module";
  if (option.starts_with("-r")) return "redirects";
  if (option.starts_with("-t")) return "tee";
  if (!option.starts_with("--")) return {};
  std::string name(option.substr(2));
  std::ranges::replace(name, '-', '_');
  std::vector<std::string_view> found;
  for (std::string_view flags : {value_flags, switches})
    for (auto flag = next_word(flags); !flag.empty(); flag = next_word(flags))
      if (flag.starts_with(name)) found.push_back(flag);
  const auto exact = std::ranges::find(found, name);
  if (exact != found.end()) return *exact;
  return found.size() == 1 ? found.front() : std::string_view();
}

void read_flags(TorchrunCommand& torchrun) {
  const std::vector<std::string>& words = torchrun.words;
  std::size_t at = torchrun.flags_at;
  while (at < words.size()) {
    const std::string_view word = words[at];
    if (word == "--") ++at;
    if (word == "--" || word.size() < 2 || word[0] != '-') break;
    const bool is_long = word.starts_with("--");
    const auto equals = word.find('=');
    const std::string_view option = word.substr(0, equals);
    const std::string_view known = full_name(option);
    const std::string_view written = option.substr(is_long ? 2 : 1);
    TorchrunCommand::Flag flag{.name = std::string(known.empty() ? written : known), .at = at};
    if (equals != std::string_view::npos) {
      flag.value = word.substr(equals + 1);
    } else if (!is_long && word.size() > 2) {
      flag.value = word.substr(2);  // -r3
    } else if (has_part(value_flags, known, " ") && at + 1 < words.size()) {
      flag.value = words[at + 1];
      flag.words = 2;
    }
    at += flag.words;
    torchrun.flags.push_back(std::move(flag));
  }
  torchrun.script_at = std::min(at, words.size());
}

/// The flag's name as the user wrote it, for messages: "torchrun --node-rank".
std::string written(const TorchrunCommand::Flag& flag, const TorchrunCommand& torchrun) {
  const std::string& word = torchrun.words[flag.at];
  return "torchrun " + word.substr(0, word.find('='));
}

/// Whether no other node can meet at this endpoint: port 0 means any free port, which no other node could
/// know. As in torch, the port of ::1:0 is 0; the address needs no brackets (elastic/rendezvous/utils.py,
/// parse_rendezvous_endpoint).
bool is_own_endpoint(std::string_view endpoint) {
  const auto colon = endpoint.rfind(':');
  return colon != std::string_view::npos && endpoint.substr(colon + 1) == "0" &&
         topology::is_loopback(endpoint.substr(0, colon));
}

void read_facts(TorchrunCommand& torchrun) {
  Facts& facts = torchrun.given.facts;
  for (const Fact fact : fact_flags)
    if (const auto* flag = torchrun.find(name(fact)))
      facts[fact == Fact::rdzv_id ? Fact::run_id : fact] = {flag->value, Origin::option,
                                                            written(*flag, torchrun)};
  const auto* endpoint = torchrun.find("rdzv_endpoint");
  const auto* alone_by = torchrun.find("standalone");
  if (alone_by == nullptr && endpoint != nullptr && is_own_endpoint(endpoint->value)) alone_by = endpoint;
  torchrun.given.meets_itself = alone_by != nullptr;
  if (alone_by == nullptr) return;
  for (const Fact other : {Fact::node_rank, Fact::master_addr, Fact::master_port, Fact::run_id,
                           Fact::rdzv_backend, Fact::rdzv_endpoint, Fact::rdzv_conf})
    facts[other].reset();
  if (facts.has(Fact::nnodes)) return;
  const std::string value = alone_by->value.empty() ? "" : "=" + alone_by->value;
  facts[Fact::nnodes] = Value{"1", Origin::implied, written(*alone_by, torchrun) + value};
}

}  // namespace

const TorchrunCommand::Flag* TorchrunCommand::find(std::string_view name) const {
  const auto found =
      std::find_if(flags.rbegin(), flags.rend(), [&](const Flag& flag) { return flag.name == name; });
  return found == flags.rend() ? nullptr : &*found;
}

std::string TorchrunCommand::script() const {
  if (script_at >= words.size() || find("module") != nullptr || find("no_python") != nullptr) return {};
  return words[script_at];
}

std::optional<TorchrunCommand> read_torchrun(const std::vector<std::string>& command, std::size_t begins_at) {
  TorchrunCommand torchrun;
  torchrun.begins_at = begins_at;
  if (begins_at < command.size() && is_torchrun(command[begins_at])) {
    torchrun.flags_at = begins_at + 1;
  } else if (auto python =
                 plan::read_python({command.begin() + static_cast<std::ptrdiff_t>(begins_at), command.end()});
             python && is_torchrun(*python)) {
    torchrun.interpreter = std::move(python->interpreter);
    torchrun.flags_at = begins_at + python->rest;
  } else {
    return std::nullopt;
  }
  torchrun.words = command;
  read_flags(torchrun);
  read_facts(torchrun);
  return torchrun;
}

std::shared_ptr<const TorchrunCommand> own_torchrun(const settings::Settings& settings,
                                                    const std::vector<std::string>& command) {
  using settings::LauncherChoice;
  if (settings.choice<LauncherChoice>(settings::Option::launcher) == LauncherChoice::none) return nullptr;
  for (const std::size_t at : plan::possible_starts(command))
    if (auto torchrun = read_torchrun(command, at))
      return std::make_shared<const TorchrunCommand>(std::move(*torchrun));
  return nullptr;
}

TorchrunCommand read_torchrun_args(const settings::Settings& settings) {
  TorchrunCommand torchrun;
  torchrun.words = settings.get<std::vector<std::string>>(settings::Option::torchrun_args)
                       .value_or(std::vector<std::string>{});
  read_flags(torchrun);
  return torchrun;
}

std::vector<std::string_view> flags_of_job() {
  std::vector<std::string_view> flags = {"standalone", "local_addr", "module", "no_python", "run_path"};
  std::ranges::transform(fact_flags, std::back_inserter(flags), name);
  return flags;
}

}  // namespace rankshim::launchers
