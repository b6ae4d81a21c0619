#include "launchers/torchrun/torchrun_launcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>

#include "base/text.h"
#include "launchers/torchrun/agent.h"
#include "launchers/torchrun/inner_torchrun.h"

namespace rankshim::launchers {
namespace {

using node::Environment;
using node::Variables;
using settings::Option;
using settings::Settings;

/// The interpreter in the first line of a torchrun script; empty if that names another program.
std::vector<std::string> interpreter_of(const std::string& program, const node::Host& host) {
  const std::string text = host.file(host.find_program(program).value_or("")).value_or("");
  const std::string line = text.substr(0, text.find('\n'));
  const bool python =
      line.starts_with("#!") && line.find(' ') == std::string::npos && base_name(line).starts_with("python");
  return python ? std::vector{line.substr(2)} : std::vector<std::string>();
}

/// The text of a script, or of a module below the working directory; empty if it cannot be read.
std::string script_text(const std::vector<std::string>& command, const node::Host& host) {
  std::string path = command[0];
  if (path == "-m") {
    path = command.size() > 1 ? command[1] : std::string();
    std::replace(path.begin(), path.end(), '.', '/');
    path += ".py";
  }
  return host.file(path).value_or("");
}

/// The spelling in which a script reads torch.distributed.launch's argument, if its text shows it; else
/// empty. torch passes --local-rank from 2.0 on, and --local_rank before.
std::string_view local_rank_argument(const std::string& text) {
  for (const std::string_view argument : {"--local_rank", "--local-rank"})
    if (text.find(argument) != std::string::npos) return argument;
  return {};
}

/// Whether a torchrun on a single node creates its own rendezvous: --standalone, or c10d without an endpoint.
bool has_own_rendezvous(const TorchrunCommand& torchrun, const topology::Topology& topology) {
  const auto* backend = torchrun.find("rdzv_backend");
  return !topology.is<topology::ElasticNode>() &&
         (torchrun.given.meets_itself || (backend != nullptr && backend->value != "static"));
}

/// The user's configuration, plus how long torch waits. In an elastic job that is --wait-timeout, because
/// only torch knows whether there are enough nodes; in a static one it is longer, so that rankshim ends the
/// job first.
std::string rendezvous_conf(std::string conf, const topology::Topology& topology, const Settings& settings) {
  const auto limit = std::chrono::ceil<std::chrono::seconds>(*settings.time(Option::wait_timeout));
  const bool elastic = topology.is<topology::ElasticNode>();
  // By default the static rendezvous waits for 900 s (torch/distributed/launcher/api.py, LaunchConfig), the
  // others for 600 s (torch/distributed/elastic/rendezvous/dynamic_rendezvous.py, RendezvousTimeout).
  const bool differs = elastic ? limit != std::chrono::seconds(600) : limit >= std::chrono::seconds(900);
  const std::string_view key = elastic ? "join_timeout=" : "timeout=";
  if (topology.is_alone() || !differs || conf.find(key) != std::string::npos) return conf;
  const auto wanted = elastic ? limit : limit + std::chrono::seconds(60);
  return fmt::format("{}{}{}{}", conf, conf.empty() ? "" : ",", key, wanted.count());
}

/// --torchrun-args, each option as --name or --name=value.
std::vector<std::string> torchrun_options(const Settings& settings) {
  std::vector<std::string> options;
  for (const auto& flag : read_torchrun_args(settings).flags)
    options.push_back(fmt::format("--{}{}{}", flag.name, flag.value.empty() ? "" : "=", flag.value));
  return options;
}

/// The faults of --torchrun-args: words that are not options, and options that rankshim sets itself.
Faults check_torchrun_args(const Settings& settings) {
  const TorchrunCommand torchrun = read_torchrun_args(settings);
  const std::vector<std::string_view> ours = flags_of_job();
  Faults faults;
  const auto reject = [&](const std::string& what, std::string fix) {
    const std::string& name = settings[Option::torchrun_args]->detail;
    faults.push_back({ErrorCode::launcher, fmt::format("{} has {}", name, what), {name}, std::move(fix)});
  };
  for (const auto& flag : torchrun.flags) {
    const bool is_completed = flag.name == "rdzv_conf" || flag.name == "local_addr";
    if (!is_completed && std::ranges::find(ours, flag.name) != ours.end())
      reject(fmt::format("--{}, which rankshim sets", flag.name),
             "use rankshim's own option for it, or give the whole torchrun command after --");
  }
  if (torchrun.script_at < torchrun.words.size())
    reject(fmt::format("the word {}, which is not a torchrun option",
                       in_quotes(torchrun.words[torchrun.script_at])),
           "write each option as --NAME=VALUE, separated by spaces");
  return faults;
}

}  // namespace

std::string with_host(const std::string& conf, bool is_host) {
  if (conf.find("is_host=") != std::string::npos) return conf;
  return fmt::format("is_host={}{}{}", is_host, conf.empty() ? "" : ",", conf);
}

Variables job_flags(const topology::Topology& topology, std::string conf) {
  const auto text = [&](Fact fact) { return std::string(topology.facts.text(fact)); };
  const std::string host(without_brackets(topology.facts.text(Fact::master_addr)));
  return {{"nnodes", text(Fact::nnodes)},
          {"nproc_per_node", text(Fact::nproc_per_node)},
          {"rdzv_backend", text(Fact::rdzv_backend)},
          {"node_rank", text(Fact::node_rank)},
          {"master_addr", host},
          {"master_port", text(Fact::master_port)},
          {"rdzv_endpoint", host_port(host, text(Fact::master_port))},
          {"rdzv_id", text(topology.is<topology::ElasticNode>() ? Fact::rdzv_id : Fact::run_id)},
          {"rdzv_conf", std::move(conf)}};
}

void hide_other_job(plan::EnvironmentChange& change, const Environment& environment, bool keeps_how) {
  for (const std::string_view flag : flags_of_job()) {
    const std::string name = "PET_" + upper_case(flag);
    const bool is_how = flag == "module" || flag == "no_python" || flag == "run_path";
    if (keeps_how && is_how && environment.get(name)) continue;
    change.remove(name, environment);
  }
}

/// The torchrun command that is started: the user's, or the one for the script, including the options in
/// --torchrun-args.
TorchrunCommand TorchrunLauncher::whole_command(const plan::LaunchInput& input,
                                                const FoundTorch& found) const {
  std::vector<std::string> words = input.command;
  if (!own_)
    words.insert(words.begin(),
                 {"-m", found.has_only_launch ? "torch.distributed.launch" : "torch.distributed.run"});
  auto at = words.begin() + static_cast<std::ptrdiff_t>(own_ ? own_->flags_at : 2);
  for (const std::string& option : torchrun_args_) {
    if (std::ranges::find(found.rejected, option) == found.rejected.end())
      at = std::next(words.insert(at, option));
  }
  return *read_torchrun(words, own_ ? own_->begins_at : 0);
}

/// The flags that are added to the command. Two of its own flags are replaced: --nproc_per_node without a
/// number, because torchrun would count the machine's CPUs, and --rdzv_conf, which is extended.
Variables TorchrunLauncher::missing_flags(const LaunchChoice& choice, const TorchrunCommand& command,
                                          const plan::LaunchInput& input, const KnownAtStart& known) const {
  const auto& [topology, settings, words, host] = input;
  const Facts& facts = topology.facts;
  const bool elastic = topology.is<topology::ElasticNode>();
  const auto* given = command.find("rdzv_conf");
  std::string conf = rendezvous_conf(
      given != nullptr ? given->value : std::string(facts.text(Fact::rdzv_conf)), topology, settings);
  // Agents that meet on a loopback address are all on this machine, and without ranks any of them could be
  // the host. torch makes the first one the host, but only if is_host is not set (c10d_rendezvous_backend.py,
  // _create_tcp_store).
  const bool knows_host = facts.has(Fact::node_rank) || !topology::is_loopback(facts.text(Fact::master_addr));
  if (elastic && facts.text(Fact::rdzv_backend) == "c10d" && knows_host)
    conf = with_host(conf, topology.hosts_master().value_or(false));
  Variables flags = job_flags(topology, std::move(conf));
  const auto add = [&](std::string_view name, std::string_view value) { flags.emplace_back(name, value); };
  if (elastic) {
    // Without it, two agents that are both PID 1 and share a host name are treated as one node. Rank 0 also
    // gives it to the others as the address to connect to.
    const std::string master = known.master_address.value_or(std::string(facts.text(Fact::master_addr)));
    const auto chosen = host.environment().get("PET_LOCAL_ADDR");
    add("local_addr", chosen ? *chosen : host.address_towards(master).value_or(""));
  } else {
    std::ranges::find(flags, "rdzv_backend", &Variables::value_type::first)->second = "static";
  }
  add("max_restarts", facts.text(Fact::max_restarts));
  if (const auto& log_dir = settings[Option::log_dir]) {
    add("log_dir", log_dir->text);
    // 3: stdout and stderr (torch/distributed/elastic/multiprocessing/api.py, Std)
    add(settings.flag(Option::tee) ? "tee" : "redirects", "3");
  } else if (choice.log_dir.empty() && !is_wrapped()) {  // otherwise python/sitecustomize.py sets one
    add("log_dir", known.folder.path);
  }
  // The flags that torch.distributed.launch has always had.
  constexpr std::string_view of_launch = "nnodes nproc_per_node node_rank master_addr master_port";
  constexpr std::string_view of_one_node = "nproc_per_node max_restarts log_dir redirects tee";
  const std::string_view of_other_rendezvous =
      elastic ? "node_rank master_addr master_port" : "rdzv_endpoint";
  const bool meets_itself = has_own_rendezvous(command, topology);
  std::erase_if(flags, [&](const auto& flag) {
    const auto& [name, value] = flag;
    if (value.empty() || has_part(of_other_rendezvous, name, " ")) return true;
    if (known.torch.has_only_launch && !has_part(of_launch, name, " ")) return true;
    if (meets_itself && !has_part(of_one_node, name, " ")) return true;
    const auto* given_flag = command.find(name);
    if (given_flag == nullptr) return false;
    if (name == "nproc_per_node")
      return topology::parse_count(given_flag->value) || !topology::parse_count(value);
    return name != "rdzv_conf" || given_flag->value == value;
  });
  return flags;
}

std::shared_ptr<const Launcher> make_torchrun(const Settings& settings,
                                              const std::shared_ptr<const TorchrunCommand>& own) {
  return std::make_shared<TorchrunLauncher>(own, false, torchrun_options(settings));
}

std::shared_ptr<const Launcher> make_launch(const Settings& settings,
                                            const std::shared_ptr<const TorchrunCommand>& own) {
  return std::make_shared<TorchrunLauncher>(own, true, torchrun_options(settings));
}

std::vector<std::string> TorchrunLauncher::flags_of_place() const {
  if (is_wrapped()) return {};
  return {"nnodes", "node_rank", "master_addr", "master_port"};
}

Faults TorchrunLauncher::faults(const plan::LaunchInput& input) const {
  const auto& [topology, settings, command, host] = input;
  if (Faults faults = check_torchrun_args(settings); !faults.empty()) return faults;
  if (command.empty() || plan::is_script(command) || own_) return {};
  const auto& chosen = *settings[Option::launcher];
  return {{ErrorCode::launcher,
           fmt::format("{}={} starts a script, but {} is a program", chosen.detail, chosen.text, command[0]),
           {chosen.detail},
           "give script.py or -m MODULE, or leave --launcher (RANKSHIM_LAUNCHER) at auto"}};
}

Faults TorchrunLauncher::output_faults(const plan::LaunchInput& input) const {
  const Settings& settings = input.settings;
  const auto& log_dir = settings[Option::log_dir];
  const auto* const flag = own_ ? own_->find("log_dir") : nullptr;
  if (input.command.empty()) return {};
  if (settings.flag(Option::tee) && !log_dir) return tee_without_files(settings);
  if (settings.flag(Option::prefix))
    return refused(settings, Option::prefix, "torchrun starts the workers",
                   "leave it out, or set --launcher (RANKSHIM_LAUNCHER) to native");
  if (flag == nullptr || !log_dir || flag->value == log_dir->text) return {};
  return refused(settings, Option::log_dir, fmt::format("the command's --log_dir is {}", flag->value),
                 "give only one of them");
}

Faults TorchrunLauncher::worker_faults(LaunchChoice& /*choice*/, const plan::LaunchInput& input) const {
  Faults faults = output_faults(input);
  if (input.settings.choice<settings::BindChoice>(Option::bind) == settings::BindChoice::none) return faults;
  for (Fault& fault :
       refused(input.settings, Option::bind, "torchrun starts the workers",
               "leave it out, or set --launcher (RANKSHIM_LAUNCHER) to native, or use torchrun's own: "
               "--torchrun-args=--numa-binding=node"))
    faults.push_back(std::move(fault));
  return faults;
}

void TorchrunLauncher::complete(LaunchChoice& choice, const plan::LaunchInput& input) const {
  const TorchrunCommand whole = whole_command(input, {});
  const auto* logs = whole.find("log_dir");
  const auto& ours = input.settings[Option::log_dir];
  choice.log_dir = input.host.environment().get("PET_LOG_DIR").value_or("");
  if (ours) choice.log_dir = ours->text;
  if (logs != nullptr) choice.log_dir = logs->value;
  if (!choice.interpreter.empty())
    choice.python = {choice.interpreter, "-u"};
  else if (own_ && !is_wrapped())
    choice.python =
        whole.interpreter.empty() ? interpreter_of(whole.words[0], input.host) : whole.interpreter;
  if (own_ || tells_local_rank_ || input.command.empty() || input.command[0] == "-m") return;
  const std::string text = script_text(input.command, input.host);
  if (!local_rank_argument(text).empty() && text.find(variable_of(Fact::local_rank)) == std::string::npos)
    choice.warnings.push_back(fmt::format(
        "{} mentions --local_rank and not LOCAL_RANK; if it needs the argument, use --launcher=launch",
        input.command[0]));
}

std::string TorchrunLauncher::script(const std::vector<std::string>& command) const {
  if (!own_) return Launcher::script(command);
  return is_wrapped() ? std::string() : own_->script();
}

std::vector<std::string> TorchrunLauncher::argv(const LaunchChoice& choice, const plan::LaunchInput& input,
                                                const KnownAtStart& known) const {
  const TorchrunCommand command = whole_command(input, known.torch);
  const bool has_only_launch = known.torch.has_only_launch;
  const Variables flags = missing_flags(choice, command, input, known);
  const auto word = [&](std::size_t at) { return command.words.begin() + static_cast<std::ptrdiff_t>(at); };
  std::vector<std::string> argv;
  if (!choice.interpreter.empty()) argv = {choice.interpreter, "-u"};
  argv.insert(argv.end(), word(0), word(command.flags_at));
  for (const auto& [name, value] : flags) argv.push_back(fmt::format("--{}={}", name, value));
  const std::string text = own_ ? std::string() : script_text(input.command, input.host);
  const std::string_view argument = local_rank_argument(text);
  // It passes --local_rank=N to every script unless given --use_env.
  if (has_only_launch && !own_ && !tells_local_rank_ && argument.empty()) argv.emplace_back("--use_env");
  std::size_t at = command.flags_at;
  for (const TorchrunCommand::Flag& given : command.flags) {
    at = given.at + given.words;
    if (std::ranges::find(flags, given.name, &Variables::value_type::first) == flags.end())
      argv.insert(argv.end(), word(given.at), word(at));
  }
  argv.insert(argv.end(), word(at), command.words.end());
  // Placed after the script, as torch.distributed.launch does; torchrun replaces the placeholder with the
  // number (torch/distributed/elastic/utils/api.py, macros). Most scripts that need the argument are older
  // than torch 2.0.
  if (tells_local_rank_ && !own_ && !has_only_launch)
    argv.insert(argv.end() - (command.words.end() - word(command.script_at + 1)),
                std::string(argument.empty() ? "--local_rank" : argument) + "=${local_rank}");
  return argv;
}

void TorchrunLauncher::change_environment(plan::EnvironmentChange& change, const LaunchChoice& choice,
                                          const plan::LaunchInput& input, const OwnFolder& folder) const {
  const Environment& environment = input.host.environment();
  hide_other_job(change, environment, own_ != nullptr);
  // Otherwise a surviving rank 0 could not admit a new node, because MASTER_ADDR is not published for the new
  // round (torch 2.13).
  constexpr std::string_view own_store = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE";
  if (input.topology.is<topology::ElasticNode>() && !environment.get(own_store))
    change.set.emplace_back(own_store, "1");
  if (!is_wrapped() && choice.log_dir.empty() && !folder.path.empty())
    record_agent_error(change, input, folder);
  add_site(change, input, folder);
  plan::share_cpus(change, true, input);
  share_grace(change, input);
  show_stacks(change, input);
}

std::string TorchrunLauncher::error_file(const Environment& environment, const OwnFolder& folder) const {
  return agent_error_file(environment, folder);
}

SignalSet TorchrunLauncher::ignored_at_start(const LaunchPlan& plan, const LaunchChoice& /*choice*/,
                                             const plan::LaunchInput& input) const {
  const bool starts_programs =
      own_ && (own_->find("no_python") != nullptr || input.host.environment().get("PET_NO_PYTHON"));
  return starts_programs ? 0 : notices_to_ignore(plan, input.settings);
}

/// The folder of a wrapped torchrun must be the same as in python/sitecustomize.py.
std::string TorchrunLauncher::make_log_folder(const Job& job, const std::string& temporary) const {
  const std::string& named = job.choice.log_dir;
  if (!named.empty()) return make_folder_for_logs(named);
  return is_wrapped() && !temporary.empty() ? make_folder_for_logs(temporary + "/logs") : temporary;
}

std::shared_ptr<supervise::Workers> TorchrunLauncher::workers(const WorkersInput& input) const {
  const topology::Topology& topology = input.topology;
  AgentPlan plan;
  plan.log_folder = input.log_folder;
  plan.workers = topology.workers();
  if (topology.has_other_nodes()) {
    const topology::Master* master = topology.master();
    plan.meets_at = master != nullptr ? *master : topology::Master{};
    if (topology.is<topology::StaticNode>()) plan.limit = input.settings.time(Option::wait_timeout);
  }
  return std::make_shared<Agent>(std::move(plan), size_of(topology, input.host),
                                 input.settings.flag(Option::strict));
}

}  // namespace rankshim::launchers
