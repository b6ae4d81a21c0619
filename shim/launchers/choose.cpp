#include "launchers/choose.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/text.h"
#include "launchers/by_name/named_launcher.h"
#include "launchers/native/native_launcher.h"
#include "launchers/torchrun/inner_torchrun.h"
#include "launchers/torchrun/torchrun_launcher.h"
#include "settings/not_found.h"

namespace rankshim::launchers {
namespace {

using settings::LauncherChoice;
using settings::LinkChoice;
using settings::Option;
using settings::RestartLimit;
using settings::WaitChoice;

/// Makes a launcher; `torchrun` is the command if it is one, else null.
using Factory = std::shared_ptr<const Launcher> (*)(const settings::Settings& settings,
                                                    const std::shared_ptr<const TorchrunCommand>& torchrun);

/// What makes each launcher that --launcher can name, in the order of settings/launchers.h.
constexpr std::array factories = {
#define ROW(word, help) Factory(make_##word),
    RANKSHIM_LAUNCHERS(ROW)
#undef ROW
};

std::shared_ptr<const Launcher> make_launcher(LauncherChoice choice, const settings::Settings& settings,
                                              const std::shared_ptr<const TorchrunCommand>& torchrun) {
  return factories.at(static_cast<std::size_t>(choice) - 1)(settings, torchrun);  // 0 is auto
}

template <class One>
void append(std::vector<One>& all, const std::vector<One>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

/// Whether the command may be a launcher other than torchrun (by_name/), and that matters.
bool may_be_named(const plan::LaunchInput& input) {
  const auto& [topology, settings, command, host] = input;
  if (settings.choice<LauncherChoice>(Option::launcher) != LauncherChoice::automatic) return false;
  if (topology.is<topology::CreatedProcess>() || topology.is<topology::Idle>()) return false;
  return plan::is_script(command) ? command[0] == "-m" : topology.has_other_nodes();
}

/// The launcher that rankshim starts, according to --launcher and the command; null if none. `is_named`: the
/// command is a launcher other than torchrun. If the platform has created the processes, `auto` starts none.
std::shared_ptr<const Launcher> started_launcher(const plan::LaunchInput& input,
                                                 const std::shared_ptr<const TorchrunCommand>& torchrun,
                                                 bool is_named) {
  auto wanted = input.settings.choice<LauncherChoice>(Option::launcher);
  if (wanted == LauncherChoice::automatic) {
    const bool starts_one = !input.topology.is<topology::CreatedProcess>() && !is_named &&
                            (torchrun || plan::is_script(input.command));
    wanted = starts_one ? LauncherChoice::torchrun : LauncherChoice::none;
  }
  if (wanted == LauncherChoice::none) return nullptr;
  return make_launcher(wanted, input.settings, torchrun);
}

/// Sets the launcher: the one that rankshim starts; or the one that the command starts, completed by
/// rankshim; or none.
Faults choose_launcher(LaunchChoice& choice, const plan::LaunchInput& input,
                       std::shared_ptr<const TorchrunCommand> torchrun) {
  const auto& [topology, settings, command, host] = input;
  const bool has_processes = topology.is<topology::CreatedProcess>();
  Faults faults;
  const auto named = !torchrun && may_be_named(input) ? find_launcher(input, faults) : std::nullopt;
  if (torchrun && has_processes) {
    choice.warnings.push_back(
        fmt::format("{} has already started one process per accelerator, and torchrun would start workers "
                    "in each of them; give the script to rankshim instead (rankshim -- train.py)",
                    topology.platform.name()));
    torchrun.reset();
  }
  if (auto started = started_launcher(input, torchrun, named.has_value())) {
    choice.launcher = std::move(started);
    append(faults,
           has_processes
               ? refused(settings, Option::launcher,
                         fmt::format("the platform {} has already started one process per accelerator",
                                     topology.platform.name()),
                         "leave --launcher (RANKSHIM_LAUNCHER) at auto")
               : choice.launcher->faults(input));
  } else if (named) {
    if (auto filled = fill_in(*named, input, choice.warnings)) choice.launcher = std::move(filled);
  } else if (!command.empty()) {
    append(choice.warnings, plan::program_warnings(topology, settings, command, host));
  }
  return faults;
}

/// The fault if --job-restarts cannot restart the job as a whole.
Faults check_job_restarts(const plan::LaunchInput& input) {
  const auto& [topology, settings, command, host] = input;
  if (settings.get<RestartLimit>(Option::job_restarts)->most == 0 || command.empty()) return {};
  const auto refuse = [&](std::string_view why, std::string fix) {
    return refused(settings, Option::job_restarts, why, std::move(fix));
  };
  if (topology.max_restarts() != 0)
    return refuse(fmt::format("max_restarts is {} ({}): each of them starts the workers again",
                              topology.max_restarts(), topology.facts[Fact::max_restarts]->source()),
                  "set --max-restarts (RANKSHIM_MAX_RESTARTS) to 0, or leave --job-restarts out");
  if (topology.is<topology::ElasticNode>())
    return refuse("an elastic job's torchrun starts its workers again itself",
                  "use --max-restarts (RANKSHIM_MAX_RESTARTS) instead");
  if (topology.is<topology::CreatedProcess>())
    return refuse(fmt::format("the platform {} has started one process per accelerator, and would have to "
                              "start them again",
                              topology.platform.name()),
                  "leave it out, or start one rankshim on each node");
  if (topology.has_other_nodes() && settings.choice<LinkChoice>(Option::link) == LinkChoice::off)
    return refuse("--link is off, and every node must know of a failure", "leave --link at auto");
  if (topology.is<topology::StaticNode>() && topology.master() == nullptr)
    return refuse("the nodes cannot be linked: nothing says where the master is",
                  "set --master-addr (RANKSHIM_MASTER_ADDR)");
  return {};
}

/// The fault if spares could not take a node's place in this job.
Faults check_spares(LaunchChoice& choice, const plan::LaunchInput& input, bool is_torchrun) {
  const auto& [topology, settings, command, host] = input;
  const std::uint64_t spares{number_of_spares(settings)};
  if (spares == 0 || command.empty()) return {};
  const auto refuse = [&](std::string_view why, std::string fix) {
    return refused(settings, Option::spares, why, std::move(fix));
  };
  const auto* const place = topology.as<topology::StaticNode>();
  const auto& nodes = topology.facts[Fact::nnodes];
  if (place == nullptr)
    return refuse((nodes ? in_words(Fact::nnodes, *nodes) + ", and " : std::string()) +
                      "only nodes that have their numbers from the beginning can have spares",
                  "leave --spares out, or set --nnodes to all nodes, with the spares, and --node-rank");
  if (settings.get<RestartLimit>(Option::job_restarts)->most == 0)
    return refuse("--job-restarts is not set, and a spare takes a node's place when all nodes start again",
                  "set --job-restarts (RANKSHIM_JOB_RESTARTS), the same on all nodes");
  if (place->nodes < spares + 2)
    return refuse(fmt::format("{}, and at least 2 nodes must train", in_words(Fact::nnodes, *nodes)),
                  "set --nnodes to all nodes that the platform gives, with the spares");
  if (!choice.launcher->launches() || is_torchrun)
    return refuse(
        "a command that starts its workers itself knows its node by the platform's number, and a "
        "spare gets another one",
        "give rankshim the script (rankshim -- train.py), or leave --spares out");
  if (settings.text(Option::job_token_file).empty())
    choice.warnings.emplace_back(
        "with --spares, nodes can join as long as the job runs, and so can strangers: set "
        "--job-token-file on all nodes");
  return {};
}

/// For a role that does not train, adds a warning, or returns a fault if the command would train
/// (`can_train`).
std::optional<Fault> check_idle_role(LaunchChoice& choice, const plan::LaunchInput& input, bool can_train) {
  const auto* idle = input.topology.as<topology::Idle>();
  if (idle == nullptr) return std::nullopt;
  const std::string what = fmt::format("this container's role on {} is '{}' ({})",
                                       input.topology.platform.name(), idle->name, idle->because);
  if (!can_train) {
    choice.warnings.push_back(what + ", which does not train; the program runs as it is");
    return std::nullopt;
  }
  return Fault{ErrorCode::role, fmt::format("{}, where {} would train alone", what, input.command[0]),
               idle->names,
               fmt::format("{}, or describe this node with --platform=generic, --nnodes, "
                           "--node-rank and --master-addr (RANKSHIM_PLATFORM, …)",
                           idle->fix.empty() ? "start it where the job's training tasks run" : idle->fix)};
}

/// What rankshim waits for before it starts this launcher: the master's name, its port, or nothing.
wait::Until until_of(const Launcher& launcher, const plan::LaunchInput& input) {
  const topology::Topology& topology = input.topology;
  const auto wanted = input.settings.choice<WaitChoice>(Option::wait);
  const bool is_auto = wanted == WaitChoice::automatic;
  const topology::Master* master = topology.master();
  if (master == nullptr || wanted == WaitChoice::none) return wait::Until::none;
  // `rankshim wait` has no command: its purpose is the master itself, not only its name.
  const bool joins = launcher.connects_at_once(input.command) || input.command.empty() ||
                     topology.is<topology::CreatedProcess>();
  const bool needs_no_wait = topology.is_alone() && (topology::is_literal(master->host) ||
                                                     topology::is_localhost_name(master->host));
  if (is_auto && (topology.platform.is_off() || needs_no_wait)) return wait::Until::none;
  const bool opens_port = topology.hosts_master().value_or(false);
  const bool to_port = wanted == WaitChoice::port || (is_auto && joins);
  return to_port && !opens_port ? wait::Until::port : wait::Until::name;
}

/// Decides whether the nodes are linked; the launcher must be known.
void choose_link(LaunchChoice& choice, const plan::LaunchInput& input) {
  const auto& [topology, settings, command, host] = input;
  const auto wanted = settings.choice<LinkChoice>(Option::link);
  if (command.empty() || wanted == LinkChoice::off) return;
  if (wanted == LinkChoice::on) {
    choice.link_demanded_by = "--link=on";
  } else if (settings.get<RestartLimit>(Option::job_restarts)->most != 0) {
    choice.link_demanded_by = "--job-restarts";
  }
  const bool is_possible = topology.is<topology::StaticNode>() && topology.master() != nullptr;
  const auto wait = settings.choice<WaitChoice>(Option::wait);
  const bool would_wait = wait == WaitChoice::automatic || wait == WaitChoice::port;
  const bool is_useful = choice.launcher->joins_nodes() && would_wait;
  choice.links = is_possible && (is_useful || !choice.link_demanded_by.empty());
  if (wanted == LinkChoice::on && !is_possible && !topology.is_alone())
    choice.warnings.emplace_back(
        "only nodes that have their numbers and a master from the beginning can be linked: this one goes on "
        "without a link");
}

/// Finds what would otherwise fail only after the wait, or in Python with a different exit code. A program
/// that waits for nothing is executed at once, and that failure has the better message.
std::string find_missing(const LaunchChoice& choice, const plan::LaunchInput& input) {
  const node::Host& host = input.host;
  if (!choice.launcher->launches() && choice.wait == wait::Until::none && !plan::is_script(input.command))
    return {};
  const std::string& program = choice.interpreter.empty() ? input.command[0] : choice.interpreter;
  // A file that exists but cannot be executed is a different case: executing it shows the reason.
  const bool is_path = program.find('/') != std::string::npos;
  if (!host.find_program(program) && !(is_path && host.file(program))) {
    if (!plan::is_script(input.command)) return settings::not_found(program);
    const auto& chosen = input.settings[Option::python];
    const std::string where = settings::where_not_found(program);
    if (chosen) return fmt::format("{}={} was not found{}", chosen->detail, chosen->text, where);
    if (where.starts_with(':')) return settings::not_found(program);
    return "neither python3 nor python is in PATH; set RANKSHIM_PYTHON (--python)";
  }
  const std::string script = choice.launcher->script(input.command);
  // A folder with a __main__.py is a script too, and a shell's <(…) can be read only once.
  if (script.empty() || script.starts_with("/dev/")) return {};
  const auto read = host.read(script);
  const auto* refusal = std::get_if<Unreadable>(&read);
  if (refusal == nullptr || host.file(script + "/__main__.py")) return {};
  std::error_code unknown;
  const std::string folder = script.starts_with('/') ? "" : std::filesystem::current_path(unknown).string();
  if (const std::string_view advice = settings::advice_on_blanks(script); !advice.empty())
    return fmt::format("the script {} cannot be read ({}){}", in_quotes(script), refusal->why(), advice);
  return fmt::format("the script {} cannot be read ({}){}{}", script, refusal->why(),
                     folder.empty() ? "" : "; the working directory is ", folder);
}

}  // namespace

unsigned number_of_spares(const settings::Settings& settings) {
  return parse_number<unsigned>(settings.text(Option::spares)).value_or(0);
}

Outcome<LaunchChoice> choose_launch(const plan::LaunchInput& input,
                                    std::shared_ptr<const TorchrunCommand> torchrun) {
  LaunchChoice choice;
  const bool can_train = torchrun != nullptr || plan::is_script(input.command);
  const bool is_torchrun = torchrun != nullptr;
  Faults faults = choose_launcher(choice, input, std::move(torchrun));
  if (auto fault = check_idle_role(choice, input, can_train)) faults.push_back(std::move(*fault));
  append(faults, choice.launcher->worker_faults(choice, input));
  append(faults, check_job_restarts(input));
  if (faults.empty()) append(faults, check_spares(choice, input, is_torchrun));
  if (!faults.empty()) return faults;
  if (plan::is_script(input.command)) choice.interpreter = plan::find_interpreter(input.settings, input.host);
  choice.wait = until_of(*choice.launcher, input);
  choice.launcher->complete(choice, input);
  if (input.command.empty()) return choice;
  choose_link(choice, input);
  choice.note = tell_unlinked(choice, input);
  choice.missing = find_missing(choice, input);
  return choice;
}

}  // namespace rankshim::launchers
