#include "launchers/launcher.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/log.h"
#include "base/text.h"
#include "launchers/program.h"
#include "launchers/torchrun/inner_torchrun.h"
#include "node/process.h"
#include "settings/not_found.h"

namespace rankshim::launchers {

std::shared_ptr<const Launcher> no_launcher() { return std::make_shared<Launcher>(); }

Faults refused(const Settings& settings, Option option, std::string_view why, std::string fix) {
  const Value& value = *settings[option];
  return {{option == Option::job_restarts ? ErrorCode::job_restarts : ErrorCode::launcher,
           fmt::format("{}={}, but {}", value.detail, value.text, why),
           {value.detail},
           std::move(fix)}};
}

Faults tee_without_files(const Settings& settings) {
  return refused(settings, Option::tee, "--log-dir is not set", "set --log-dir (RANKSHIM_LOG_DIR)");
}

SignalSet notices_to_ignore(const LaunchPlan& plan, const Settings& settings) {
  return is_shell(base_name(plan.argv.front())) ? 0 : plan::notices(settings);
}

std::string make_folder_for_logs(const std::string& folder, const std::string& pattern) {
  std::error_code error;
  const std::string made = std::filesystem::current_path(error) / folder;
  std::filesystem::create_directories(made, error);  // else torchrun would, just before its workers
  std::string own = made + pattern;
  if (!error && !pattern.empty() && mkdtemp(own.data()) == nullptr)
    error.assign(errno, std::generic_category());
  if (!error) return own;
  log::warn("cannot make the folder {} ({}) for the workers' logs; set --log-dir (RANKSHIM_LOG_DIR)", made,
            error.message());
  return {};
}

Faults Launcher::worker_faults(LaunchChoice& choice, const plan::LaunchInput& input) const {
  const auto& [topology, settings, command, node] = input;
  if (command.empty()) return {};
  if (settings[Option::log_dir] || settings.flag(Option::tee) || settings.flag(Option::prefix))
    choice.warnings.push_back(fmt::format(
        "--log-dir, --tee and --prefix are for workers that torchrun or --launcher=native starts; "
        "{} writes to stdout and stderr itself",
        command[0]));
  if (settings.text(Option::bind) != "none")
    choice.warnings.emplace_back("--bind is for workers that --launcher=native starts");
  return {};
}

std::string Launcher::script(const std::vector<std::string>& command) const {
  if (const auto python = plan::read_python(command)) return python->module ? std::string() : python->what;
  const std::string_view name = base_name(command[0]);
  const bool shell = name == "bash" || name == "sh";
  const bool path = shell && command.size() > 1 && !command[1].starts_with('-') &&
                    (command[1].find('/') != std::string::npos || command[1].ends_with(".sh"));
  return path ? command[1] : std::string();
}

std::vector<std::string> Launcher::argv(const LaunchChoice& choice, const plan::LaunchInput& input,
                                        const KnownAtStart& /*known*/) const {
  std::vector<std::string> words = input.command;
  if (!choice.interpreter.empty()) words.insert(words.begin(), {choice.interpreter, "-u"});
  return words;
}

void Launcher::change_environment(plan::EnvironmentChange& change, const LaunchChoice& /*choice*/,
                                  const plan::LaunchInput& input, const OwnFolder& folder) const {
  const Topology& topology = input.topology;
  if (topology.is_alone() && topology.platform.is_off()) change.set.clear();
  if (folder.has_site && topology.is<CreatedProcess>()) record_agent_error(change, input, folder);
  change_for_inner_torchrun(change, input, folder);
  add_site(change, input, folder);
  plan::share_cpus(change, false, input);
  share_grace(change, input);
}

std::string Launcher::error_file(const Environment& environment, const OwnFolder& folder) const {
  return folder.has_site ? agent_error_file(environment, folder) : std::string();
}

std::shared_ptr<supervise::Workers> Launcher::workers(const Attempt& attempt) const {
  return std::make_shared<Program>(size_of(attempt.topology, attempt.node),
                                   attempt.settings.flag(Option::strict));
}

std::optional<Fault> check_idle_role(LaunchChoice& choice, const plan::LaunchInput& input, bool can_train) {
  const auto* idle = input.topology.as<Idle>();
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

void choose_wait(LaunchChoice& choice, const plan::LaunchInput& input) {
  const Topology& topology = input.topology;
  const std::string_view wanted = input.settings.text(Option::wait);
  const Master* master = topology.master();
  if (master == nullptr || wanted == "none") return;
  // `rankshim wait` has no command: its purpose is the master itself, not only its name.
  const bool joins = choice.launcher->connects_at_once(input.command) || input.command.empty() ||
                     topology.is<CreatedProcess>();
  const bool needs_no_wait =
      topology.is_alone() && (is_literal(master->host) || is_localhost_name(master->host));
  if (wanted == "auto" && (topology.platform.is_off() || needs_no_wait)) return;
  const bool opens_port = topology.hosts_master().value_or(false);
  const bool to_port = wanted == "port" || (wanted == "auto" && joins);
  choice.wait = to_port && !opens_port ? wait::Until::port : wait::Until::name;
}

void choose_link(LaunchChoice& choice, const plan::LaunchInput& input) {
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
  const bool is_useful = choice.launcher->joins_nodes() && would_wait;
  choice.links = is_possible && (is_useful || !choice.link_demanded_by.empty());
  if (wanted == "on" && !is_possible && !topology.is_alone())
    choice.warnings.emplace_back(
        "only nodes that have their numbers and a master from the beginning can be linked: this one goes on "
        "without a link");
}

/// A program that waits for nothing is executed at once, and the failure of that has the better message.
std::string find_missing(const LaunchChoice& choice, const plan::LaunchInput& input,
                         const std::string& script) {
  const Node& node = input.node;
  if (!choice.launcher->launches() && choice.wait == wait::Until::none && !plan::is_script(input.command))
    return {};
  const std::string& program = choice.interpreter.empty() ? input.command[0] : choice.interpreter;
  // A file that exists and cannot be executed is a different case: executing it gives the reason.
  const bool is_path = program.find('/') != std::string::npos;
  if (!node.find_program(program) && !(is_path && node.file(program))) {
    if (!plan::is_script(input.command)) return not_found(program);
    const auto& chosen = input.settings[Option::python];
    const std::string where = where_not_found(program);
    if (chosen) return fmt::format("{}={} was not found{}", chosen->detail, chosen->text, where);
    if (where.starts_with(':')) return not_found(program);
    return "neither python3 nor python is in PATH; set RANKSHIM_PYTHON (--python)";
  }
  // A folder with a __main__.py is a script too, and a shell's <(…) can be read only once.
  if (script.empty() || script.starts_with("/dev/")) return {};
  const auto read = node.read(script);
  const auto* refusal = std::get_if<Unreadable>(&read);
  if (refusal == nullptr || node.file(script + "/__main__.py")) return {};
  std::error_code unknown;
  const std::string folder = script.starts_with('/') ? "" : std::filesystem::current_path(unknown).string();
  if (const std::string_view advice = advice_on_blanks(script); !advice.empty())
    return fmt::format("the script {} cannot be read ({}){}", in_quotes(script), refusal->why(), advice);
  return fmt::format("the script {} cannot be read ({}){}{}", script, refusal->why(),
                     folder.empty() ? "" : "; the working directory is ", folder);
}

}  // namespace rankshim::launchers
