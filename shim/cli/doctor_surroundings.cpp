#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>

#include "base/text.h"
#include "cli/doctor.h"
#include "cli/subcommands.h"
#include "node/process.h"
#include "run/plan.h"

namespace rankshim::doctor {
namespace {

constexpr std::chrono::seconds look_up_time{5};

/// Finds torch without importing it, which would take a second or more. Prints one line for each of: Python's
/// version, whether torch was found, torch's version, and whether it was built for accelerators
/// (torch/version.py names which).
constexpr const char* probe = R"(
import importlib.util, os, sys
print(sys.version.split()[0])
found = importlib.util.find_spec("torch")
print(found is not None)
version = {}
try:
    exec(open(os.path.join(os.path.dirname(found.origin), "version.py")).read(), version)
except Exception:
    pass
print(version.get("__version__", ""))
print(any(version.get(name) for name in ("cuda", "hip", "xpu")))
)";

/// The output of `python -c probe`; empty if it cannot be run or fails.
std::string run_probe(const std::string& program) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return {};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::string name = program;
  std::string option = "-c";
  std::string text = probe;
  std::array<char*, 4> arguments = {name.data(), option.data(), text.data(), nullptr};
  pid_t child = 0;
  const int error = posix_spawn(&child, program.c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  std::string printed;
  if (error == 0) {
    std::array<char, 512> chunk{};
    ssize_t got = 0;
    while ((got = read(ends[0], chunk.data(), chunk.size())) > 0 || (got < 0 && errno == EINTR))
      printed.append(chunk.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) printed.clear();
  }
  close(ends[0]);
  return printed;
}

Python ask_python(const Node& node, const Settings& settings) {
  Python python;
  const auto program = node.find_program(find_interpreter(settings, node));
  if (!program) return python;
  python.program = *program;
  const std::string printed = run_probe(*program);
  std::string_view rest = printed;
  python.version = take_line(rest);
  python.has_torch = take_line(rest) == "True";
  python.torch = take_line(rest);
  python.for_accelerators = take_line(rest) == "True";
  return python;
}

/// Adds the job, as far as it can be resolved.
void resolve(Surroundings& surroundings, const Invocation& invocation, const Node& node) {
  const auto add = [&](Severity severity, std::string text) {
    surroundings.job.push_back({severity, "job", std::move(text)});
  };
  const auto resolved = resolve_job(invocation.settings, invocation.arguments, node);
  if (const auto* faults = std::get_if<Faults>(&resolved)) {
    for (const Fault& fault : *faults) add(Severity::problem, to_line(fault));
    return;
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
  surroundings.workers = std::max(1U, topology.workers());
  surroundings.several_nodes = !topology.is_alone();
  if (master != nullptr && !topology.hosts_master().value_or(false) && !is_literal(master->host))
    surroundings.master = master->host;
  surroundings.needs_torch = invocation.arguments.empty() || !choice.python.empty();
}

/// Collects everything. Each look-up takes at most 5 s.
Surroundings look_around(const Invocation& invocation, const Node& node) {
  Surroundings surroundings;
  resolve(surroundings, invocation, node);
  struct statvfs shm{};
  if (statvfs("/dev/shm", &shm) == 0 && shm.f_blocks != 0)
    surroundings.shm = static_cast<std::uint64_t>(shm.f_blocks) * shm.f_frsize;
  surroundings.temporary = node.environment().get("TMPDIR").value_or("/tmp");
  surroundings.temporary_is_writable = access(surroundings.temporary.c_str(), W_OK | X_OK) == 0;
  surroundings.own_name = wait::look_up(node.host_name(), look_up_time);
  if (!surroundings.master.empty())
    surroundings.masters_name = wait::look_up(surroundings.master, look_up_time);
  struct timex clock{};
  const int state = adjtimex(&clock);  // modes 0: it only reads
  surroundings.clock_is_synchronised = state < 0 || (clock.status & STA_UNSYNC) == 0;
  surroundings.now = time(nullptr);
  surroundings.python = ask_python(node, invocation.settings);
  surroundings.holders = holders_of_accelerators(false);
  return surroundings;
}

}  // namespace
}  // namespace rankshim::doctor

int rankshim::cli::run_doctor(const Invocation& invocation, const Node& node) {
  auto findings = doctor::diagnose(doctor::look_around(invocation, node), node);
  Redactor redactor(node.environment());
  for (doctor::Finding& finding : findings) finding.text = redactor.whole(finding.text);
  const bool json = invocation.settings.text(Option::format) == "json";
  if (print(json ? doctor::as_json(findings) : doctor::as_text(findings)) != exit_code::ok)
    return exit_code::system;
  const bool is_well =
      std::ranges::find(findings, doctor::Severity::problem, &doctor::Finding::severity) == findings.end();
  return is_well ? exit_code::ok : exit_code::configuration;
}
