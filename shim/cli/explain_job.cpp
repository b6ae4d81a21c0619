#include <unistd.h>

#include <array>
#include <optional>
#include <string>
#include <variant>

#include "base/exit_code.h"
#include "base/log.h"
#include "base/read_file.h"
#include "cli/explain.h"
#include "cli/print.h"
#include "cli/subcommands.h"
#include "pod/env_file.h"
#include "pod/recorded_node.h"
#include "report/redact.h"
#include "run/plan.h"
#include "run/resolve.h"

namespace rankshim::cli {
namespace {

/// The content of stdin, read as read_file() reads a file; nothing if it cannot be read.
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

int explain_here(const Invocation& invocation, const Node& node) {
  const bool json = invocation.settings.text(Option::format) == "json";
  auto resolved = resolve_job(invocation.settings, invocation.arguments, node);
  if (const auto* faults = std::get_if<Faults>(&resolved)) {
    report(*faults, json);
    return exit_code::configuration;
  }
  Job& job = std::get<Job>(resolved);
  LaunchPlan plan =
      plan_shown_launch(job.choice, {job.topology, invocation.settings, invocation.arguments, node});
  Environment known = plan.environment.apply(node.environment());
  for (const WorkerPlan& worker : plan.workers)
    for (const auto& [name, value] : worker.environment) known.set(name, value);
  Redactor redactor(known, invocation.settings.text(Option::redact));
  explain::redact(job, plan, redactor);
  if (json) {
    print(explain::as_json(job, plan, invocation.settings));
    return exit_code::ok;
  }
  print(explain::as_text(job, plan, invocation.settings));
  for (const std::string& warning : job.topology.warnings) log::warn("{}", warning);
  for (const std::string& warning : job.choice.warnings) log::warn("{}", warning);
  if (!job.choice.missing.empty()) log::warn("{}", job.choice.missing);
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
  return explain_here(std::get<Invocation>(read), node);
}

}  // namespace

int explain_job(const std::vector<std::string>& arguments, const Invocation& invocation, const Node& node) {
  return invocation.settings[Option::env_file] ? explain_recorded(arguments, invocation.settings, node)
                                               : explain_here(invocation, node);
}

}  // namespace rankshim::cli
