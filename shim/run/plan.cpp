#include "run/plan.h"

#include <fmt/format.h>

#include <utility>

#include "base/text.h"
#include "launchers/by_name/named_launcher.h"
#include "launchers/native/workers.h"
#include "launchers/torchrun/temporary_folder.h"
#include "plan/launch.h"
#include "platform/recognise.h"
#include "report/redact.h"

namespace rankshim {
namespace {

Faults refused(const Settings& settings, Option option, std::string_view why, std::string fix) {
  const Value& value = *settings[option];
  return {{option == Option::job_restarts ? Anchor::job_restarts : Anchor::launcher,
           fmt::format("{}={}, but {}", value.detail, value.text, why),
           {value.detail},
           std::move(fix)}};
}

/// Why rankshim cannot start this job's workers itself; nothing if it can.
Faults check_native(const LaunchInput& input, bool is_torchrun) {
  const auto& [topology, settings, command, node] = input;
  const auto refuse = [&](std::string_view why, std::string_view or_fix) {
    return refused(settings, Option::launcher, why,
                   fmt::format("{} --launcher (RANKSHIM_LAUNCHER) at auto", or_fix));
  };
  if (topology.is<ElasticNode>())
    return refuse("the number of nodes is not fixed: this job is elastic", "leave");
  if (is_torchrun)
    return refuse(fmt::format("{} would start workers in each of its workers", command[0]),
                  "give the script to rankshim instead, or leave");
  if (topology.max_restarts() != 0 && !topology.is_alone())
    return refuse(
        fmt::format(
            "it restarts the workers of one node, and this job has {} nodes, which would not learn of it",
            topology.facts.text(Fact::nnodes)),
        "leave --max-restarts (RANKSHIM_MAX_RESTARTS) at 0, or");
  if (settings.flag(Option::ctty))
    return refuse("--ctty gives one command a terminal, and not several workers",
                  "leave --ctty (RANKSHIM_CTTY) off, or");
  return {};
}

/// Chooses the launcher. There is none if another one has created the processes already, or if the command is
/// one by another name than torchrun's (`is_named`). `own` is the torchrun that the command is; it becomes
/// null where that is just a program.
Faults choose_launcher(LaunchChoice& choice, const LaunchInput& input,
                       std::shared_ptr<const TorchrunCommand>& own, bool is_named) {
  const auto& [topology, settings, command, node] = input;
  const std::string_view wanted = settings.text(Option::launcher);
  const bool per_node = !topology.is<CreatedProcess>();
  const bool can_launch = is_script(command) || own;
  if (own && !per_node) {
    choice.warnings.push_back(
        fmt::format("{} has already started one process per accelerator, and torchrun would start workers "
                    "in each of them; give the script to rankshim instead (rankshim -- train.py)",
                    topology.platform.name()));
    own.reset();
  }
  if (wanted == "native") choice.launcher = NativeLauncher{};
  if (wanted == "torchrun" || wanted == "launch" || (wanted == "auto" && can_launch && per_node && !is_named))
    choice.launcher = TorchrunLauncher{.tells_local_rank = wanted == "launch",
                                       .own = own,
                                       .is_wrapped = own && own->begins_at != 0,
                                       .more = {}};
  if (!choice.launches()) return {};
  const auto& chosen = *settings[Option::launcher];
  if (!per_node) {
    return refused(settings, Option::launcher,
                   fmt::format("the platform {} has already started one process per accelerator",
                               topology.platform.name()),
                   "leave --launcher (RANKSHIM_LAUNCHER) at auto");
  }
  if (choice.natively()) return check_native(input, own != nullptr);
  if (Faults faults = check_torchrun_args(settings); !faults.empty()) return faults;
  if (!command.empty() && !is_script(command) && !own) {
    return {{Anchor::launcher,
             fmt::format("{}={} starts a script, but {} is a program", chosen.detail, wanted, command[0]),
             {chosen.detail},
             "give script.py or -m MODULE, or leave --launcher (RANKSHIM_LAUNCHER) at auto"}};
  }
  return {};
}

/// What is asked of the workers' output and cannot be done.
Faults check_output(LaunchChoice& choice, const LaunchInput& input) {
  const Settings& settings = input.settings;
  const auto& log_dir = settings[Option::log_dir];
  const bool tee = settings.flag(Option::tee);
  const bool prefix = settings.flag(Option::prefix);
  if (input.command.empty() || (!log_dir && !tee && !prefix)) return {};
  if (!choice.launches()) {
    choice.warnings.push_back(fmt::format(
        "--log-dir, --tee and --prefix are for workers that torchrun or --launcher=native starts; "
        "{} writes to stdout and stderr itself",
        input.command[0]));
    return {};
  }
  if (tee && !log_dir)
    return refused(settings, Option::tee, "--log-dir is not set", "set --log-dir (RANKSHIM_LOG_DIR)");
  if (prefix && !choice.natively())
    return refused(settings, Option::prefix, "torchrun starts the workers",
                   "leave it out, or set --launcher (RANKSHIM_LAUNCHER) to native");
  if (prefix && log_dir && !tee)
    return refused(settings, Option::prefix, "with --log-dir nothing is printed",
                   "set --tee (RANKSHIM_TEE) too");
  const auto* torchrun = choice.as<TorchrunLauncher>();
  const auto* flag = torchrun != nullptr && torchrun->own ? torchrun->own->find("log_dir") : nullptr;
  if (flag == nullptr || !log_dir || flag->value == log_dir->text) return {};
  return refused(settings, Option::log_dir, fmt::format("the command's --log_dir is {}", flag->value),
                 "give only one of them");
}

/// What only the native launcher can do with its workers.
Faults check_native_only(LaunchChoice& choice, const LaunchInput& input) {
  const Settings& settings = input.settings;
  if (settings.text(Option::bind) == "none" || choice.natively()) return {};
  if (choice.launches())
    return refused(settings, Option::bind, "torchrun starts the workers",
                   "leave it out, or set --launcher (RANKSHIM_LAUNCHER) to native, or use torchrun's own: "
                   "--torchrun-args=--numa-binding=node");
  if (!input.command.empty())
    choice.warnings.emplace_back("--bind is for workers that --launcher=native starts");
  return {};
}

/// What cannot be started again as a whole.
Faults check_job_restarts(const LaunchInput& input) {
  const auto& [topology, settings, command, node] = input;
  if (settings.get<RestartLimit>(Option::job_restarts)->most == 0 || command.empty()) return {};
  const auto refuse = [&](std::string_view why, std::string fix) {
    return refused(settings, Option::job_restarts, why, std::move(fix));
  };
  if (topology.max_restarts() != 0)
    return refuse(fmt::format("max_restarts is {} ({}): each of them starts the workers again",
                              topology.max_restarts(), topology.facts[Fact::max_restarts]->source()),
                  "set --max-restarts (RANKSHIM_MAX_RESTARTS) to 0, or leave --job-restarts out");
  if (topology.is<ElasticNode>())
    return refuse("an elastic job's torchrun starts its workers again itself",
                  "use --max-restarts (RANKSHIM_MAX_RESTARTS) instead");
  if (topology.is<CreatedProcess>())
    return refuse(fmt::format("the platform {} has started one process per accelerator, and would have to "
                              "start them again",
                              topology.platform.name()),
                  "leave it out, or start one rankshim on each node");
  if (topology.has_other_nodes() && settings.text(Option::link) == "off")
    return refuse("--link is off, and all nodes have to know of a failure", "leave --link at auto");
  if (topology.is<StaticNode>() && topology.master() == nullptr)
    return refuse("the nodes cannot be linked: nothing says where the master is",
                  "set --master-addr (RANKSHIM_MASTER_ADDR)");
  return {};
}

/// The launcher that the command is by another name than torchrun's, if that could make a difference.
std::optional<by_name::NamedLauncher> find_named(const LaunchInput& input, bool is_torchrun, Faults& faults) {
  const auto& [topology, settings, command, node] = input;
  const bool is_module = is_script(command) && command[0] == "-m";
  const bool searches = is_module || (topology.has_other_nodes() && !is_script(command));
  if (is_torchrun || !searches || topology.is<CreatedProcess>() || topology.is<Idle>()) return std::nullopt;
  return by_name::find_launcher(input, faults);
}

/// The script that will run: Python's, or a shell's that is named by its path.
std::string script_of(const LaunchChoice& choice, const std::vector<std::string>& command) {
  const auto* torchrun = choice.as<TorchrunLauncher>();
  if (torchrun != nullptr && torchrun->own) return torchrun->is_wrapped ? "" : torchrun->own->script();
  if (const auto python = read_python(command)) return python->module ? std::string() : python->what;
  const std::string_view name = base_name(command[0]);
  const bool shell = name == "bash" || name == "sh";
  const bool path = shell && command.size() > 1 && !command[1].starts_with('-') &&
                    (command[1].find('/') != std::string::npos || command[1].ends_with(".sh"));
  return path ? command[1] : std::string();
}

/// The command itself, or a named launcher's with what the user left out.
std::vector<std::string> command_argv(const LaunchChoice& choice, const LaunchInput& input,
                                      const OwnFolder& folder) {
  const auto* filled = choice.as<FilledLauncher>();
  const bool has_words = filled != nullptr && !filled->command.empty();
  std::vector<std::string> words = has_words ? filled->command : input.command;
  if (filled != nullptr && !filled->hostfile.empty()) {
    for (std::string& word : words) word = native::filled_in(word, {{"hostfile", folder.hostfile()}});
  }
  if (!choice.interpreter.empty()) words.insert(words.begin(), {choice.interpreter, "-u"});
  return words;
}

Outcome<Job> resolve(const Settings& settings, const std::vector<std::string>& command, const Node& node) {
  auto set = platform::read_profiles(settings.text(Option::profile), node);
  if (auto* faults = std::get_if<Faults>(&set)) return std::move(*faults);
  const auto& known = std::get<platform::ProfileSet>(set);
  auto platform = platform::recognise(known.profiles, settings.text(Option::platform), node, known.own,
                                      settings.text(Option::nnodes));
  if (auto* faults = std::get_if<Faults>(&platform)) return std::move(*faults);
  auto& found = std::get<platform::Platform>(platform);
  found.command_finds_master =
      !command.empty() && found.profile != nullptr && platform::is_agent(*found.profile, command.front());

  const auto torchrun = own_torchrun(settings, command);
  auto topology = resolve_topology(settings, found, node, torchrun ? &torchrun->given : nullptr);
  if (auto* faults = std::get_if<Faults>(&topology)) return std::move(*faults);

  auto choice = choose_launch({std::get<Topology>(topology), settings, command, node}, torchrun);
  if (auto* faults = std::get_if<Faults>(&choice)) return std::move(*faults);
  return Job{std::move(std::get<Topology>(topology)), std::move(std::get<LaunchChoice>(choice))};
}

}  // namespace

Outcome<LaunchChoice> choose_launch(const LaunchInput& input,
                                    std::shared_ptr<const TorchrunCommand> torchrun) {
  LaunchChoice choice;
  Faults faults;
  const auto launcher = find_named(input, torchrun != nullptr, faults);
  for (Fault& fault : choose_launcher(choice, input, torchrun, launcher.has_value()))
    faults.push_back(std::move(fault));
  if (auto fault = check_idle_role(choice, input, is_script(input.command) || torchrun))
    faults.push_back(std::move(*fault));
  for (auto& found :
       {check_output(choice, input), check_native_only(choice, input), check_job_restarts(input)})
    faults.insert(faults.end(), found.begin(), found.end());
  if (!faults.empty()) return faults;
  if (is_script(input.command)) choice.interpreter = find_interpreter(input.settings, input.node);
  choose_wait(choice, input);
  if (auto* by = std::get_if<TorchrunLauncher>(&choice.launcher)) choose_for_torchrun(choice, *by, input);
  if (choice.natively()) native::choose_for_workers(choice, input);
  if (input.command.empty()) return choice;
  if (launcher) {
    by_name::choose_for_launcher(choice, input, *launcher);
  } else if (!choice.launches()) {
    for (std::string& warning : program_warnings(input.topology, input.settings, input.command, input.node))
      choice.warnings.push_back(std::move(warning));
  }
  choose_link(choice, input);
  choice.note = tell_unlinked(choice, input);
  choice.missing = find_missing(choice, input, script_of(choice, input.command));
  return choice;
}

LaunchPlan plan_launch(const LaunchChoice& choice, const LaunchInput& input, const KnownAtStart& known) {
  const auto& [topology, settings, command, node] = input;
  LaunchPlan plan;
  plan.agent_name = known.torch.agent_name();
  EnvironmentChange& change = plan.environment;
  change = environment_change(topology, node);
  if (const auto* filled = choice.as<FilledLauncher>())
    change.set.insert(change.set.end(), filled->variables.begin(), filled->variables.end());
  if (topology.is_alone() && topology.platform.is_off() && !choice.launches()) change.set.clear();
  if (choice.natively()) native::change_for_workers(change, input);
  change_for_torch(change, choice, input, known.folder);
  hide_own_settings(change, node.environment());
  if (settings.get<RestartLimit>(Option::job_restarts)->most != 0) {
    const std::string attempt = std::to_string(known.attempt);
    change.set.emplace_back("RANKSHIM_ATTEMPT", attempt);
    // A torchrun sets it anew for its workers, to its own restarts.
    if (!choice.natively()) change.set.emplace_back("TORCHELASTIC_RESTART_COUNT", attempt);
  }
  change.set.insert(change.set.end(), known.network_interface.begin(), known.network_interface.end());
  if (!choice.natively()) {  // which sets them for each worker
    for (const auto& [name, value] : user_variables(settings)) change.replace(name, value);
  }
  if (command.empty()) return plan;
  const auto* torchrun = choice.as<TorchrunLauncher>();
  plan.argv = torchrun != nullptr ? torchrun_argv(choice, *torchrun, input, known)
                                  : command_argv(choice, input, known.folder);
  return plan;
}

LaunchPlan plan_shown_launch(const LaunchChoice& choice, const LaunchInput& input) {
  const std::string folder = temporary_folder_template(input.node, choice.launches());
  KnownAtStart known;
  known.folder = {.path = folder, .has_site = plan_site(choice, input, std::nullopt).has_value()};
  LaunchPlan plan = plan_launch(choice, input, known);
  if (choice.natively() && !plan.argv.empty())
    plan.workers = native::shown_workers(plan, choice, input, folder);
  return plan;
}

Outcome<Job> resolve_job(const Settings& settings, const std::vector<std::string>& command,
                         const Node& node) {
  auto resolved = resolve(settings, command, node);
  auto* const faults = std::get_if<Faults>(&resolved);
  auto* const job = std::get_if<Job>(&resolved);
  const bool silent = job != nullptr && job->topology.warnings.empty() && job->choice.warnings.empty();
  if (silent)
    return resolved;  // as in nearly every start; searching for secrets would be noticeable in its time
  Redactor redactor(node.environment());
  if (faults != nullptr) return redacted(std::move(*faults), redactor);
  for (auto* warnings : {&job->topology.warnings, &job->choice.warnings})
    for (std::string& warning : *warnings) warning = redactor.whole(warning);
  return resolved;
}

}  // namespace rankshim
