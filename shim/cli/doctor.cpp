#include "cli/doctor.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/text.h"
#include "report/memory.h"
#include "topology/topology.h"

namespace rankshim::doctor {
namespace {

constexpr std::uint64_t mebibyte = std::uint64_t{1} << 20U;
/// The memory of one process that has imported torch (torch 2.13, CPU): about 250 MB.
constexpr std::uint64_t torch_memory = 300 * mebibyte;
/// The default size of /dev/shm in Docker and Kubernetes.
constexpr std::uint64_t default_shm = 64 * mebibyte;
/// 2026-01-01: this program did not exist before.
constexpr std::int64_t earliest_date = 1767225600;

using Accelerators = std::optional<DeviceCount>;

class Findings {
 public:
  void ok(std::string_view subject, std::string text) { add(Severity::ok, subject, std::move(text)); }
  void warning(std::string_view subject, std::string text) {
    add(Severity::warning, subject, std::move(text));
  }
  void problem(std::string_view subject, std::string text) {
    add(Severity::problem, subject, std::move(text));
  }
  void add(Severity severity, std::string_view subject, std::string text) {
    findings_.push_back({severity, std::string(subject), std::move(text)});
  }
  std::vector<Finding> take() { return std::move(findings_); }

 private:
  std::vector<Finding> findings_;
};

/// A soft limit of proc_pid_limits(5); nothing if it is unlimited or unknown.
std::optional<std::uint64_t> soft_limit(const Node& node, std::string_view name) {
  return first_number<std::uint64_t>(trimmed(text_after(node.file("/proc/self/limits").value_or(""), name)));
}

bool has_entries(const Node& node, const char* folder) {
  bool any = false;
  node.each_name(folder, [](void* context, std::string_view) { *static_cast<bool*>(context) = true; }, &any);
  return any;
}

void check_shm(Findings& findings, const Surroundings& surroundings, unsigned workers,
               const Accelerators& devices) {
  constexpr std::string_view subject = "/dev/shm";
  constexpr std::string_view fix =
      "mount an emptyDir of medium Memory there (Kubernetes), or start with --shm-size=8g (docker, podman)";
  if (!surroundings.shm) {
    findings.problem(subject, fmt::format("is not mounted: DataLoader workers and NCCL need it; {}", fix));
  } else if (*surroundings.shm <= default_shm) {
    const bool collective = workers > 1 && devices.has_value();
    findings.add(collective ? Severity::problem : Severity::warning, subject,
                 fmt::format("has {} in all: {}; {}", mebibytes(*surroundings.shm),
                             collective ? "too little for NCCL among the accelerators of this node"
                                        : "DataLoader workers end with a bus error when it is full",
                             fix));
  } else {
    findings.ok(subject, fmt::format("has {} in all", mebibytes(*surroundings.shm)));
  }
}

void check_locked_memory(Findings& findings, const Node& node) {
  constexpr std::string_view subject = "locked memory";
  const auto limit = soft_limit(node, "Max locked memory");
  const std::string shown = limit ? "limited to " + mebibytes(*limit) : "unlimited";
  if (!has_entries(node, "/sys/class/infiniband"))
    findings.ok(subject, fmt::format("is {}; there is no RDMA device that would need it", shown));
  else if (limit)
    findings.problem(subject, fmt::format("is {}, and RDMA needs it unlimited: add the capability IPC_LOCK "
                                          "(Kubernetes), or start with --ulimit memlock=-1",
                                          shown));
  else
    findings.ok(subject, "is unlimited, as the RDMA devices here need it");
}

void check_open_files(Findings& findings, const Node& node) {
  constexpr std::string_view subject = "open files";
  const auto limit = soft_limit(node, "Max open files");
  if (limit && *limit < 4096)
    findings.warning(
        subject, fmt::format("are limited to {} for a process: DataLoader workers may end with \"Too many "
                             "open files\"; raise the limit with ulimit -n 65536 or --ulimit nofile=65536",
                             *limit));
  else
    findings.ok(subject, limit ? fmt::format("are limited to {} for a process", *limit) : "are unlimited");
}

void check_processes(Findings& findings, const Node& node, unsigned workers) {
  constexpr std::string_view subject = "processes";
  std::optional<std::uint64_t> limit;
  std::uint64_t used = 0;
  for (const std::string_view folder : {"/sys/fs/cgroup/", "/sys/fs/cgroup/pids/"}) {
    if (limit) break;
    limit = first_number<std::uint64_t>(node.file(fmt::format("{}pids.max", folder)).value_or(""));
    used = first_number<std::uint64_t>(node.file(fmt::format("{}pids.current", folder)).value_or(""))
               .value_or(0);
  }
  if (!limit) return findings.ok(subject, "are not limited by the cgroup of this container");
  const std::uint64_t left = *limit > used ? *limit - used : 0;
  // torch starts one or more threads per CPU, and more for its communication, in each worker.
  const bool few = left < std::uint64_t{64} * (workers + 1);
  const std::string shown = fmt::format("and threads: {} of {} are left (pids.max)", left, *limit);
  if (few)
    findings.problem(subject, fmt::format("{}, too few for {}: raise the limit (kubelet's podPidsLimit, "
                                          "--pids-limit)",
                                          shown, counted(std::to_string(workers), "worker")));
  else
    findings.ok(subject, shown);
}

void check_memory(Findings& findings, const Node& node, unsigned workers) {
  constexpr std::string_view subject = "memory";
  const MemoryReading memory = read_memory(node, find_memory_group(node));
  if (!memory.limit) return findings.ok(subject, "is not limited by the cgroup of this container");
  // torchrun's process has imported torch, too.
  if (*memory.limit < (workers + 1) * torch_memory)
    findings.problem(subject,
                     fmt::format("is limited to {}, and torchrun with {} needs {} before anything "
                                 "is loaded: raise the container's memory limit",
                                 mebibytes(*memory.limit), counted(std::to_string(workers), "worker"),
                                 mebibytes((workers + 1) * torch_memory)));
  else
    findings.ok(subject, fmt::format("is limited to {}", mebibytes(*memory.limit)));
}

void check_temporary(Findings& findings, const Surroundings& surroundings) {
  constexpr std::string_view subject = "temporary files";
  if (surroundings.temporary_is_writable)
    findings.ok(subject, fmt::format("can be written to {}", surroundings.temporary));
  else
    findings.problem(subject,
                     fmt::format("cannot be written to {}, and torchrun needs them: mount an emptyDir "
                                 "there, or set TMPDIR",
                                 surroundings.temporary));
}

void check_names(Findings& findings, const JobNeeds& job, const Node& node,
                 const Surroundings& surroundings) {
  const std::string host = node.host_name();
  const wait::LookedUp& own = surroundings.own_name;
  constexpr std::string_view subject = "own name";
  const bool on_loopback = std::ranges::all_of(own.addresses, is_loopback);
  if (own.addresses.empty())
    findings.add(
        job.several_nodes ? Severity::problem : Severity::warning, subject,
        fmt::format("{} has no address, and gloo looks its own address up by it: add it to /etc/hosts, "
                    "or set GLOO_SOCKET_IFNAME to the interface of this node",
                    host));
  else if (on_loopback && job.several_nodes)
    findings.warning(subject,
                     fmt::format("{} is {}, which no other node can reach, and gloo would give it to "
                                 "them: set GLOO_SOCKET_IFNAME to the interface of this node",
                                 host, own.addresses.front()));
  else
    findings.ok(subject, fmt::format("{} is {}", host, own.addresses.front()));

  if (job.master.empty()) return;
  if (surroundings.master.addresses.empty())
    findings.problem("master's name", surroundings.master.why);
  else
    findings.ok("master's name", fmt::format("{} is {}", job.master, joined(surroundings.master.addresses)));
}

void check_clock(Findings& findings, const Surroundings& surroundings) {
  constexpr std::string_view subject = "clock";
  if (surroundings.now < earliest_date)
    findings.problem(subject,
                     "is wrong: it shows a time before 2026, and certificates would be refused; set "
                     "the clock of this machine");
  else if (!surroundings.clock_is_synchronised)
    findings.warning(subject,
                     "is not synchronised, as the kernel knows: the logs of several nodes may be out of "
                     "order; run an NTP client on this machine");
  else
    findings.ok(subject, "is synchronised");
}

void check_python(Findings& findings, const JobNeeds& job, const Python& python,
                  const Accelerators& devices) {
  constexpr std::string_view subject = "python";
  const auto missing = [&](std::string_view about, std::string text) {
    findings.add(job.needs_torch ? Severity::problem : Severity::warning, about, std::move(text));
  };
  if (python.program.empty())
    return missing(subject, "was not found in PATH; name the interpreter with --python (RANKSHIM_PYTHON)");
  if (python.version.empty())
    return missing(subject, fmt::format("{} cannot be run; name another interpreter with --python "
                                        "(RANKSHIM_PYTHON)",
                                        python.program));
  findings.ok(subject, fmt::format("{} is Python {}", python.program, python.version));
  if (!python.has_torch)
    return missing("torch", fmt::format("was not found by {}; install it there, or name another interpreter "
                                        "with --python (RANKSHIM_PYTHON)",
                                        python.program));
  const std::string version =
      python.torch.empty() ? "was found; its version is not known" : "has the version " + python.torch;
  if (devices && !python.for_accelerators)
    findings.warning("torch", fmt::format("{} was built for the CPU only, and there are accelerators ({}): "
                                          "install the build for them",
                                          python.torch, devices->what));
  else
    findings.ok("torch", version);
}

void check_accelerators(Findings& findings, const JobNeeds& job, const Surroundings& surroundings,
                        const Accelerators& devices) {
  constexpr std::string_view subject = "accelerators";
  if (!devices) return findings.ok(subject, "none are visible; workers run on the CPU");
  const std::string seen = fmt::format("{} visible ({})", devices->count, devices->what);
  if (devices->count < job.workers)
    findings.problem(subject, fmt::format("{}, fewer than the {} workers of this node: request as many "
                                          "accelerators, or set --nproc-per-node (RANKSHIM_NPROC_PER_NODE)",
                                          seen, job.workers));
  else if (!surroundings.holders.empty())
    findings.warning(subject, fmt::format("{}; held open by other processes: {}; their memory may be taken",
                                          seen, joined(surroundings.holders)));
  else
    findings.ok(subject, fmt::format("{}; no other process in sight holds them", seen));
}

/// Checks whether tools such as py-spy and gdb can inspect a worker.
void check_tracing(Findings& findings, const Node& node) {
  const std::string status = node.file("/proc/self/status").value_or("");
  const std::string_view filter = trimmed(text_after(status, "Seccomp:"));
  findings.ok("seccomp", filter == "2" ? "a filter restricts the system calls of this container"
                                       : "no filter restricts the system calls of this container");
  const auto capabilities =
      parse_number<std::uint64_t>(trimmed(text_after(status, "CapEff:")), 16).value_or(0);
  constexpr unsigned sys_ptrace = 19;  // linux/capability.h
  const bool capable = ((capabilities >> sys_ptrace) & 1U) != 0;
  const auto scope =
      first_number<unsigned>(node.file("/proc/sys/kernel/yama/ptrace_scope").value_or("0")).value_or(0);
  if (scope == 0 || (capable && scope < 3))
    findings.ok("ptrace", "py-spy and gdb can attach to workers");
  else
    findings.ok("ptrace",
                fmt::format("py-spy and gdb cannot attach to workers (ptrace_scope {}{}); rankshim's "
                            "own stacks do not need it",
                            scope, capable ? "" : ", no capability SYS_PTRACE"));
}

/// gVisor's /proc has neither these masks nor the exit codes of zombies.
void check_signals(Findings& findings, const Node& node) {
  constexpr std::string_view subject = "signals";
  if (node.file("/proc/self/status").value_or("").find("SigCgt:") != std::string::npos)
    return findings.ok(subject, "/proc shows what processes do with signals");
  findings.warning(
      subject,
      "/proc does not show what processes do with signals (gVisor): a stop goes to the command's process "
      "group, USR1 and USR2 reach workers only when these are a minute old, and how a worker ended is "
      "known from torchrun alone; save on TERM within the processes that need it, or use another runtime");
}

}  // namespace

std::vector<Finding> diagnose(const JobNeeds& job, const Node& node, const Surroundings& surroundings) {
  const Accelerators devices = node.accelerators();
  Findings findings;
  for (const Finding& finding : job.findings) findings.add(finding.severity, finding.subject, finding.text);
  check_names(findings, job, node, surroundings);
  check_python(findings, job, surroundings.python, devices);
  check_accelerators(findings, job, surroundings, devices);
  check_shm(findings, surroundings, job.workers, devices);
  check_memory(findings, node, job.workers);
  check_locked_memory(findings, node);
  check_open_files(findings, node);
  check_processes(findings, node, job.workers);
  check_temporary(findings, surroundings);
  check_clock(findings, surroundings);
  check_tracing(findings, node);
  check_signals(findings, node);
  return findings.take();
}

std::string as_text(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings) {
    const std::string_view severity = finding.severity == Severity::ok        ? "ok"
                                      : finding.severity == Severity::warning ? "warning"
                                                                              : "problem";
    text += fmt::format("{:<8} {:<16} {}\n", severity, finding.subject, printable(finding.text));
  }
  return text;
}

}  // namespace rankshim::doctor
