#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>

#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/subcommands.h"
#include "node/cgroup.h"
#include "node/process.h"
#include "run/plan.h"
#include "settings/not_found.h"

namespace rankshim::cli::doctor {
namespace {

using node::Host;
using settings::Invocation;
using settings::Option;

constexpr std::uint64_t mebibyte = std::uint64_t{1} << 20U;
/// The memory of a process that has imported torch (2.13, CPU): about 250 MB, rounded up.
constexpr std::uint64_t torch_memory = 300 * mebibyte;
/// The default size of /dev/shm in Docker and Kubernetes.
constexpr std::uint64_t default_shm = 64 * mebibyte;
/// 2026-01-01, before which this program did not exist.
constexpr std::int64_t earliest_date = 1767225600;

using enum Severity;
using Accelerators = std::optional<node::DeviceCount>;

/// A soft limit from proc_pid_limits(5); nullopt if it is unlimited or unknown.
std::optional<std::uint64_t> soft_limit(const Host& host, std::string_view name) {
  return first_number<std::uint64_t>(trimmed(text_after(host.file("/proc/self/limits").value_or(""), name)));
}

std::string_view word(Severity severity) {
  switch (severity) {
    case ok:
      return "ok";
    case warning:
      return "warning";
    case problem:
      return "problem";
  }
  return "";
}

/// What a check has found.
struct State {
  Severity severity;
  std::string text;
};

State check_shm(const ContainerState& container, const Accelerators& devices) {
  constexpr std::string_view fix =
      "mount an emptyDir of medium Memory there (Kubernetes), or start with --shm-size=8g (docker, podman)";
  if (!container.shm)
    return {problem, fmt::format("is not mounted: DataLoader workers and NCCL need it; {}", fix)};
  const std::string size = fmt::format("has {} in total", node::mebibytes(*container.shm));
  if (*container.shm > default_shm) return {ok, size};
  const bool collective = container.workers > 1 && devices.has_value();
  return {collective ? problem : warning,
          fmt::format("{}: {}; {}", size,
                      collective ? "too small for NCCL between this node's accelerators"
                                 : "DataLoader workers end with a bus error when it is full",
                      fix)};
}

State check_locked_memory(const Host& host) {
  const auto limit = soft_limit(host, "Max locked memory");
  const std::string shown = limit ? "limited to " + node::mebibytes(*limit) : "unlimited";
  bool has_rdma = false;
  host.each_name("/sys/class/infiniband", [&](std::string_view) { has_rdma = true; });
  if (!has_rdma) return {ok, fmt::format("is {}; there is no RDMA device that would need it", shown)};
  if (!limit) return {ok, "is unlimited, as the RDMA devices here need it"};
  return {
      problem,
      fmt::format("is {}, and RDMA needs it unlimited: add the capability IPC_LOCK (Kubernetes), or start "
                  "with --ulimit memlock=-1",
                  shown)};
}

State check_open_files(const Host& host) {
  constexpr std::uint64_t few = 4096;
  const auto limit = soft_limit(host, "Max open files");
  if (!limit) return {ok, "are unlimited"};
  const std::string shown = fmt::format("are limited to {} for a process", *limit);
  if (*limit >= few) return {ok, shown};
  return {warning,
          shown +
              ": DataLoader workers may end with \"Too many open files\"; raise the limit with ulimit -n "
              "65536 or --ulimit nofile=65536"};
}

State check_processes(const Host& host, unsigned workers) {
  const auto number_in = [&](const std::string& path) {
    return first_number<std::uint64_t>(host.file(path).value_or(""));
  };
  for (const std::string folder : {"/sys/fs/cgroup/", "/sys/fs/cgroup/pids/"}) {
    const auto limit = number_in(folder + "pids.max");
    if (!limit) continue;
    const std::uint64_t used = number_in(folder + "pids.current").value_or(0);
    const std::uint64_t left = *limit > used ? *limit - used : 0;
    const std::string shown = fmt::format("and threads: {} of {} are left (pids.max)", left, *limit);
    // In each worker, torch starts one or more threads per CPU, and more for its communication.
    if (left >= std::uint64_t{64} * (workers + 1)) return {ok, shown};
    return {problem, fmt::format("{}, too few for {}: raise the limit (kubelet's podPidsLimit, --pids-limit)",
                                 shown, counted(std::to_string(workers), "worker"))};
  }
  return {ok, "are not limited by the cgroup of this container"};
}

State check_memory(const Host& host, unsigned workers) {
  const auto limit = node::read_memory(host).limit;
  if (!limit) return {ok, "is not limited by the cgroup of this container"};
  const std::string shown = "is limited to " + node::mebibytes(*limit);
  const std::uint64_t needed = (workers + 1) * torch_memory;  // torchrun's process imports torch, too
  if (*limit >= needed) return {ok, shown};
  return {problem,
          fmt::format("{}, and torchrun with {} needs {} before anything is loaded: raise the container's "
                      "memory limit",
                      shown, counted(std::to_string(workers), "worker"), node::mebibytes(needed))};
}

State check_temporary(const ContainerState& container) {
  const std::string& folder = container.temporary;
  if (container.temporary_is_writable) return {ok, "can be written to " + folder};
  return {problem,
          fmt::format("cannot be written to {}, and torchrun needs them: mount an emptyDir there, or set "
                      "TMPDIR",
                      folder)};
}

State check_own_name(const ContainerState& container, const Host& host) {
  const std::string name = host.host_name();
  const std::vector<std::string>& addresses = container.own_name.addresses;
  if (addresses.empty())
    return {container.several_nodes ? problem : warning,
            fmt::format("{} has no address, and gloo looks its own address up by it: add it to /etc/hosts, "
                        "or set GLOO_SOCKET_IFNAME to the interface of this node",
                        name)};
  const std::string shown = fmt::format("{} is {}", name, addresses.front());
  if (!container.several_nodes || !std::ranges::all_of(addresses, topology::is_loopback)) return {ok, shown};
  return {warning,
          shown +
              ", which no other node can reach, and gloo would give it to them: set GLOO_SOCKET_IFNAME to "
              "the interface of this node"};
}

State check_master(const ContainerState& container) {
  const auto& [addresses, why] = container.masters_name;
  if (addresses.empty()) return {problem, why};
  return {ok, fmt::format("{} is {}", container.master, joined(addresses))};
}

State check_clock(const ContainerState& container) {
  if (container.now < earliest_date)
    return {problem,
            "is wrong: it is set before 2026, so certificates would be rejected; set this machine's clock"};
  if (container.clock_is_synchronised) return {ok, "is synchronised"};
  return {
      warning,
      "is not synchronised, according to the kernel: the logs of several nodes may be out of order; run an "
      "NTP client on this machine"};
}

State check_python(const Python& python, Severity missing) {
  if (python.program.empty())
    return {missing, python.missing + "; name the interpreter with --python (RANKSHIM_PYTHON)"};
  if (python.version.empty())
    return {missing,
            python.program + " cannot be run; name another interpreter with --python (RANKSHIM_PYTHON)"};
  return {ok, fmt::format("{} is Python {}", python.program, python.version)};
}

State check_torch(const Python& python, Severity missing, const Accelerators& devices) {
  if (!python.has_torch)
    return {missing,
            fmt::format("was not found by {}; install it there, or name another interpreter with --python "
                        "(RANKSHIM_PYTHON)",
                        python.program)};
  if (devices && !python.for_accelerators)
    return {warning,
            fmt::format("{} was built for the CPU only, and there are accelerators ({}): install the build "
                        "for them",
                        python.torch, devices->what)};
  return {ok, python.torch.empty() ? "was found; its version is unknown" : "has the version " + python.torch};
}

/// Checks whether something expects accelerators although none is visible.
State check_no_accelerators(const Python& python, const node::Environment& environment) {
  constexpr auto lists =
      std::to_array<const char*>({"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
                                  "ASCEND_RT_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"});
  constexpr auto names_none = std::to_array<std::string_view>({"", "-1", "none", "void", "NoDevFiles"});
  constexpr std::string_view fix =
      "start the container with --gpus all (docker), or set resources.limits, such as nvidia.com/gpu "
      "(Kubernetes); to use the CPU, set CUDA_VISIBLE_DEVICES to an empty value";
  const auto* const list =
      std::ranges::find_if(lists, [&](const char* name) { return environment.has(name); });
  const std::string value(list == lists.end() ? "" : environment.get(*list).value_or(""));
  if (list != lists.end() && contains(names_none, value))
    return {ok, fmt::format("none are visible, because of {}={}; workers run on the CPU", *list,
                            in_quotes(value))};
  if (list != lists.end())
    return {problem, fmt::format("none are visible, but {}={} names some: {}", *list, in_quotes(value), fix)};
  if (python.for_accelerators)
    return {problem, fmt::format("none are visible, but torch {} was built for them: {}", python.torch, fix)};
  return {ok, "none are visible; workers run on the CPU"};
}

State check_accelerators(const ContainerState& container, const node::DeviceCount& devices) {
  const std::string seen = fmt::format("{} visible ({})", devices.count, devices.what);
  if (devices.count < container.workers)
    return {problem,
            fmt::format("{}, fewer than the {} workers of this node: request as many accelerators, or set "
                        "--nproc-per-node (RANKSHIM_NPROC_PER_NODE)",
                        seen, container.workers)};
  if (container.holders.empty()) return {ok, seen + "; no other visible process uses them"};
  return {warning, fmt::format("{}; in use by other processes, which may take their memory: {}", seen,
                               joined(container.holders))};
}

/// Checks whether tools such as py-spy and gdb can inspect a worker.
State check_ptrace(const Host& host, std::string_view status) {
  const auto capabilities =
      parse_number<std::uint64_t>(trimmed(text_after(status, "CapEff:")), 16).value_or(0);
  constexpr unsigned sys_ptrace = 19;  // linux/capability.h
  const bool capable = ((capabilities >> sys_ptrace) & 1U) != 0;
  const auto scope =
      first_number<unsigned>(host.file("/proc/sys/kernel/yama/ptrace_scope").value_or("0")).value_or(0);
  if (scope == 0 || (capable && scope < 3)) return {ok, "py-spy and gdb can attach to workers"};
  return {ok,
          fmt::format("py-spy and gdb cannot attach to workers (ptrace_scope {}{}); rankshim's own stacks do "
                      "not need it",
                      scope, capable ? "" : ", no capability SYS_PTRACE")};
}

/// Checks whether /proc shows signal masks. gVisor's shows neither these nor the exit codes of zombies.
State check_signals(std::string_view status) {
  if (status.find("SigCgt:") != std::string_view::npos)
    return {ok, "/proc shows what processes do with signals"};
  return {
      warning,
      "/proc does not show what processes do with signals (gVisor): a stop goes to the command's process "
      "group, USR1 and USR2 reach workers only when these are a minute old, and how a worker ended is "
      "known from torchrun alone; save on TERM within the processes that need it, or use another runtime"};
}

}  // namespace

std::vector<Finding> diagnose(const ContainerState& container, const Host& host) {
  const Accelerators devices = host.accelerators();
  const Python& python = container.python;
  const Severity missing = container.needs_torch ? problem : warning;
  const std::string status = host.file("/proc/self/status").value_or("");
  std::vector<Finding> findings = container.job;
  const auto add = [&](const char* subject, State state) {
    findings.push_back({state.severity, subject, std::move(state.text)});
  };
  add("own name", check_own_name(container, host));
  if (!container.master.empty()) add("master's name", check_master(container));
  add("python", check_python(python, missing));
  if (!python.version.empty()) add("torch", check_torch(python, missing, devices));
  add("accelerators",
      devices ? check_accelerators(container, *devices) : check_no_accelerators(python, host.environment()));
  add("/dev/shm", check_shm(container, devices));
  add("memory", check_memory(host, container.workers));
  add("locked memory", check_locked_memory(host));
  add("open files", check_open_files(host));
  add("processes", check_processes(host, container.workers));
  add("temporary files", check_temporary(container));
  add("clock", check_clock(container));
  add("ptrace", check_ptrace(host, status));
  add("signals", check_signals(status));
  return findings;
}

std::string as_text(const std::vector<Finding>& findings) {
  std::string text, summary;
  for (const Finding& finding : findings)
    text +=
        fmt::format("{:<8} {:<16} {}\n", word(finding.severity), finding.subject, printable(finding.text));
  for (const Severity severity : {problem, warning}) {
    const auto count = std::ranges::count(findings, severity, &Finding::severity);
    if (count != 0) summary += (summary.empty() ? "" : ", ") + counted(std::to_string(count), word(severity));
  }
  return text + (summary.empty() ? "all is well" : summary) + "\n";
}

std::string as_json(const std::vector<Finding>& findings) {
  std::vector<json::Object> all;
  all.reserve(findings.size());
  for (const auto& [severity, subject, text] : findings)
    all.push_back(
        json::Object().text("severity", word(severity)).text("subject", subject).text("text", text));
  return json::Object().objects("findings", all).lines();
}

namespace {

constexpr std::chrono::seconds look_up_time{5};

/// Finds torch without importing it, which would take a second or more. Prints four lines: Python's version,
/// whether torch was found, torch's version, and whether it was built for accelerators (torch/version.py
/// names them).
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
  const UniqueFd printed(memfd_create("probe", MFD_CLOEXEC));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, printed.number(), STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::string name = program;
  std::string option = "-c";
  std::string text = probe;
  std::array<char*, 4> arguments = {name.data(), option.data(), text.data(), nullptr};
  pid_t child = 0;
  const int error = posix_spawn(&child, program.c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  int status = 0;
  if (error != 0 || waitpid(child, &status, 0) != child || status != 0) return {};
  std::array<char, 512> lines{};
  const ssize_t got = pread(printed.number(), lines.data(), lines.size(), 0);
  return {lines.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0))};
}

Python ask_python(const Host& host, const settings::Settings& settings) {
  Python python;
  const std::string wanted = plan::find_interpreter(settings, host);
  const auto program = host.find_program(wanted);
  if (!program) {
    python.missing = fmt::format("{} was not found{}", in_quotes(wanted), settings::where_not_found(wanted));
    return python;
  }
  python.program = *program;
  const std::string printed = run_probe(*program);
  std::string_view rest = printed;
  python.version = next_line(rest);
  python.has_torch = next_line(rest) == "True";
  python.torch = next_line(rest);
  python.for_accelerators = next_line(rest) == "True";
  return python;
}

/// Adds the job, as far as it can be resolved.
void resolve(ContainerState& container, const Invocation& invocation, const Host& host) {
  const auto add = [&](Severity severity, std::string text) {
    container.job.push_back({severity, "job", std::move(text)});
  };
  const auto resolved = run::resolve_job(invocation.settings, invocation.arguments, host);
  if (const auto* faults = std::get_if<Faults>(&resolved)) {
    for (const Fault& fault : *faults) add(Severity::problem, to_line(fault));
    return;
  }
  const auto& [topology, choice] = std::get<launchers::Job>(resolved);
  const topology::Master* master = topology.master();
  const std::string_view rank = topology.facts.text(Fact::node_rank);
  if (topology.is_alone())
    add(Severity::ok, fmt::format("this node is the only one ({})", topology.platform.name()));
  else
    add(Severity::ok,
        fmt::format("node {} of {} nodes on {}, master {}", rank.empty() ? "(ranked by torch)" : rank,
                    topology.facts.text(Fact::nnodes), topology.platform.name(),
                    master == nullptr ? "unknown" : master->host));
  for (const auto* warnings : {&topology.warnings, &choice.warnings})
    for (const std::string& warning : *warnings) add(Severity::warning, warning);
  if (!choice.missing.empty()) add(Severity::problem, choice.missing);
  container.workers = std::max(1U, topology.workers());
  container.several_nodes = !topology.is_alone();
  if (master != nullptr && !topology.hosts_master().value_or(false) && !topology::is_literal(master->host))
    container.master = master->host;
  container.needs_torch = invocation.arguments.empty() || !choice.python.empty();
}

/// Whether 32 KiB can be written there. On a full disk a file can be created, but stays empty.
bool takes_files(const std::string& folder) {
  const std::string text(std::size_t{32} << 10U, '\n');
  std::string path = folder + "/rankshim-XXXXXX";
  const UniqueFd file(mkostemp(path.data(), O_CLOEXEC));
  if (file.number() < 0) return false;
  unlink(path.c_str());
  return write(file.number(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

/// Collects what the checks need. Each lookup of a name takes at most 5 s.
ContainerState collect_state(const Invocation& invocation, const Host& host) {
  ContainerState container;
  resolve(container, invocation, host);
  struct statvfs shm{};
  if (statvfs("/dev/shm", &shm) == 0 && shm.f_blocks != 0)
    container.shm = static_cast<std::uint64_t>(shm.f_blocks) * shm.f_frsize;
  container.temporary = host.environment().get("TMPDIR").value_or("/tmp");
  container.temporary_is_writable = takes_files(container.temporary);
  container.own_name = wait::look_up(host.host_name(), look_up_time);
  if (!container.master.empty()) container.masters_name = wait::look_up(container.master, look_up_time);
  struct timex clock{};
  const int state = adjtimex(&clock);  // modes is 0: it only reads
  container.clock_is_synchronised = state < 0 || (clock.status & STA_UNSYNC) == 0;
  container.now = time(nullptr);
  container.python = ask_python(host, invocation.settings);
  for (const Option option : {Option::report, Option::metrics_file}) {
    const std::string file(invocation.settings.text(option));
    const std::string folder = file.substr(0, file.rfind('/') + 1);
    if (!file.empty() && !file.starts_with("/dev/") && !takes_files(folder.empty() ? "." : folder))
      container.job.push_back(
          {Severity::problem, std::string(info(option).name),
           fmt::format(
               "{} cannot be written: its folder is missing, full or not writable for this user; correct {}",
               file, invocation.settings[option]->detail)});
  }
  container.holders = node::holders_of_accelerators(false);
  return container;
}

}  // namespace
}  // namespace rankshim::cli::doctor

namespace rankshim::cli {

int run_doctor(const settings::Invocation& invocation, const node::Host& host) {
  auto findings = doctor::diagnose(doctor::collect_state(invocation, host), host);
  report::Redactor redactor(host.environment());
  for (doctor::Finding& finding : findings) finding.text = redactor.whole(finding.text);
  const bool json = invocation.settings.text(settings::Option::format) == "json";
  if (print(json ? doctor::as_json(findings) : doctor::as_text(findings)) != exit_code::ok)
    return exit_code::system;
  const bool is_well =
      std::ranges::find(findings, doctor::Severity::problem, &doctor::Finding::severity) == findings.end();
  return is_well ? exit_code::ok : exit_code::configuration;
}

}  // namespace rankshim::cli
