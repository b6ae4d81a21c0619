#include "launchers/torchrun/torchrun_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "base/text.h"
#include "launchers/torchrun/temporary_folder.h"
#include "launchers/torchrun/torchrun_command.h"

namespace rankshim {
namespace {

/// The file into which a process under torch's @record, such as the agent, writes why it failed.
constexpr std::string_view agent_error_variable = "TORCHELASTIC_ERROR_FILE";

/// The interpreter in a torchrun's first line; nothing if that names another program.
std::vector<std::string> interpreter_of(const std::string& program, const Node& node) {
  const std::string text = node.file(node.find_program(program).value_or("")).value_or("");
  const std::string line = text.substr(0, text.find('\n'));
  const bool python =
      line.starts_with("#!") && line.find(' ') == std::string::npos && base_name(line).starts_with("python");
  return python ? std::vector{line.substr(2)} : std::vector<std::string>();
}

/// The text of a script, or of a module below the working directory; empty if it cannot be read.
std::string script_text(const std::vector<std::string>& command, const Node& node) {
  std::string path = command[0];
  if (path == "-m") {
    path = command.size() > 1 ? command[1] : std::string();
    std::replace(path.begin(), path.end(), '.', '/');
    path += ".py";
  }
  return node.file(path).value_or("");
}

/// torch.distributed.launch's argument as a script reads it, as far as its text shows that; empty if it does
/// not. torch from 2.0 on passes --local-rank, earlier versions --local_rank.
std::string_view local_rank_argument(const std::string& text) {
  for (const std::string_view argument : {"--local_rank", "--local-rank"})
    if (text.find(argument) != std::string::npos) return argument;
  return {};
}

/// Whether the command is a program on one of several nodes, so that a torchrun in it has to join the job.
bool may_start_torchrun(const LaunchChoice& choice, const LaunchInput& input) {
  const Topology& topology = input.topology;
  return input.settings.flag(Option::export_pet) && !choice.launches() && topology.has_other_nodes();
}

/// The command's words and the shell scripts among them.
std::string text_of(const LaunchInput& input) {
  std::string text;
  for (const std::string& word : input.command) {
    text += word + '\n';
    if (word.ends_with(".sh")) text += input.node.file(word).value_or("");
  }
  return text;
}

bool starts_torchrun(std::string_view text) {
  return text.find("torchrun") != std::string_view::npos ||
         text.find("torch.distributed.run") != std::string_view::npos ||
         text.find("torch.distributed.launch") != std::string_view::npos;
}

/// Whether the command is a Python program that starts a torchrun, as far as its text shows. It is not a
/// shell, which passes PYTHONPATH on by itself.
bool python_starts_torchrun(const LaunchChoice& choice, const LaunchInput& input) {
  const bool is_python =
      !choice.interpreter.empty() || base_name(input.command.front()).starts_with("python");
  if (choice.launches() || !is_python) return false;
  const auto python = read_python(input.command);
  const bool has_script = python && !python->module;
  return starts_torchrun(text_of(input)) ||
         (has_script && starts_torchrun(input.node.file(python->what).value_or("")));
}

/// Whether a torchrun in the command would not load sitecustomize.py and needs the PET_* themselves: there is
/// none, or the words of the command or its shell script replace PYTHONPATH. A text that says with which
/// nodes it trains gets none, because a `torchrun --standalone` would wait for the other nodes.
bool needs_plain_variables(const LaunchInput& input, bool has_site) {
  const std::string text = text_of(input);
  const auto has = [&text](std::string_view part) { return text.find(part) != std::string::npos; };
  const bool chooses = has("standalone") || has("rdzv") || has("--nnodes") || has("--master");
  return starts_torchrun(text) && !chooses && (!has_site || has("PYTHONPATH=") || has("unset PYTHONPATH"));
}

/// A rendezvous' configuration that says whether this node hosts it, unless it does already.
std::string with_host(const std::string& conf, bool is_host) {
  if (conf.find("is_host=") != std::string::npos) return conf;
  return fmt::format("is_host={}{}{}", is_host, conf.empty() ? "" : ",", conf);
}

/// Whether a torchrun on a single node makes its rendezvous itself: --standalone, or c10d without an
/// endpoint.
bool has_own_rendezvous(const TorchrunCommand& torchrun, const Topology& topology) {
  const auto* backend = torchrun.find("rdzv_backend");
  return !topology.is<ElasticNode>() &&
         (torchrun.given.meets_itself || (backend != nullptr && backend->value != "static"));
}

/// The torchrun that is started: the user's, or the one for the script. The options in --torchrun-args are
/// words of it too.
TorchrunCommand whole_command(const TorchrunLauncher& torchrun, const LaunchInput& input,
                              const FoundTorch& found) {
  std::vector<std::string> words = input.command;
  if (!torchrun.own)
    words.insert(words.begin(),
                 {"-m", found.has_only_launch ? "torch.distributed.launch" : "torch.distributed.run"});
  auto at = words.begin() + static_cast<std::ptrdiff_t>(torchrun.own ? torchrun.own->flags_at : 2);
  for (const std::string& option : torchrun.more) {
    if (std::ranges::find(found.rejected, option) == found.rejected.end())
      at = std::next(words.insert(at, option));
  }
  return *read_torchrun(words, torchrun.own ? torchrun.own->begins_at : 0);
}

/// The user's configuration and the time that torch waits. In an elastic job it is --wait-timeout, because
/// only torch knows whether enough nodes are there; in a static one it is longer, because rankshim ends the
/// job first.
std::string rendezvous_conf(std::string conf, const Topology& topology, const Settings& settings) {
  const auto limit = std::chrono::ceil<std::chrono::seconds>(*settings.time(Option::wait_timeout));
  const bool elastic = topology.is<ElasticNode>();
  // By default the static rendezvous waits for 900 s (torch/distributed/launcher/api.py, LaunchConfig), the
  // others for 600 s (torch/distributed/elastic/rendezvous/dynamic_rendezvous.py, RendezvousTimeout).
  const bool differs = elastic ? limit != std::chrono::seconds(600) : limit >= std::chrono::seconds(900);
  const std::string_view key = elastic ? "join_timeout=" : "timeout=";
  if (topology.is_alone() || !differs || conf.find(key) != std::string::npos) return conf;
  const auto wanted = elastic ? limit : limit + std::chrono::seconds(60);
  return fmt::format("{}{}{}{}", conf, conf.empty() ? "" : ",", key, wanted.count());
}

/// The job as torchrun's flags: names and values, for a static rendezvous and for c10d; empty is what is not
/// known. Names are full and have underscores, as every version of torch takes them.
Variables job_flags(const Topology& topology, std::string conf) {
  const auto text = [&](Fact fact) { return std::string(topology.facts.text(fact)); };
  const std::string host(without_brackets(topology.facts.text(Fact::master_addr)));
  return {{"nnodes", text(Fact::nnodes)},
          {"nproc_per_node", text(Fact::nproc_per_node)},
          {"rdzv_backend", text(Fact::rdzv_backend)},
          {"node_rank", text(Fact::node_rank)},
          {"master_addr", host},
          {"master_port", text(Fact::master_port)},
          {"rdzv_endpoint", host_port(host, text(Fact::master_port))},
          {"rdzv_id", text(topology.is<ElasticNode>() ? Fact::rdzv_id : Fact::run_id)},
          {"rdzv_conf", std::move(conf)}};
}

/// The flags that the command gets. Of its own flags two are replaced: an --nproc_per_node without a number,
/// because torchrun would count the machine's CPUs, and an --rdzv_conf, which is extended.
Variables missing_flags(const LaunchChoice& choice, const TorchrunCommand& command, const LaunchInput& input,
                        const KnownAtStart& known) {
  const auto& [topology, settings, words, node] = input;
  const Facts& facts = topology.facts;
  const bool elastic = topology.is<ElasticNode>();
  const auto* given = command.find("rdzv_conf");
  std::string conf = rendezvous_conf(
      given != nullptr ? given->value : std::string(facts.text(Fact::rdzv_conf)), topology, settings);
  // Agents that meet at the loopback address are all on this machine, and without ranks each could be the
  // host. torch lets the first one be it, but only if is_host is not set (c10d_rendezvous_backend.py,
  // _create_tcp_store).
  const bool knows_host = facts.has(Fact::node_rank) || !is_loopback(facts.text(Fact::master_addr));
  if (elastic && facts.text(Fact::rdzv_backend) == "c10d" && knows_host)
    conf = with_host(conf, topology.hosts_master().value_or(false));
  Variables flags = job_flags(topology, std::move(conf));
  const auto add = [&](std::string_view name, std::string_view value) { flags.emplace_back(name, value); };
  if (elastic) {
    // Without it, two agents that are both PID 1 and share a host name count as one node; and rank 0 gives it
    // to the others as the address to connect to.
    const std::string master = known.master_address.value_or(std::string(facts.text(Fact::master_addr)));
    const auto chosen = node.environment().get("PET_LOCAL_ADDR");
    add("local_addr", chosen ? *chosen : node.address_towards(master).value_or(""));
  } else {
    std::ranges::find(flags, "rdzv_backend", &Variables::value_type::first)->second = "static";
  }
  add("max_restarts", facts.text(Fact::max_restarts));
  if (const auto& log_dir = settings[Option::log_dir]) {
    add("log_dir", log_dir->text);
    // 3: stdout and stderr (torch/distributed/elastic/multiprocessing/api.py, Std)
    add(settings.flag(Option::tee) ? "tee" : "redirects", "3");
  } else if (choice.log_dir.empty() && !choice.is_wrapped()) {  // else python/sitecustomize.py sets one
    add("log_dir", known.folder.path);
  }
  // The flags that torch.distributed.launch has had since its beginning.
  constexpr std::string_view of_launch = "nnodes nproc_per_node node_rank master_addr master_port";
  constexpr std::string_view of_one_node = "nproc_per_node max_restarts log_dir redirects tee";
  const std::string_view of_others = elastic ? "node_rank master_addr master_port" : "rdzv_endpoint";
  const bool meets_itself = has_own_rendezvous(command, topology);
  std::erase_if(flags, [&](const auto& flag) {
    const auto& [name, value] = flag;
    if (value.empty() || has_part(of_others, name, " ")) return true;
    if (known.torch.has_only_launch && !has_part(of_launch, name, " ")) return true;
    if (meets_itself && !has_part(of_one_node, name, " ")) return true;
    const auto* his = command.find(name);
    if (his == nullptr) return false;
    if (name == "nproc_per_node") return parse_count(his->value) || !parse_count(value);
    return name != "rdzv_conf" || his->value == value;
  });
  return flags;
}

/// The variables with which a torchrun inside a program joins the job: PET_ and the flag's name
/// (torch/distributed/argparse_util.py), except those in `environment` and this node's address. The
/// torchrun's command line decides which of them it needs (python/sitecustomize.py).
Variables torchrun_job(const Topology& topology, const Environment& environment) {
  Variables job;
  const std::string conf(topology.facts.text(Fact::rdzv_conf));
  const auto hosts = topology.hosts_master();
  for (auto& [flag, value] : job_flags(topology, hosts ? with_host(conf, *hosts) : conf)) {
    std::string name = "PET_" + upper_case(flag);
    if (!value.empty() && !environment.get(name)) job.emplace_back(std::move(name), std::move(value));
  }
  return job;
}

/// Unsets the PET_* that would describe another job.
void hide_other_job(EnvironmentChange& change, const LaunchChoice& choice, const LaunchInput& input) {
  const Environment& environment = input.node.environment();
  const auto* torchrun = choice.as<TorchrunLauncher>();
  for (const std::string_view flag : flags_of_job()) {
    const std::string name = "PET_" + upper_case(flag);
    // The user's variables for how, and not where, the user's torchrun starts the script are kept.
    const bool is_how = flag == "module" || flag == "no_python" || flag == "run_path";
    if (torchrun != nullptr && torchrun->own && is_how && environment.get(name)) continue;
    change.remove(name, environment);
  }
}

/// Whether a script on a lone node gets the free port as PORT: its text reads that beside torch's launcher
/// (OpenMMLab's tools/dist_train.sh). Other programs read PORT as their web server's.
bool needs_port(const LaunchChoice& choice, const LaunchInput& input) {
  const Topology& topology = input.topology;
  if (!topology.is_alone() || topology.platform.is_off() || choice.launches() || topology.is<Idle>())
    return false;
  const std::string text = text_of(input);
  if (!starts_torchrun(text)) return false;
  for (auto at = text.find("PORT"); at != std::string::npos; at = text.find("PORT", at + 1)) {
    const std::string_view before = std::string_view(text).substr(0, at);
    const char next = text.c_str()[at + 4];  // 0 at the end
    const bool is_read = before.ends_with('$') || before.ends_with("${");
    if (is_read && next != '_' && !is_letter_or_digit(next)) return true;
  }
  return false;
}

}  // namespace

Faults check_torchrun_args(const Settings& settings) {
  const TorchrunCommand torchrun = read_torchrun_args(settings);
  const std::vector<std::string_view> ours = flags_of_job();
  Faults faults;
  const auto reject = [&](const std::string& what, std::string fix) {
    const std::string& name = settings[Option::torchrun_args]->detail;
    faults.push_back({Anchor::launcher, fmt::format("{} has {}", name, what), {name}, std::move(fix)});
  };
  for (const auto& flag : torchrun.flags) {
    const bool is_completed = flag.name == "rdzv_conf" || flag.name == "local_addr";
    if (!is_completed && std::ranges::find(ours, flag.name) != ours.end())
      reject(fmt::format("--{}, which rankshim sets", flag.name),
             "use rankshim's own option for it, or give the whole torchrun command after --");
  }
  if (torchrun.script_at < torchrun.words.size())
    reject(fmt::format("the word {}, which is no option of torchrun",
                       in_quotes(torchrun.words[torchrun.script_at])),
           "write each option as --NAME=VALUE, with blanks between them");
  return faults;
}

void choose_for_torchrun(LaunchChoice& choice, TorchrunLauncher& torchrun, const LaunchInput& input) {
  const TorchrunCommand more = read_torchrun_args(input.settings);
  for (const auto& flag : more.flags)
    torchrun.more.push_back(fmt::format("--{}{}{}", flag.name, flag.value.empty() ? "" : "=", flag.value));
  const TorchrunCommand whole = whole_command(torchrun, input, {});
  const auto* logs = whole.find("log_dir");
  const auto& ours = input.settings[Option::log_dir];
  choice.log_dir = logs != nullptr ? logs->value
                   : ours          ? ours->text
                                   : std::string(input.node.environment().get("PET_LOG_DIR").value_or(""));
  if (!choice.interpreter.empty())
    choice.python = {choice.interpreter, "-u"};
  else if (torchrun.own && !torchrun.is_wrapped)
    choice.python =
        whole.interpreter.empty() ? interpreter_of(whole.words[0], input.node) : whole.interpreter;
  if (torchrun.own || torchrun.tells_local_rank || input.command.empty() || input.command[0] == "-m") return;
  const std::string text = script_text(input.command, input.node);
  if (!local_rank_argument(text).empty() && text.find("LOCAL_RANK") == std::string::npos)
    choice.warnings.push_back(fmt::format(
        "{} mentions --local_rank and not LOCAL_RANK; if it needs the argument, use --launcher=launch",
        input.command[0]));
}

std::string tell_unlinked(const LaunchChoice& choice, const LaunchInput& input) {
  const auto& [topology, settings, command, node] = input;
  const bool could_be = topology.is<StaticNode>() && topology.master() != nullptr &&
                        settings.text(Option::link) != "off" && may_start_torchrun(choice, input);
  if (choice.links || !could_be || !starts_torchrun(text_of(input))) return {};
  return fmt::format(
      "the nodes are not linked, because {} starts torchrun and not rankshim: a failure on one node does not "
      "end "
      "the others; --link on (RANKSHIM_LINK) links them",
      base_name(command[0]));
}

std::optional<PythonSite> plan_site(const LaunchChoice& choice, const LaunchInput& input,
                                    const std::optional<std::string>& master_address) {
  const Topology& topology = input.topology;
  if (input.command.empty()) return std::nullopt;
  const bool records = input.settings.flag(Option::record);
  const bool joins = may_start_torchrun(choice, input);
  const auto runs_python = [&] {
    return !topology.is<Idle>() &&
           (!choice.interpreter.empty() || base_name(input.command.front()).starts_with("python") ||
            starts_torchrun(text_of(input)));
  };
  if (!joins && !choice.is_wrapped() && !(records && (choice.launches() || runs_python())))
    return std::nullopt;
  const Environment& environment = input.node.environment();
  const auto path = environment.get("PYTHONPATH");
  // A folder with a colon would be two entries of PYTHONPATH, and with a variable above the kernel's limit
  // the command could not be executed (execve(2), MAX_ARG_STRLEN).
  constexpr std::size_t longest_path = std::size_t{120} << 10U;
  const bool two_folders =
      temporary_folder_template(input.node, choice.launches()).find(':') != std::string::npos;
  if (two_folders || (path && path->size() > longest_path)) return std::nullopt;
  PythonSite site{.had_path = path.has_value(),
                  .job = {},
                  .master = {},
                  .records = records,
                  .ignored = notices(input.settings)};
  // Its command line has all but the log folder; and torchrun alone needs none of the job's.
  if (choice.is_wrapped() || python_starts_torchrun(choice, input)) site.job.emplace();
  if (joins) {
    site.job = torchrun_job(topology, environment);
    const std::string_view master = topology.facts.text(Fact::master_addr);
    site.master = without_brackets(master_address ? std::string_view(*master_address) : master);
    if (!is_literal(site.master)) site.master.clear();
    if (!environment.get("PET_LOCAL_ADDR")) site.job->emplace_back("PET_LOCAL_ADDR", "");
  }
  return site;
}

void change_for_torch(EnvironmentChange& change, const LaunchChoice& choice, const LaunchInput& input,
                      const OwnFolder& folder) {
  const auto& [topology, settings, command, node] = input;
  const Environment& environment = node.environment();
  const auto set = [&](std::string_view name, std::string_view value) {
    if (!environment.get(name)) change.set.emplace_back(name, value);
  };
  if (choice.launches()) hide_other_job(change, choice, input);
  // A rank 0 that survives could not admit a new node: MASTER_ADDR is not published for the new round (torch
  // 2.13).
  if (choice.by_torchrun() && topology.is<ElasticNode>()) set("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1");
  // A process under @record writes its error into rankshim's folder, and so does a worker of a launcher that
  // knows no such file (python/sitecustomize.py).
  const bool agent_records =
      choice.by_torchrun() && !choice.is_wrapped() && choice.log_dir.empty() && !folder.path.empty();
  const bool records_itself = topology.is<CreatedProcess>() || choice.as<FilledLauncher>() != nullptr;
  if (agent_records || (folder.has_site && records_itself)) set(agent_error_variable, folder.error_file());
  if (needs_port(choice, input)) set("PORT", topology.facts.text(Fact::master_port));
  if (may_start_torchrun(choice, input) && needs_plain_variables(input, folder.has_site)) {
    for (auto& [name, value] : torchrun_job(topology, change.apply(environment)))
      change.set.emplace_back(name, value);
  }
  if (folder.has_site) {
    const auto path = environment.get("PYTHONPATH");
    change.set.emplace_back("PYTHONPATH", folder.path + (path ? ":" + std::string(*path) : ""));
  }
  share_cpus(change, choice, input);
  // torchrun gives its workers the grace that it gets itself (torch/distributed/launcher/api.py, whole
  // seconds), also where the program starts it.
  if (const auto grace = settings.time(Option::grace); grace && !choice.natively())
    set("TORCH_ELASTIC_SHUTDOWN_TIMEOUT",
        std::to_string(std::max<std::int64_t>(1, (grace->count() + 999) / 1000)));
  // Workers that hang show their stacks (faulthandler in Python's library).
  constexpr std::string_view handler = "PYTHONFAULTHANDLER";
  if (choice.launches() && settings.flag(Option::stacks) && !environment.has(handler)) set(handler, "1");
}

std::vector<std::string> torchrun_argv(const LaunchChoice& choice, const TorchrunLauncher& torchrun,
                                       const LaunchInput& input, const KnownAtStart& known) {
  const TorchrunCommand command = whole_command(torchrun, input, known.torch);
  const bool has_only_launch = known.torch.has_only_launch;
  const Variables flags = missing_flags(choice, command, input, known);
  const auto word = [&](std::size_t at) { return command.words.begin() + static_cast<std::ptrdiff_t>(at); };
  std::vector<std::string> argv;
  if (!choice.interpreter.empty()) argv = {choice.interpreter, "-u"};
  argv.insert(argv.end(), word(0), word(command.flags_at));
  for (const auto& [name, value] : flags) argv.push_back(fmt::format("--{}={}", name, value));
  const std::string text = torchrun.own ? std::string() : script_text(input.command, input.node);
  const std::string_view argument = local_rank_argument(text);
  // It passes --local_rank=N to every script, unless it gets --use_env.
  if (has_only_launch && !torchrun.own && !torchrun.tells_local_rank && argument.empty())
    argv.emplace_back("--use_env");
  std::size_t at = command.flags_at;
  for (const TorchrunCommand::Flag& given : command.flags) {
    at = given.at + given.words;
    if (std::ranges::find(flags, given.name, &Variables::value_type::first) == flags.end())
      argv.insert(argv.end(), word(given.at), word(at));
  }
  argv.insert(argv.end(), word(at), command.words.end());
  // Behind the script, as torch.distributed.launch does it; torchrun replaces the placeholder by the number
  // (torch/distributed/elastic/utils/api.py, macros). Most scripts that need the argument are older than
  // torch 2.0.
  if (torchrun.tells_local_rank && !torchrun.own && !has_only_launch)
    argv.insert(argv.end() - (command.words.end() - word(command.script_at + 1)),
                std::string(argument.empty() ? "--local_rank" : argument) + "=${local_rank}");
  return argv;
}

std::string find_agent_error_file(const LaunchChoice& choice, const Environment& environment,
                                  const OwnFolder& folder) {
  if (choice.natively() || (!choice.launches() && !folder.has_site)) return {};
  const std::string path(environment.get(agent_error_variable).value_or(""));
  return path.empty() && folder.has_site ? folder.error_file() : path;
}

}  // namespace rankshim
