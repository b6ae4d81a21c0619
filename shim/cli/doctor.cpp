#include "cli/doctor.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/json.h"
#include "base/text.h"
#include "node/cgroup.h"
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

/// A soft limit of proc_pid_limits(5); nothing if it is unlimited or unknown.
std::optional<std::uint64_t> soft_limit(const Node& node, std::string_view name) {
  return first_number<std::uint64_t>(trimmed(text_after(node.file("/proc/self/limits").value_or(""), name)));
}

Finding check_shm(const Surroundings& surroundings, unsigned workers, const Accelerators& devices) {
  const std::string subject = "/dev/shm";
  constexpr std::string_view fix =
      "mount an emptyDir of medium Memory there (Kubernetes), or start with --shm-size=8g (docker, podman)";
  if (!surroundings.shm)
    return {Severity::problem, subject,
            fmt::format("is not mounted: DataLoader workers and NCCL need it; {}", fix)};
  const std::string size = fmt::format("has {} in all", mebibytes(*surroundings.shm));
  if (*surroundings.shm > default_shm) return {Severity::ok, subject, size};
  const bool collective = workers > 1 && devices.has_value();
  return {collective ? Severity::problem : Severity::warning, subject,
          fmt::format("{}: {}; {}", size,
                      collective ? "too little for NCCL among the accelerators of this node"
                                 : "DataLoader workers end with a bus error when it is full",
                      fix)};
}

Finding check_locked_memory(const Node& node) {
  const std::string subject = "locked memory";
  const auto limit = soft_limit(node, "Max locked memory");
  const std::string shown = limit ? "limited to " + mebibytes(*limit) : "unlimited";
  bool has_rdma = false;
  node.each_name("/sys/class/infiniband", [&](std::string_view) { has_rdma = true; });
  if (!has_rdma)
    return {Severity::ok, subject, fmt::format("is {}; there is no RDMA device that would need it", shown)};
  if (!limit) return {Severity::ok, subject, "is unlimited, as the RDMA devices here need it"};
  return {
      Severity::problem, subject,
      fmt::format("is {}, and RDMA needs it unlimited: add the capability IPC_LOCK (Kubernetes), or start "
                  "with --ulimit memlock=-1",
                  shown)};
}

Finding check_open_files(const Node& node) {
  constexpr std::uint64_t few = 4096;
  const std::string subject = "open files";
  const auto limit = soft_limit(node, "Max open files");
  if (!limit) return {Severity::ok, subject, "are unlimited"};
  const std::string shown = fmt::format("are limited to {} for a process", *limit);
  if (*limit >= few) return {Severity::ok, subject, shown};
  return {Severity::warning, subject,
          shown +
              ": DataLoader workers may end with \"Too many open files\"; raise the limit with ulimit -n "
              "65536 or --ulimit nofile=65536"};
}

Finding check_processes(const Node& node, unsigned workers) {
  const std::string subject = "processes";
  const auto number_in = [&](const std::string& path) {
    return first_number<std::uint64_t>(node.file(path).value_or(""));
  };
  for (const std::string folder : {"/sys/fs/cgroup/", "/sys/fs/cgroup/pids/"}) {
    const auto limit = number_in(folder + "pids.max");
    if (!limit) continue;
    const std::uint64_t used = number_in(folder + "pids.current").value_or(0);
    const std::uint64_t left = *limit > used ? *limit - used : 0;
    const std::string shown = fmt::format("and threads: {} of {} are left (pids.max)", left, *limit);
    // torch starts one or more threads per CPU, and more for its communication, in each worker.
    if (left >= std::uint64_t{64} * (workers + 1)) return {Severity::ok, subject, shown};
    return {Severity::problem, subject,
            fmt::format("{}, too few for {}: raise the limit (kubelet's podPidsLimit, --pids-limit)", shown,
                        counted(std::to_string(workers), "worker"))};
  }
  return {Severity::ok, subject, "are not limited by the cgroup of this container"};
}

Finding check_memory(const Node& node, unsigned workers) {
  const std::string subject = "memory";
  const auto limit = read_memory(node, find_memory_group(node)).limit;
  if (!limit) return {Severity::ok, subject, "is not limited by the cgroup of this container"};
  const std::string shown = "is limited to " + mebibytes(*limit);
  const std::uint64_t needed = (workers + 1) * torch_memory;  // torchrun's process has imported torch, too
  if (*limit >= needed) return {Severity::ok, subject, shown};
  return {Severity::problem, subject,
          fmt::format("{}, and torchrun with {} needs {} before anything is loaded: raise the container's "
                      "memory limit",
                      shown, counted(std::to_string(workers), "worker"), mebibytes(needed))};
}

Finding check_temporary(const Surroundings& surroundings) {
  const std::string subject = "temporary files";
  const std::string& folder = surroundings.temporary;
  if (surroundings.temporary_is_writable) return {Severity::ok, subject, "can be written to " + folder};
  return {Severity::problem, subject,
          fmt::format("cannot be written to {}, and torchrun needs them: mount an emptyDir there, or set "
                      "TMPDIR",
                      folder)};
}

Finding check_own_name(const JobNeeds& job, const Node& node, const Surroundings& surroundings) {
  const std::string host = node.host_name();
  const std::vector<std::string>& addresses = surroundings.own_name.addresses;
  const std::string subject = "own name";
  if (addresses.empty())
    return {job.several_nodes ? Severity::problem : Severity::warning, subject,
            fmt::format("{} has no address, and gloo looks its own address up by it: add it to /etc/hosts, "
                        "or set GLOO_SOCKET_IFNAME to the interface of this node",
                        host)};
  const std::string shown = fmt::format("{} is {}", host, addresses.front());
  if (!job.several_nodes || !std::ranges::all_of(addresses, is_loopback))
    return {Severity::ok, subject, shown};
  return {Severity::warning, subject,
          shown +
              ", which no other node can reach, and gloo would give it to them: set GLOO_SOCKET_IFNAME to "
              "the interface of this node"};
}

Finding check_master(const JobNeeds& job, const wait::LookedUp& master) {
  const std::string subject = "master's name";
  if (master.addresses.empty()) return {Severity::problem, subject, master.why};
  return {Severity::ok, subject, fmt::format("{} is {}", job.master, joined(master.addresses))};
}

Finding check_clock(const Surroundings& surroundings) {
  const std::string subject = "clock";
  if (surroundings.now < earliest_date)
    return {Severity::problem, subject,
            "is wrong: it shows a time before 2026, and certificates would be refused; set the clock of this "
            "machine"};
  if (surroundings.clock_is_synchronised) return {Severity::ok, subject, "is synchronised"};
  return {Severity::warning, subject,
          "is not synchronised, as the kernel knows: the logs of several nodes may be out of order; run an "
          "NTP client on this machine"};
}

Finding check_python(const Python& python, Severity missing) {
  const std::string subject = "python";
  if (python.program.empty())
    return {missing, subject, "was not found in PATH; name the interpreter with --python (RANKSHIM_PYTHON)"};
  if (python.version.empty())
    return {missing, subject,
            python.program + " cannot be run; name another interpreter with --python (RANKSHIM_PYTHON)"};
  return {Severity::ok, subject, fmt::format("{} is Python {}", python.program, python.version)};
}

Finding check_torch(const Python& python, Severity missing, const Accelerators& devices) {
  const std::string subject = "torch";
  if (!python.has_torch)
    return {missing, subject,
            fmt::format("was not found by {}; install it there, or name another interpreter with --python "
                        "(RANKSHIM_PYTHON)",
                        python.program)};
  if (devices && !python.for_accelerators)
    return {Severity::warning, subject,
            fmt::format("{} was built for the CPU only, and there are accelerators ({}): install the build "
                        "for them",
                        python.torch, devices->what)};
  return {Severity::ok, subject,
          python.torch.empty() ? "was found; its version is not known" : "has the version " + python.torch};
}

Finding check_accelerators(const JobNeeds& job, const Surroundings& surroundings,
                           const Accelerators& devices) {
  const std::string subject = "accelerators";
  if (!devices) return {Severity::ok, subject, "none are visible; workers run on the CPU"};
  const std::string seen = fmt::format("{} visible ({})", devices->count, devices->what);
  if (devices->count < job.workers)
    return {Severity::problem, subject,
            fmt::format("{}, fewer than the {} workers of this node: request as many accelerators, or set "
                        "--nproc-per-node (RANKSHIM_NPROC_PER_NODE)",
                        seen, job.workers)};
  if (surroundings.holders.empty())
    return {Severity::ok, subject, seen + "; no other process in sight holds them"};
  return {Severity::warning, subject,
          fmt::format("{}; held open by other processes: {}; their memory may be taken", seen,
                      joined(surroundings.holders))};
}

Finding check_seccomp(std::string_view status) {
  const bool filtered = trimmed(text_after(status, "Seccomp:")) == "2";
  return {Severity::ok, "seccomp",
          fmt::format("{} the system calls of this container",
                      filtered ? "a filter restricts" : "no filter restricts")};
}

/// Checks whether tools such as py-spy and gdb can inspect a worker.
Finding check_ptrace(const Node& node, std::string_view status) {
  const auto capabilities =
      parse_number<std::uint64_t>(trimmed(text_after(status, "CapEff:")), 16).value_or(0);
  constexpr unsigned sys_ptrace = 19;  // linux/capability.h
  const bool capable = ((capabilities >> sys_ptrace) & 1U) != 0;
  const auto scope =
      first_number<unsigned>(node.file("/proc/sys/kernel/yama/ptrace_scope").value_or("0")).value_or(0);
  if (scope == 0 || (capable && scope < 3))
    return {Severity::ok, "ptrace", "py-spy and gdb can attach to workers"};
  return {Severity::ok, "ptrace",
          fmt::format("py-spy and gdb cannot attach to workers (ptrace_scope {}{}); rankshim's own stacks do "
                      "not need it",
                      scope, capable ? "" : ", no capability SYS_PTRACE")};
}

/// gVisor's /proc has neither these masks nor the exit codes of zombies.
Finding check_signals(std::string_view status) {
  if (status.find("SigCgt:") != std::string_view::npos)
    return {Severity::ok, "signals", "/proc shows what processes do with signals"};
  return {
      Severity::warning, "signals",
      "/proc does not show what processes do with signals (gVisor): a stop goes to the command's process "
      "group, USR1 and USR2 reach workers only when these are a minute old, and how a worker ended is "
      "known from torchrun alone; save on TERM within the processes that need it, or use another runtime"};
}

}  // namespace

std::vector<Finding> diagnose(const JobNeeds& job, const Node& node, const Surroundings& surroundings) {
  const Accelerators devices = node.accelerators();
  const Python& python = surroundings.python;
  const Severity missing = job.needs_torch ? Severity::problem : Severity::warning;
  const std::string status = node.file("/proc/self/status").value_or("");
  std::vector<Finding> findings = job.findings;
  findings.push_back(check_own_name(job, node, surroundings));
  if (!job.master.empty()) findings.push_back(check_master(job, surroundings.master));
  findings.push_back(check_python(python, missing));
  if (!python.version.empty()) findings.push_back(check_torch(python, missing, devices));
  findings.push_back(check_accelerators(job, surroundings, devices));
  findings.push_back(check_shm(surroundings, job.workers, devices));
  findings.push_back(check_memory(node, job.workers));
  findings.push_back(check_locked_memory(node));
  findings.push_back(check_open_files(node));
  findings.push_back(check_processes(node, job.workers));
  findings.push_back(check_temporary(surroundings));
  findings.push_back(check_clock(surroundings));
  findings.push_back(check_seccomp(status));
  findings.push_back(check_ptrace(node, status));
  findings.push_back(check_signals(status));
  return findings;
}

namespace {

std::string_view word(Severity severity) {
  return severity == Severity::ok ? "ok" : severity == Severity::warning ? "warning" : "problem";
}

}  // namespace

std::string as_text(const std::vector<Finding>& findings) {
  std::string text, summary;
  for (const Finding& finding : findings)
    text +=
        fmt::format("{:<8} {:<16} {}\n", word(finding.severity), finding.subject, printable(finding.text));
  for (const Severity severity : {Severity::problem, Severity::warning}) {
    const auto count = std::ranges::count(findings, severity, &Finding::severity);
    if (count != 0) summary += (summary.empty() ? "" : ", ") + counted(std::to_string(count), word(severity));
  }
  return text + (summary.empty() ? "all is well" : summary) + "\n";
}

std::string as_json(const std::vector<Finding>& findings) {
  std::vector<json::Object> all;
  for (const Finding& finding : findings) {
    all.emplace_back();
    all.back()
        .text("severity", word(finding.severity))
        .text("subject", finding.subject)
        .text("text", finding.text);
  }
  return json::Object().objects("findings", all).lines();
}

}  // namespace rankshim::doctor
