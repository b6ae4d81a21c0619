#include "cli/subcommands.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <variant>

#include "base/fault.h"
#include "base/files.h"
#include "base/json.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/doctor.h"
#include "cli/explain.h"
#include "launchers/by_name/named_launcher.h"
#include "plan/environment_change.h"
#include "platform/profiles.h"
#include "report/redact.h"
#include "run/plan.h"
#include "run/status.h"

namespace rankshim::cli {
namespace {

/// Returns 0 or an errno.
int print_to(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(descriptor, text.data(), text.size());
    pollfd ready{descriptor, POLLOUT, 0};
    if (written < 0 && errno != EINTR && (errno != EAGAIN || poll(&ready, 1, -1) < 0)) return errno;
    if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

/// The job as far as it can be resolved, for the checks of `rankshim doctor`.
doctor::JobNeeds resolve_for_doctor(const Invocation& invocation, const Node& node) {
  using doctor::Severity;
  constexpr std::string_view subject = "job";
  doctor::JobNeeds found;
  const auto add = [&](Severity severity, std::string text) {
    found.findings.push_back({severity, std::string(subject), std::move(text)});
  };
  const auto resolved = resolve_job(invocation.settings, invocation.arguments, node);
  if (const auto* faults = std::get_if<Faults>(&resolved)) {
    for (const Fault& fault : *faults) add(Severity::problem, to_line(fault));
    return found;
  }
  const auto& [topology, choice] = std::get<Job>(resolved);
  const Master* master = topology.master();
  add(Severity::ok, topology.is_alone() ? fmt::format("this node is the only one ({})", topology.platform)
                                        : fmt::format("node {} of {} nodes on {}, master {}",
                                                      topology.facts.has(Fact::node_rank)
                                                          ? topology.facts.text(Fact::node_rank)
                                                          : "(ranked by torch)",
                                                      topology.facts.text(Fact::nnodes), topology.platform,
                                                      master == nullptr ? "unknown" : master->host));
  for (const auto* warnings : {&topology.warnings, &choice.warnings})
    for (const std::string& warning : *warnings) add(Severity::warning, warning);
  if (!choice.missing.empty()) add(Severity::problem, choice.missing);
  found.workers = std::max(1U, topology.workers());
  found.several_nodes = !topology.is_alone();
  if (master != nullptr && !topology.hosts_master().value_or(false) && !is_literal(master->host))
    found.master = master->host;
  found.needs_torch = invocation.arguments.empty() || !choice.python.empty();
  return found;
}

}  // namespace

int print(std::string_view text) {
  const int error = print_to(STDOUT_FILENO, text);
  if (error == 0) return exit_code::ok;
  log::error("stdout cannot be written: {}{}", std::strerror(error), reference(Anchor::not_written));
  return exit_code::system;
}

void print_error(std::string_view text) { print_to(STDERR_FILENO, text); }

int report(const Faults& faults, bool json) {
  for (const Fault& fault : faults) log::error("{}", to_line(fault));
  if (json) static_cast<void>(print(explain::as_json(faults)));  // the code is no success either
  return exit_code::configuration;
}

std::string licenses() {
  constexpr EmbeddedFile files[] = {
#include "licenses.inc"
  };
  std::string text;
  for (const EmbeddedFile& file : files) text.append(file.text) += '\n';
  return text;
}

int explain_job(const Invocation& invocation, const Node& node) {
  const bool json = invocation.settings.text(Option::format) == "json";
  auto resolved = resolve_job(invocation.settings, invocation.arguments, node);
  if (const auto* faults = std::get_if<Faults>(&resolved)) return report(*faults, json);
  Job& job = std::get<Job>(resolved);
  LaunchPlan plan =
      plan_shown_launch(job.choice, {job.topology, invocation.settings, invocation.arguments, node});
  Environment known = plan.environment.apply(node.environment());
  for (const WorkerPlan& worker : plan.workers)
    for (const auto& [name, value] : worker.environment) known.set(name, value);
  Redactor redactor(known);
  explain::redact(job, plan, redactor);
  if (json) return print(explain::as_json(job, plan, invocation.settings));
  const int code = print(explain::as_text(job, plan, invocation.settings));
  for (const std::string& warning : job.topology.warnings) log::warn("{}", warning);
  for (const std::string& warning : job.choice.warnings) log::warn("{}", warning);
  if (!job.choice.missing.empty()) log::warn("{}", job.choice.missing);
  return code;
}

int print_environment(const Invocation& invocation, const Node& node) {
  const auto resolved = resolve_job(invocation.settings, {}, node);
  const std::string_view format = invocation.settings.text(Option::format);
  if (const auto* faults = std::get_if<Faults>(&resolved)) {
    const int code = report(*faults, format == "json");
    // eval "$(…)" ignores the exit code, so the failure has to be in the text that the shell reads.
    return format == "sh" && print(fmt::format("exit {}\n", code)) != exit_code::ok ? exit_code::system
                                                                                    : code;
  }
  const Topology& topology = std::get<Job>(resolved).topology;
  for (const std::string& warning : topology.warnings) log::warn("{}", warning);
  const auto& pet = invocation.settings[Option::export_pet];
  const bool with_pet = pet->from_user() && invocation.settings.flag(Option::export_pet);
  return print(explain::environment(environment_change(topology, node, with_pet), format));
}

int print_platforms(const Invocation& invocation, const Node& node) {
  const auto& arguments = invocation.arguments;
  if (!arguments.empty() && arguments[0] == "check") {
    const std::string& path = arguments[1];
    const bool of_launcher = path.ends_with(platform::launcher_extension);
    Faults faults;
    if (of_launcher)
      by_name::read_launcher_file(path, node, faults);
    else
      faults = platform::check_profile(path, node);
    if (!faults.empty()) return report(faults);
    return print(fmt::format("{} is {}\n", path, of_launcher ? "a launcher's file" : "a profile"));
  }
  const auto read = platform::read_profiles(invocation.settings.text(Option::profile), node);
  if (const auto* faults = std::get_if<Faults>(&read)) return report(*faults);
  const auto& set = std::get<platform::ProfileSet>(read);
  if (arguments.empty()) return print(explain::profile_list(set.profiles()));
  const std::string document = set.document(arguments[0]);
  if (document.empty()) {
    std::vector<std::string_view> known;
    for (const auto& profile : set.profiles()) known.push_back(profile.name);
    log::error("no profile is named {}{}; rankshim platforms lists them{}", in_quotes(arguments[0]),
               and_nearest(nearest(arguments[0], known)), reference(Anchor::unknown_platform));
    return exit_code::usage;
  }
  return print(explain::profile_text(document));
}

int print_status(const Settings& settings, const Node& node) {
  const std::string answer =
      status::ask(status::socket_folders(settings.text(Option::run_dir), node.environment()));
  if (answer.empty())
    log::error(
        "no rankshim of this container or job answers; check that one is running, and that it has the same "
        "--run-dir");
  else if (const int code =
               print(settings.text(Option::format) == "json" ? answer + "\n" : json::as_lines(answer));
           code != exit_code::ok)
    return code;
  return status::is_well(answer) ? exit_code::ok : exit_code::not_well;
}

int run_doctor(const Invocation& invocation, const Node& node) {
  const doctor::JobNeeds job = resolve_for_doctor(invocation, node);
  auto findings = doctor::diagnose(job, node, doctor::look_around(node, invocation.settings, job.master));
  Redactor redactor(node.environment());
  for (doctor::Finding& finding : findings) finding.text = redactor.whole(finding.text);
  const bool json = invocation.settings.text(Option::format) == "json";
  if (const int code = print(json ? doctor::as_json(findings) : doctor::as_text(findings));
      code != exit_code::ok)
    return code;
  return std::ranges::any_of(
             findings, [](const auto& finding) { return finding.severity == doctor::Severity::problem; })
             ? exit_code::configuration
             : exit_code::ok;
}

}  // namespace rankshim::cli
