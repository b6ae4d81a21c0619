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

namespace rankshim::launchers {

using settings::Option;
using settings::Settings;

std::shared_ptr<const Launcher> no_launcher() { return std::make_shared<Launcher>(); }

Faults refused(const Settings& settings, Option option, std::string_view why, std::string fix) {
  const Value& value = *settings[option];
  return {{option == Option::job_restarts || option == Option::spares ? ErrorCode::job_restarts
                                                                      : ErrorCode::launcher,
           fmt::format("{}={}, but {}", value.detail, value.text, why),
           {value.detail},
           std::move(fix)}};
}

Faults tee_without_files(const Settings& settings) {
  return refused(settings, Option::tee, "--log-dir is not set", "set --log-dir (RANKSHIM_LOG_DIR)");
}

SignalSet notices_to_ignore(const LaunchPlan& plan, const Settings& settings) {
  return node::is_shell(base_name(plan.argv.front())) ? 0 : plan::notices(settings);
}

std::string make_folder_for_logs(const std::string& folder, const std::string& pattern) {
  std::error_code error;
  const std::string made = std::filesystem::current_path(error) / folder;
  std::filesystem::create_directories(made, error);  // torchrun would only do so just before its workers
  std::string own = made + pattern;
  if (!error && !pattern.empty() && mkdtemp(own.data()) == nullptr)
    error.assign(errno, std::generic_category());
  if (!error) return own;
  log::warn("cannot make the folder {} ({}) for the workers' logs; set --log-dir (RANKSHIM_LOG_DIR)", made,
            error.message());
  return {};
}

Faults Launcher::worker_faults(LaunchChoice& choice, const plan::LaunchInput& input) const {
  const auto& [topology, settings, command, host] = input;
  if (command.empty()) return {};
  if (settings[Option::log_dir] || settings.flag(Option::tee) || settings.flag(Option::prefix))
    choice.warnings.push_back(fmt::format(
        "--log-dir, --tee and --prefix are for workers that torchrun or --launcher=native starts; "
        "{} writes to stdout and stderr itself",
        command[0]));
  if (settings.choice<settings::BindChoice>(Option::bind) != settings::BindChoice::none)
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
  const topology::Topology& topology = input.topology;
  if (topology.is_alone() && topology.platform.is_off()) change.set.clear();
  const auto is_named = [&] { return described_by().empty() && starts_named_launcher(input); };
  if (folder.has_site && (topology.is<topology::CreatedProcess>() || is_named()))
    record_agent_error(change, input, folder);
  change_for_inner_torchrun(change, input, folder);
  add_site(change, input, folder);
  plan::share_cpus(change, false, input);
  share_grace(change, input);
}

std::string Launcher::error_file(const node::Environment& environment, const OwnFolder& folder) const {
  return folder.has_site ? agent_error_file(environment, folder) : std::string();
}

std::shared_ptr<supervise::Workers> Launcher::workers(const WorkersInput& input) const {
  return std::make_shared<Program>(size_of(input.topology, input.host), input.settings.flag(Option::strict),
                                   input.answers);
}

}  // namespace rankshim::launchers
