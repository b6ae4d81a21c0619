#include "launchers/torchrun/torchrun_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <iterator>
#include <ranges>
#include <utility>

#include "base/text.h"
#include "plan/launch.h"

namespace rankshim {
namespace {

// Every flag of torch.distributed.run and .launch, to distinguish a flag's value from the script.
constexpr std::string_view value_flags =
    "nnodes nproc_per_node rdzv_backend rdzv_endpoint rdzv_id rdzv_conf max_restarts monitor_interval "
    "start_method event_log_handler role log_dir redirects tee local_ranks_filter duplicate_stdout_filters "
    "duplicate_stderr_filters node_rank master_addr master_port local_addr logs_specs numa_binding "
    "signals_to_handle shutdown_timeout log_line_prefix_template print_completion";
constexpr std::string_view switches = "standalone module no_python run_path virtual_local_rank use_env";

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

/// How long torch's rendezvous waits for the other nodes by default: the static one
/// (torch/distributed/launcher/api.py, LaunchConfig), the others (torch/distributed/elastic/rendezvous/
/// dynamic_rendezvous.py, RendezvousTimeout).
constexpr std::chrono::seconds torch_store_timeout{900};
constexpr std::chrono::seconds torch_join_timeout{600};

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
    for (auto flag = take_word(flags); !flag.empty(); flag = take_word(flags))
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
    TorchrunCommand::Flag flag{.name = std::string(known.empty() ? option.substr(is_long ? 2 : 1) : known),
                               .at = at};
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

/// Port 0 is any free port, which no other node could know. As in torch, the port of ::1:0 is 0: the address
/// needs no brackets (elastic/rendezvous/utils.py, parse_rendezvous_endpoint).
bool is_own_endpoint(std::string_view endpoint) {
  const auto colon = endpoint.rfind(':');
  return colon != std::string_view::npos && endpoint.substr(colon + 1) == "0" &&
         is_loopback(endpoint.substr(0, colon));
}

void read_facts(TorchrunCommand& torchrun) {
  Facts& facts = torchrun.given.facts;
  for (const auto& [name, fact] : fact_flags) {
    if (const auto* flag = torchrun.find(name))
      facts[fact] = Value{flag->value, Origin::option, written(*flag, torchrun)};
  }
  const auto* standalone = torchrun.find("standalone");
  const auto* endpoint = torchrun.find("rdzv_endpoint");
  const bool own = endpoint != nullptr && is_own_endpoint(endpoint->value);
  torchrun.given.meets_itself = standalone != nullptr || own;
  if (!torchrun.given.meets_itself) return;
  for (const Fact other : {Fact::node_rank, Fact::master_addr, Fact::master_port, Fact::run_id,
                           Fact::rdzv_backend, Fact::rdzv_endpoint, Fact::rdzv_conf})
    facts[other].reset();
  if (!facts.has(Fact::nnodes))
    facts[Fact::nnodes] = Value{"1", Origin::option,
                                standalone != nullptr ? std::string("torchrun --standalone")
                                                      : written(*endpoint, torchrun) + "=" + endpoint->value};
}

/// The user's configuration and the time that torch waits. In an elastic job it is --wait-timeout, because
/// only torch knows whether enough nodes are there; in a static one it is longer, because rankshim ends the
/// job first.
std::string rendezvous_conf(std::string conf, const Topology& topology, const Settings& settings) {
  const auto limit = std::chrono::ceil<std::chrono::seconds>(*settings.time(Option::wait_timeout));
  const bool elastic = topology.is<ElasticNode>();
  const bool differs = elastic ? limit != torch_join_timeout : limit >= torch_store_timeout;
  const std::string_view key = elastic ? "join_timeout=" : "timeout=";
  if (topology.is_alone() || !differs || conf.find(key) != std::string::npos) return conf;
  const auto wanted = elastic ? limit : limit + std::chrono::seconds(60);
  return fmt::format("{}{}{}{}", conf, conf.empty() ? "" : ",", key, wanted.count());
}

/// Whether a torchrun on a single node makes its rendezvous itself: --standalone, or c10d without an
/// endpoint.
bool has_own_rendezvous(const TorchrunCommand& torchrun, const Topology& topology) {
  const auto* backend = torchrun.find("rdzv_backend");
  return !topology.is<ElasticNode>() &&
         (torchrun.given.meets_itself || (backend != nullptr && backend->value != "static"));
}

bool is_number(std::string_view text) { return parse_count(text).has_value(); }

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
  torchrun.words = command;
  read_flags(torchrun);
  read_facts(torchrun);
  return torchrun;
}

std::shared_ptr<const TorchrunCommand> own_torchrun(const Settings& settings,
                                                    const std::vector<std::string>& command) {
  if (settings.text(Option::launcher) == "none") return nullptr;
  auto torchrun = read_torchrun(command);
  return torchrun ? std::make_shared<const TorchrunCommand>(std::move(*torchrun)) : nullptr;
}

TorchrunCommand read_torchrun_args(const Settings& settings) {
  TorchrunCommand torchrun;
  torchrun.words =
      settings.get<std::vector<std::string>>(Option::torchrun_args).value_or(std::vector<std::string>{});
  read_flags(torchrun);
  return torchrun;
}

std::vector<std::string_view> flags_of_job() {
  std::vector<std::string_view> flags = {"standalone", "local_addr", "module", "no_python", "run_path"};
  std::ranges::copy(fact_flags | std::views::keys, std::back_inserter(flags));
  return flags;
}

std::string with_host(std::string conf, bool is_host) {
  if (conf.find("is_host=") != std::string::npos) return conf;
  return fmt::format("is_host={}{}{}", is_host, conf.empty() ? "" : ",", conf);
}

std::vector<TorchrunFlag> torchrun_flags(const LaunchInput& input,
                                         const std::optional<std::string>& master_address,
                                         const std::string& log_dir, const std::vector<std::string>& more) {
  const auto& [topology, settings, command, node] = input;
  std::vector<TorchrunFlag> flags;
  const auto text = [&](Fact fact) { return topology.facts.text(fact); };
  const auto add = [&](std::string_view name, std::string_view value) {
    flags.push_back({name, std::string(value)});
  };
  std::string conf(text(Fact::rdzv_conf));
  for (const std::string& option : more)
    if (option.starts_with(conf_option)) conf = option.substr(conf_option.size());
  conf = rendezvous_conf(std::move(conf), topology, settings);

  const std::string_view master = without_brackets(text(Fact::master_addr));
  add("nnodes", text(Fact::nnodes));
  add("nproc_per_node", text(Fact::nproc_per_node));
  if (!topology.is<ElasticNode>()) {
    add("rdzv_backend", "static");
    add("node_rank", text(Fact::node_rank));
    add("master_addr", master);
    add("master_port", text(Fact::master_port));
    add("rdzv_id", text(Fact::run_id));
    if (!conf.empty()) add("rdzv_conf", conf);
  } else {
    add("rdzv_backend", text(Fact::rdzv_backend));
    add("rdzv_endpoint", host_port(master, text(Fact::master_port)));
    add("rdzv_id", text(Fact::rdzv_id));
    // Agents that meet at the loopback address are all on this machine, and without ranks each could be the
    // host. torch lets the first one be it, but only if is_host is not set (c10d_rendezvous_backend.py,
    // _create_tcp_store).
    const bool knows_host = topology.facts.has(Fact::node_rank) || !is_loopback(text(Fact::master_addr));
    if (text(Fact::rdzv_backend) == "c10d" && knows_host)
      conf = with_host(std::move(conf), topology.hosts_master().value_or(false));
    if (!conf.empty()) add("rdzv_conf", conf);
    // Without it, two agents that are both PID 1 and share a host name count as one node; and rank 0 gives it
    // to the others as the address to connect to.
    const bool given = std::ranges::any_of(
        more, [](const std::string& option) { return option.starts_with("--local_addr="); });
    const std::string towards = master_address.value_or(std::string(text(Fact::master_addr)));
    const auto chosen = node.environment().get("PET_LOCAL_ADDR");
    const std::string own = chosen ? std::string(*chosen) : node.address_towards(towards).value_or("");
    if (!given && !own.empty()) add("local_addr", own);
  }
  add("max_restarts", text(Fact::max_restarts));
  if (!log_dir.empty()) add("log_dir", log_dir);
  return flags;
}

std::vector<std::string> fill_in(const TorchrunCommand& torchrun, const Topology& topology,
                                 std::vector<TorchrunFlag> flags, const std::vector<std::string>& more) {
  if (has_own_rendezvous(torchrun, topology)) {
    constexpr auto kept =
        std::to_array<std::string_view>({"nproc_per_node", "max_restarts", "log_dir", "redirects", "tee"});
    std::erase_if(flags, [&](const auto& flag) { return std::ranges::find(kept, flag.name) == kept.end(); });
  }
  std::vector<std::string_view> replaced;
  std::erase_if(flags, [&](const TorchrunFlag& flag) {
    const auto* his = torchrun.find(flag.name);
    if (his == nullptr) return false;
    const bool open = flag.name == "nproc_per_node" && !is_number(his->value) && is_number(flag.value);
    const bool extends = flag.name == "rdzv_conf" && his->value != flag.value;
    if (open || extends) replaced.push_back(flag.name);
    return !open && !extends;
  });

  const std::vector<std::string>& words = torchrun.words;
  const auto word = [&](std::size_t at) { return words.begin() + static_cast<std::ptrdiff_t>(at); };
  std::vector<std::string> argv(words.begin(), word(torchrun.flags_at));
  argv.insert(argv.end(), more.begin(), more.end());
  for (const TorchrunFlag& flag : flags) argv.push_back(fmt::format("--{}={}", flag.name, flag.value));
  std::size_t at = torchrun.flags_at;
  for (const TorchrunCommand::Flag& his : torchrun.flags) {
    at = his.at + his.words;
    if (std::ranges::find(replaced, his.name) == replaced.end())
      argv.insert(argv.end(), word(his.at), word(at));
  }
  argv.insert(argv.end(), word(at), words.end());
  return argv;
}

}  // namespace rankshim
