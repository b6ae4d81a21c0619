#include "launchers/torchrun/inner_torchrun.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

#include "base/text.h"
#include "launchers/by_name/named_launcher.h"
#include "launchers/temporary_folder.h"
#include "launchers/torchrun/torchrun_launcher.h"

namespace rankshim::launchers {
namespace {

using node::Environment;
using settings::LinkChoice;
using settings::Option;

/// Names the file to which a process under torch's @record, such as the agent, writes why it failed.
constexpr std::string_view agent_error_variable = "TORCHELASTIC_ERROR_FILE";

/// Whether the command is a program on one of several nodes, so that a torchrun inside it must join the job.
bool may_start_torchrun(const plan::LaunchInput& input) {
  return input.settings.flag(Option::export_pet) && input.topology.has_other_nodes();
}

/// The command's words, and the text of the shell scripts among them.
std::string text_of(const plan::LaunchInput& input) {
  std::string text;
  for (const std::string& word : input.command) {
    text += word + ' ';
    if (word.ends_with(".sh")) text += input.host.file(word).value_or("");
  }
  return text;
}

bool starts_torchrun(std::string_view text) {
  return text.find("torchrun") != std::string_view::npos ||
         text.find("torch.distributed.run") != std::string_view::npos ||
         text.find("torch.distributed.launch") != std::string_view::npos;
}

/// Whether the command is a Python program that starts a torchrun, as far as its text shows. A shell passes
/// PYTHONPATH on by itself.
bool python_starts_torchrun(const LaunchChoice& choice, const plan::LaunchInput& input) {
  const bool is_python =
      !choice.interpreter.empty() || base_name(input.command.front()).starts_with("python");
  if (!is_python) return false;
  const auto python = plan::read_python(input.command);
  const bool has_script = python && !python->module;
  return starts_torchrun(text_of(input)) ||
         (has_script && starts_torchrun(input.host.file(python->what).value_or("")));
}

/// Whether a torchrun in the command would not load sitecustomize.py, and so needs the PET_* variables
/// themselves: there is no such file, or the words of the command or its shell script replace PYTHONPATH.
/// False for a text that says which nodes it trains with, because a `torchrun --standalone` would wait for
/// the other nodes.
bool needs_plain_variables(const plan::LaunchInput& input, bool has_site) {
  const std::string text = text_of(input);
  const auto has = [&text](std::string_view part) { return text.find(part) != std::string::npos; };
  const bool chooses = has("standalone") || has("rdzv") || has("--nnodes") || has("--master");
  return starts_torchrun(text) && !chooses && (!has_site || has("PYTHONPATH=") || has("unset PYTHONPATH"));
}

/// The variables with which a torchrun inside a program joins the job: PET_ and the flag's name
/// (torch/distributed/argparse_util.py), except those in `environment` and this node's address. Which of them
/// it needs depends on its command line (python/sitecustomize.py).
node::Variables torchrun_job(const topology::Topology& topology, const Environment& environment) {
  node::Variables job;
  const std::string conf(topology.facts.text(Fact::rdzv_conf));
  const auto hosts = topology.hosts_master();
  for (auto& [flag, value] : job_flags(topology, hosts ? with_host(conf, *hosts) : conf)) {
    std::string name = "PET_" + upper_case(flag);
    if (!value.empty() && !environment.get(name)) job.emplace_back(std::move(name), std::move(value));
  }
  return job;
}

/// Whether a script on a lone node gets the free port as PORT: its text reads PORT and uses torch's launcher
/// (OpenMMLab's tools/dist_train.sh). Other programs read PORT as their web server's port.
bool needs_port(const plan::LaunchInput& input) {
  const topology::Topology& topology = input.topology;
  if (!topology.is_alone() || topology.platform.is_off() || topology.is<topology::Idle>()) return false;
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

void set_unless_given(plan::EnvironmentChange& change, const plan::LaunchInput& input, std::string_view name,
                      std::string_view value) {
  if (!input.host.environment().get(name)) change.set.emplace_back(name, value);
}

}  // namespace

std::string tell_unlinked(const LaunchChoice& choice, const plan::LaunchInput& input) {
  const auto& [topology, settings, command, host] = input;
  const bool is_off = settings.choice<LinkChoice>(Option::link) == LinkChoice::off;
  const bool could_be = topology.is<topology::StaticNode>() && topology.master() != nullptr && !is_off &&
                        !choice.launcher->launches() && may_start_torchrun(input);
  if (choice.links || !could_be || !starts_torchrun(text_of(input))) return {};
  return fmt::format(
      "the nodes are not linked, because {} starts torchrun and not rankshim: a failure on one node does "
      "not end the others; --link on (RANKSHIM_LINK) links them",
      base_name(command[0]));
}

std::optional<PythonSite> plan_site(const LaunchChoice& choice, const plan::LaunchInput& input,
                                    const std::optional<std::string>& master_address) {
  const topology::Topology& topology = input.topology;
  if (input.command.empty()) return std::nullopt;
  const bool records = input.settings.flag(Option::record);
  const bool launches = choice.launcher->launches();
  const bool is_wrapped = choice.launcher->is_wrapped();
  const bool joins = !launches && may_start_torchrun(input);
  const auto runs_python = [&] {
    return !topology.is<topology::Idle>() &&
           (!choice.interpreter.empty() || base_name(input.command.front()).starts_with("python") ||
            starts_torchrun(text_of(input)) || starts_named_launcher(input));
  };
  if (!joins && !is_wrapped && !(records && (launches || runs_python()))) return std::nullopt;
  const Environment& environment = input.host.environment();
  const auto path = environment.get("PYTHONPATH");
  // A folder with a colon would become two entries of PYTHONPATH, and a variable above the kernel's limit
  // would prevent the command from being executed (execve(2), MAX_ARG_STRLEN).
  constexpr std::size_t longest_path = std::size_t{120} << 10U;
  const bool two_folders =
      temporary_folder_template(*choice.launcher, input.host).find(':') != std::string::npos;
  if (two_folders || (path && path->size() > longest_path)) return std::nullopt;
  // Before the job is ended for a hang, because the exception is the real reason.
  constexpr double part_of_timeout = 0.75;
  const std::chrono::duration<double> hang_timeout = *input.settings.time(Option::hang_timeout);
  PythonSite site{.had_path = path.has_value(),
                  .job = {},
                  .master = {},
                  .records = records,
                  .ignored = plan::notices(input.settings),
                  .exit_after = part_of_timeout * hang_timeout.count()};
  // The command line of a wrapped torchrun has everything but the log folder, and a lone torchrun needs none
  // of the job's variables.
  const bool may_start = python_starts_torchrun(choice, input) || starts_named_launcher(input);
  if (is_wrapped || (!launches && may_start)) site.job.emplace();
  if (joins) {
    site.job = torchrun_job(topology, environment);
    const std::string_view master = topology.facts.text(Fact::master_addr);
    site.master = without_brackets(master_address ? std::string_view(*master_address) : master);
    if (!topology::is_literal(site.master)) site.master.clear();
    if (!environment.get("PET_LOCAL_ADDR")) site.job->emplace_back("PET_LOCAL_ADDR", "");
  }
  return site;
}

void change_for_inner_torchrun(plan::EnvironmentChange& change, const plan::LaunchInput& input,
                               const OwnFolder& folder) {
  if (needs_port(input))
    set_unless_given(change, input, "PORT", input.topology.facts.text(Fact::master_port));
  if (!may_start_torchrun(input) || !needs_plain_variables(input, folder.has_site)) return;
  for (auto& [name, value] : torchrun_job(input.topology, change.apply(input.host.environment())))
    change.set.emplace_back(name, value);
}

bool starts_named_launcher(const plan::LaunchInput& input) { return starts_named_launcher(text_of(input)); }

void record_agent_error(plan::EnvironmentChange& change, const plan::LaunchInput& input,
                        const OwnFolder& folder) {
  set_unless_given(change, input, agent_error_variable, folder.error_file());
}

std::string agent_error_file(const Environment& environment, const OwnFolder& folder) {
  const std::string path(environment.get(agent_error_variable).value_or(""));
  return path.empty() && folder.has_site ? folder.error_file() : path;
}

void add_site(plan::EnvironmentChange& change, const plan::LaunchInput& input, const OwnFolder& folder) {
  if (!folder.has_site) return;
  const auto path = input.host.environment().get("PYTHONPATH");
  change.set.emplace_back("PYTHONPATH", folder.path + (path ? ":" + std::string(*path) : ""));
}

void share_grace(plan::EnvironmentChange& change, const plan::LaunchInput& input) {
  if (const auto grace = input.settings.time(Option::grace))
    set_unless_given(change, input, "TORCH_ELASTIC_SHUTDOWN_TIMEOUT",
                     std::to_string(std::max<std::int64_t>(1, (grace->count() + 999) / 1000)));
}

void show_stacks(plan::EnvironmentChange& change, const plan::LaunchInput& input) {
  constexpr std::string_view handler = "PYTHONFAULTHANDLER";
  if (input.settings.flag(Option::stacks) && !input.host.environment().has(handler))
    set_unless_given(change, input, handler, "1");
}

}  // namespace rankshim::launchers
