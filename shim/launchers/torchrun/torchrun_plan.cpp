#include "launchers/torchrun/torchrun_plan.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/files.h"
#include "base/text.h"
#include "launchers/torchrun/temporary_folder.h"
#include "launchers/torchrun/torchrun_command.h"

namespace rankshim {
namespace {

/// The file into which a process under torch's @record, such as the agent, writes why it failed.
constexpr std::string_view agent_error_variable = "TORCHELASTIC_ERROR_FILE";

/// Where Python looks for modules first. For the command it begins with rankshim's folder.
constexpr std::string_view python_path_variable = "PYTHONPATH";

/// The flags that torch.distributed.launch has had since its beginning.
bool is_launchs(std::string_view flag) {
  return flag == "nnodes" || flag == "nproc_per_node" || flag == "node_rank" || flag.starts_with("master_");
}

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

/// Whether the script reads torch.distributed.launch's argument, as far as its text shows it.
bool reads_local_rank_argument(const std::string& text) {
  return text.find("--local_rank") != std::string::npos || text.find("--local-rank") != std::string::npos;
}

/// torch from 2.0 on passes --local-rank, earlier versions --local_rank: the script gets the one that it
/// reads, or the older one if that is not visible, because most scripts that need the argument are older than
/// 2.0.
std::string local_rank_spelling(const std::string& text) {
  const bool only_dash =
      text.find("--local-rank") != std::string::npos && text.find("--local_rank") == std::string::npos;
  return only_dash ? "--local-rank" : "--local_rank";
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

/// Whether a shell's text reads the variable PORT.
bool reads_port(std::string_view text) {
  const auto in_name = [](char c) { return c == '_' || is_letter_or_digit(c); };
  for (const std::string_view form : {"$PORT", "${PORT"}) {
    for (auto at = text.find(form); at != std::string_view::npos; at = text.find(form, at + 1)) {
      const auto end = at + form.size();
      if (end == text.size() || !in_name(text[end])) return true;
    }
  }
  return false;
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

void warn_script(LaunchChoice& choice, const TorchrunLauncher& torchrun, const LaunchInput& input) {
  const std::string& script = input.command[0];
  if (torchrun.tells_local_rank || script == "-m") return;
  const std::string source = script_text(input.command, input.node);
  if (!reads_local_rank_argument(source) || source.find("LOCAL_RANK") != std::string::npos) return;
  choice.warnings.push_back(fmt::format(
      "{} mentions --local_rank and not LOCAL_RANK; if it needs the argument, use --launcher=launch",
      script));
}

constexpr EmbeddedFile module[] = {
#include "python_site.inc"
};

/// A literal for Python 2 and 3. Bytes that are not plain ASCII are escaped, as torchrun reads them.
std::string python_literal(std::string_view text) {
  std::string literal = "\"";
  for (const char c : text) {
    const bool plain = c >= ' ' && c <= '~' && c != '"' && c != '\\';
    literal += plain ? std::string(1, c) : fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  }
  return literal + "\"";
}

std::string_view truth(bool value) { return value ? "True" : "False"; }

/// The variables with which a torchrun inside a program joins the job: PET_ and the flag's name
/// (torch/distributed/argparse_util.py), for a static rendezvous and for c10d, except those in `environment`
/// and this node's address. The torchrun's command line decides which of them it needs
/// (python/sitecustomize.py).
Variables torchrun_job(const Topology& topology, const Environment& environment) {
  const Facts& facts = topology.facts;
  Variables job;
  const auto set = [&](std::string_view name, std::string_view value) {
    if (!value.empty() && !environment.get(name)) job.emplace_back(name, value);
  };
  const std::string_view host = without_brackets(facts.text(Fact::master_addr));
  set("PET_NNODES", facts.text(Fact::nnodes));
  set("PET_NPROC_PER_NODE", facts.text(Fact::nproc_per_node));
  set("PET_NODE_RANK", facts.text(Fact::node_rank));
  set("PET_MASTER_ADDR", host);
  set("PET_MASTER_PORT", facts.text(Fact::master_port));
  set("PET_RDZV_BACKEND", facts.text(Fact::rdzv_backend));
  set("PET_RDZV_ENDPOINT", host_port(host, facts.text(Fact::master_port)));
  set("PET_RDZV_ID", facts.text(topology.is<ElasticNode>() ? Fact::rdzv_id : Fact::run_id));
  const std::string conf(facts.text(Fact::rdzv_conf));
  const auto hosts = topology.hosts_master();
  set("PET_RDZV_CONF", hosts ? with_host(conf, *hosts) : conf);
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

/// Has a process under @record write its error into rankshim's folder.
void set_error_file(EnvironmentChange& change, const Environment& environment, const OwnFolder& folder) {
  if (!environment.get(agent_error_variable) && !folder.path.empty())
    change.set.emplace_back(agent_error_variable, agent_error_file(folder.path));
}

/// Sets the other variables that torchrun reads.
void change_for_torchrun(EnvironmentChange& change, const LaunchChoice& choice, const LaunchInput& input,
                         const OwnFolder& folder) {
  const Environment& environment = input.node.environment();
  // A rank 0 that survives could not admit a new node: MASTER_ADDR is not published for the new round (torch
  // 2.13).
  constexpr std::string_view share = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE";
  if (input.topology.is<ElasticNode>() && !environment.get(share)) change.set.emplace_back(share, "1");
  if (choice.log_dir.empty()) set_error_file(change, environment, folder);
}

/// Gives a script on a lone node the free port as PORT where its text reads that beside torch's launcher
/// (OpenMMLab's tools/dist_train.sh); other programs read PORT as their web server's.
void change_for_script(EnvironmentChange& change, const LaunchChoice& choice, const LaunchInput& input) {
  const Topology& topology = input.topology;
  if (!topology.is_alone() || topology.platform == "none" || choice.launches() || topology.is<Idle>() ||
      input.node.environment().get("PORT"))
    return;
  const std::string text = text_of(input);
  if (starts_torchrun(text) && reads_port(text))
    change.set.emplace_back("PORT", topology.facts.text(Fact::master_port));
}

/// Makes Python processes load sitecustomize.py.
void change_for_site(EnvironmentChange& change, const LaunchChoice& choice, const LaunchInput& input,
                     const OwnFolder& folder) {
  const Environment& environment = input.node.environment();
  if (may_start_torchrun(choice, input) && needs_plain_variables(input, folder.has_site)) {
    for (auto& [name, value] : torchrun_job(input.topology, change.apply(environment)))
      change.set.emplace_back(name, value);
  }
  if (!folder.has_site) return;
  const auto path = environment.get(python_path_variable);
  change.set.emplace_back(python_path_variable, folder.path + (path ? ":" + std::string(*path) : ""));
  if (input.topology.is<CreatedProcess>()) set_error_file(change, environment, folder);
}

/// Gives torchrun the same grace for its workers as rankshim gives torchrun
/// (torch/distributed/launcher/api.py, whole seconds), and makes workers that hang show their stacks
/// (faulthandler in Python's library).
void change_for_stop(EnvironmentChange& change, const LaunchChoice& choice, const LaunchInput& input) {
  const Environment& environment = input.node.environment();
  auto& set = change.set;
  constexpr std::string_view timeout = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT";
  const auto grace = input.settings.time(Option::grace);
  if (choice.by_torchrun() && grace && !environment.get(timeout))
    set.emplace_back(timeout, std::to_string(std::max<std::int64_t>(1, (grace->count() + 999) / 1000)));
  constexpr std::string_view handler = "PYTHONFAULTHANDLER";
  if (input.settings.flag(Option::stacks) && !environment.has(handler)) set.emplace_back(handler, "1");
}

}  // namespace

std::string python_site_text(const PythonSite& site) {
  std::string job = "None";
  if (site.job) {
    job = "{";
    for (const auto& [name, value] : *site.job)
      job += python_literal(name) + ": " + python_literal(value) + ", ";
    job += "}";
  }
  return std::string(module[0].text) + fmt::format("\n\nserve({}, {}, {}, {}, {})\n", truth(site.had_path),
                                                   job, python_literal(site.master), truth(site.records),
                                                   getpid());
}

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
  const TorchrunCommand* own = torchrun.own.get();
  const TorchrunCommand more = read_torchrun_args(input.settings);
  for (const auto& flag : more.flags)
    torchrun.more.push_back(fmt::format("--{}{}{}", flag.name, flag.value.empty() ? "" : "=", flag.value));
  const auto* logs = own != nullptr ? own->find("log_dir") : nullptr;
  if (logs == nullptr) logs = more.find("log_dir");
  const auto& ours = input.settings[Option::log_dir];
  choice.log_dir = logs != nullptr ? logs->value
                   : ours          ? ours->text
                                   : std::string(input.node.environment().get("PET_LOG_DIR").value_or(""));
  if (input.command.empty()) return;
  if (!choice.interpreter.empty()) choice.python = {choice.interpreter, "-u"};
  if (own == nullptr) return warn_script(choice, torchrun, input);
  if (choice.interpreter.empty()) choice.python = own->interpreter;
  if (!own->program.empty()) choice.python = interpreter_of(own->program, input.node);
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
  if (!joins && !(records && (choice.launches() || runs_python()))) return std::nullopt;
  const Environment& environment = input.node.environment();
  const auto path = environment.get(python_path_variable);
  // A folder with a colon would be two entries of PYTHONPATH, and with a variable above the kernel's limit
  // the command could not be executed (execve(2), MAX_ARG_STRLEN).
  constexpr std::size_t longest_path = std::size_t{120} << 10U;
  const bool two_folders =
      temporary_folder_template(input.node, choice.launches()).find(':') != std::string::npos;
  if (two_folders || (path && path->size() > longest_path)) return std::nullopt;
  PythonSite site{.had_path = path.has_value(), .job = {}, .master = {}, .records = records};
  if (joins) {
    site.job = torchrun_job(topology, environment);
    const std::string_view master = topology.facts.text(Fact::master_addr);
    site.master = without_brackets(master_address ? std::string_view(*master_address) : master);
    if (!is_literal(site.master)) site.master.clear();
    auto own = input.node.address_towards(site.master);
    if (!own) own = input.node.address_towards({});
    if (own && !environment.get("PET_LOCAL_ADDR")) site.job->emplace_back("PET_LOCAL_ADDR", *own);
  }
  return site;
}

void change_for_torch(EnvironmentChange& change, const LaunchChoice& choice, const LaunchInput& input,
                      const OwnFolder& folder) {
  if (choice.launches()) hide_other_job(change, choice, input);
  if (choice.by_torchrun()) change_for_torchrun(change, choice, input, folder);
  change_for_script(change, choice, input);
  change_for_site(change, choice, input, folder);
  share_cpus(change, choice, input);
  if (choice.launches()) change_for_stop(change, choice, input);
}

std::vector<std::string> torchrun_argv(const LaunchChoice& choice, const TorchrunLauncher& torchrun,
                                       const LaunchInput& input, const KnownAtStart& known) {
  const std::vector<std::string>& command = input.command;
  const bool has_only_launch = known.torch.has_only_launch;
  std::vector<std::string> argv;
  if (!choice.interpreter.empty()) argv = {choice.interpreter, "-u"};
  std::vector<std::string> more = torchrun.more;
  auto flags = torchrun_flags(input, known.master_address,
                              choice.log_dir.empty() ? known.folder.path : std::string(), more);
  if (const auto& log_dir = input.settings[Option::log_dir]) {
    flags.push_back({"log_dir", log_dir->text});
    // 3: stdout and stderr (torch/distributed/elastic/multiprocessing/api.py, Std)
    flags.push_back({input.settings.flag(Option::tee) ? "tee" : "redirects", "3"});
  }
  if (has_only_launch) std::erase_if(flags, [](const auto& flag) { return !is_launchs(flag.name); });
  std::erase_if(more, [&](const std::string& option) {
    return option.starts_with(conf_option) ||
           std::ranges::find(known.torch.rejected, option) != known.torch.rejected.end();
  });
  if (torchrun.own) {
    const auto words = fill_in(*torchrun.own, input.topology, std::move(flags), more);
    argv.insert(argv.end(), words.begin(), words.end());
    return argv;
  }
  argv.insert(argv.end(), {"-m", has_only_launch ? "torch.distributed.launch" : "torch.distributed.run"});
  for (const TorchrunFlag& flag : flags) argv.push_back(fmt::format("--{}={}", flag.name, flag.value));
  argv.insert(argv.end(), more.begin(), more.end());
  const std::string text = script_text(command, input.node);
  // It passes --local_rank=N to every script, unless it gets --use_env.
  if (has_only_launch && !torchrun.tells_local_rank && !reads_local_rank_argument(text))
    argv.emplace_back("--use_env");
  argv.insert(argv.end(), command.begin(), command.end());
  if (!torchrun.tells_local_rank || has_only_launch) return argv;
  // Appended after the script, as torch.distributed.launch does; torchrun replaces the placeholder by the
  // number (torch/distributed/elastic/utils/api.py, macros).
  const auto script = argv.end() - static_cast<std::ptrdiff_t>(command.size());
  argv.insert(script + (command[0] == "-m" ? 2 : 1), local_rank_spelling(text) + "=${local_rank}");
  return argv;
}

std::string agent_error_file(const std::string& folder) { return folder + "/error.json"; }

std::string find_agent_error_file(const LaunchChoice& choice, const LaunchPlan& plan, const Node& node,
                                  const OwnFolder& folder) {
  if (choice.natively() || (!choice.launches() && !folder.has_site)) return {};
  const Environment environment = plan.environment.apply(node.environment());
  const std::string path(environment.get(agent_error_variable).value_or(""));
  return path.empty() && folder.has_site ? agent_error_file(folder.path) : path;
}

}  // namespace rankshim
