#include <unistd.h>

#include <array>
#include <boost/system/system_error.hpp>
#include <optional>
#include <string>
#include <system_error>
#include <variant>
#include <vector>

#include "base/exit_code.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/read_file.h"
#include "cli/explain.h"
#include "cli/install.h"
#include "cli/licenses.h"
#include "init/kernel.h"
#include "init/last_resort.h"
#include "init/signals.h"
#include "init/stack.h"
#include "launch/launch.h"
#include "node/node.h"
#include "platform/user_profiles.h"
#include "pod/env_file.h"
#include "pod/recorded_node.h"
#include "run/conclude.h"
#include "run/plan.h"
#include "run/resolve.h"
#include "run/run_job.h"
#include "run/status.h"
#include "settings/settings.h"

namespace rankshim {
namespace {

/// Writes all of `text`; what cannot be written is lost (nobody is left to read it).
void print(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(descriptor, text.data(), text.size());
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

void print(std::string_view text) { print(STDOUT_FILENO, text); }

/// What stdin has, as read_file() reads a file; nothing where it cannot be read.
std::optional<std::string> read_stdin() {
  std::string content;
  std::array<char, 4096> chunk{};
  while (content.size() <= largest_file) {
    const ssize_t got = read(STDIN_FILENO, chunk.data(), chunk.size());
    if (got < 0) return std::nullopt;
    if (got == 0) break;
    content.append(chunk.data(), static_cast<std::size_t>(got));
  }
  return content;
}

void set_log(const Settings& settings) {
  log::set_json(settings.text(Option::log_format) == "json");
  const std::string_view level = settings.text(Option::log_level);
  log::set_level(level == "debug"   ? log::Level::debug
                 : level == "warn"  ? log::Level::warn
                 : level == "error" ? log::Level::error
                                    : log::Level::info);
}

/// One line per fault on stderr; what a program reads of it on stdout.
void report(const Faults& faults, bool json) {
  for (const Fault& fault : faults) log::error("{}", to_line(fault));
  if (json) print(explain::as_json(faults));
}

int explain_job(const Invocation& invocation, const Node& node) {
  const bool json = invocation.settings.text(Option::format) == "json";
  auto resolved = resolve_job(invocation.settings, invocation.arguments, node);
  if (const auto* faults = std::get_if<Faults>(&resolved)) {
    report(*faults, json);
    return exit_code::configuration;
  }
  Job& job = std::get<Job>(resolved);
  write_shown_command(job.plan, {job.topology, invocation.settings, invocation.arguments, node});
  Redactor redactor(node.environment(), invocation.settings.text(Option::redact));
  explain::redact(job.topology, job.plan, redactor);
  if (json) {
    print(explain::as_json(job.topology, job.plan, invocation.settings));
    return exit_code::ok;
  }
  print(explain::as_text(job.topology, job.plan, invocation.settings));
  for (const std::string& warning : job.topology.warnings) log::warn("{}", warning);
  for (const std::string& warning : job.plan.warnings) log::warn("{}", warning);
  if (!job.plan.missing.empty()) log::warn("{}", job.plan.missing);
  return exit_code::ok;
}

/// explain --env-file: the same for a node that is only described.
int explain_recorded(const std::vector<std::string>& arguments, const Settings& settings, const Node& here) {
  const std::string path(settings.text(Option::env_file));
  const auto text = path == "-" ? read_stdin() : here.file(path);
  if (!text) {
    report({{path + " cannot be read", {path}, "correct --env-file"}},
           settings.text(Option::format) == "json");
    return exit_code::configuration;
  }
  if (text->size() > largest_file) {
    report({{path + " is larger than 1 MiB", {path}, "leave out what is not this Pod"}},
           settings.text(Option::format) == "json");
    return exit_code::configuration;
  }
  auto recorded = read_env_file(path, *text, settings.text(Option::container));
  if (const auto* faults = std::get_if<Faults>(&recorded)) {
    report(*faults, settings.text(Option::format) == "json");
    return exit_code::configuration;
  }
  const RecordedNode node(std::move(std::get<Recorded>(recorded)), arguments, here);
  for (const std::string& note : node.notes()) log::warn("{}: {}", path, note);
  const auto read = read_settings(arguments, node);
  if (const auto* rejected = std::get_if<Rejected>(&read)) {
    report(rejected->faults, rejected->invocation.settings.text(Option::format) == "json");
    return rejected->exit_code;
  }
  return explain_job(std::get<Invocation>(read), node);
}

/// eval "$(…)" swallows our exit code, so the failure has to be in what the shell reads.
int fail_in_shell(const Settings& settings, int code) {
  if (settings.text(Option::format) == "sh") print(fmt::format("exit {}\n", code));
  return code;
}

int print_environment(const Invocation& invocation, const Node& node) {
  const auto resolved = resolve_job(invocation.settings, {}, node);
  const std::string_view format = invocation.settings.text(Option::format);
  if (const auto* faults = std::get_if<Faults>(&resolved)) {
    report(*faults, format == "json");
    return fail_in_shell(invocation.settings, exit_code::configuration);
  }
  const Topology& topology = std::get<Job>(resolved).topology;
  for (const std::string& warning : topology.warnings) log::warn("{}", warning);
  const auto& pet = invocation.settings[Option::export_pet];
  const bool with_pet = pet->from_user() && pet->text == "true";
  print(explain::environment(environment_change(topology, node, with_pet), format));
  return exit_code::ok;
}

int print_platforms(const Invocation& invocation, const Node& node) {
  const auto& arguments = invocation.arguments;
  if (!arguments.empty() && arguments[0] == "check") {
    const Faults faults = platform::check_profile(arguments[1], node);
    report(faults, false);
    if (!faults.empty()) return exit_code::configuration;
    print(fmt::format("{} is a profile\n", arguments[1]));
    return exit_code::ok;
  }
  const auto read = platform::read_profiles(invocation.settings.text(Option::profile), node);
  if (const auto* faults = std::get_if<Faults>(&read)) {
    report(*faults, false);
    return exit_code::configuration;
  }
  const auto& set = std::get<platform::ProfileSet>(read);
  if (arguments.empty()) {
    print(explain::profile_list(set.profiles()));
    return exit_code::ok;
  }
  const std::string document = set.document(arguments[0]);
  if (document.empty()) {
    log::error("no profile is named {}; rankshim platforms lists them", arguments[0]);
    return exit_code::usage;
  }
  print(document);
  return exit_code::ok;
}

/// Fails where no instance answers, where it has failed, and where it is not in the phase that is asked for.
int print_status(const Settings& settings, const Node& node) {
  const std::string answer =
      status::ask(status::socket_folders(settings.text(Option::run_dir), node.environment()));
  if (answer.empty())
    log::error("no rankshim of this container answers; is one running, with this --run-dir?");
  else
    print(answer + "\n");
  return status::is_well(answer, settings.text(Option::phase)) ? exit_code::ok : exit_code::not_well;
}

int install_binary(const std::string& folder) {
  const std::string what = install(folder);
  if (what.empty()) return exit_code::ok;
  log::error("{}", what);
  return exit_code::system;
}

bool runs_job(Subcommand subcommand) {
  return subcommand == Subcommand::run || subcommand == Subcommand::wait;
}

int main(int argc, char** argv) {
  const RealNode node(Environment::from(environ));
  const std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
  auto read = read_settings(arguments, node);
  if (auto* rejected = std::get_if<Rejected>(&read)) {
    const Invocation& understood = rejected->invocation;
    Redactor redactor(node.environment(), understood.settings.text(Option::redact));
    rejected->faults = redacted(std::move(rejected->faults), redactor);
    set_log(understood.settings);
    if (arguments.empty() && rejected->exit_code == exit_code::usage &&
        understood.settings.text(Option::log_format) != "json") {
      print(STDERR_FILENO, short_help());
    } else {
      report(rejected->faults, understood.settings.text(Option::format) == "json");
    }
    if (understood.subcommand == Subcommand::env) print(fmt::format("exit {}\n", rejected->exit_code));
    return runs_job(understood.subcommand) ? conclude_rejected(*rejected, node) : rejected->exit_code;
  }
  const Invocation& invocation = std::get<Invocation>(read);
  set_log(invocation.settings);
  // Before anything was read all signals were blocked, for those who supervise.
  if (!runs_job(invocation.subcommand))
    supervise::kernel::set_signal_mask(supervise::inherited_mask(), nullptr);
  switch (invocation.subcommand) {
    case Subcommand::run:
    case Subcommand::wait:
      return run_job(invocation, node);
    case Subcommand::explain:
      return invocation.settings[Option::env_file] ? explain_recorded(arguments, invocation.settings, node)
                                                   : explain_job(invocation, node);
    case Subcommand::env:
      return print_environment(invocation, node);
    case Subcommand::platforms:
      return print_platforms(invocation, node);
    case Subcommand::install:
      return install_binary(invocation.arguments.front());
    case Subcommand::status:
      return print_status(invocation.settings, node);
    case Subcommand::help:
      print(help_text());
      return exit_code::ok;
    case Subcommand::version:
      print("rankshim " RANKSHIM_VERSION "\n");
      return exit_code::ok;
    case Subcommand::licenses:
      print(licenses());
      return exit_code::ok;
  }
  return exit_code::usage;
}

int refused(const std::string& why) {
  log::error("the system refused what watching over a process needs: {}", why);
  return exit_code::system;
}

}  // namespace
}  // namespace rankshim

int main(int argc, char** argv) {
  if (rankshim::supervise::stack_left() < rankshim::supervise::least_stack) {
    rankshim::print(STDERR_FILENO,
                    "rankshim: error: the stack may not grow by 64 KiB: raise its limit (ulimit -s)\n");
    return rankshim::exit_code::system;
  }
  rankshim::supervise::last_resort::arm();
  try {
    return rankshim::main(argc, argv);
  } catch (const boost::system::system_error& error) {  // a loop that cannot be made; nothing runs yet
    return rankshim::refused(error.code().message());
  } catch (const std::system_error& error) {
    return rankshim::refused(error.code().message());
  }
}
