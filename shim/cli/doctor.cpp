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

using enum Severity;
using Accelerators = std::optional<DeviceCount>;

/// A soft limit of proc_pid_limits(5); nothing if it is unlimited or unknown.
std::optional<std::uint64_t> soft_limit(const Node& node, std::string_view name) {
  return first_number<std::uint64_t>(trimmed(text_after(node.file("/proc/self/limits").value_or(""), name)));
}

std::string_view word(Severity severity) {
  return severity == ok ? "ok" : severity == warning ? "warning" : "problem";
}

/// What a check finds of its subject.
struct State {
  Severity severity;
  std::string text;
};

State check_shm(const Surroundings& surroundings, const Accelerators& devices) {
  constexpr std::string_view fix =
      "mount an emptyDir of medium Memory there (Kubernetes), or start with --shm-size=8g (docker, podman)";
  if (!surroundings.shm)
    return {problem, fmt::format("is not mounted: DataLoader workers and NCCL need it; {}", fix)};
  const std::string size = fmt::format("has {} in all", mebibytes(*surroundings.shm));
  if (*surroundings.shm > default_shm) return {ok, size};
  const bool collective = surroundings.workers > 1 && devices.has_value();
  return {collective ? problem : warning,
          fmt::format("{}: {}; {}", size,
                      collective ? "too little for NCCL among the accelerators of this node"
                                 : "DataLoader workers end with a bus error when it is full",
                      fix)};
}

State check_locked_memory(const Node& node) {
  const auto limit = soft_limit(node, "Max locked memory");
  const std::string shown = limit ? "limited to " + mebibytes(*limit) : "unlimited";
  bool has_rdma = false;
  node.each_name("/sys/class/infiniband", [&](std::string_view) { has_rdma = true; });
  if (!has_rdma) return {ok, fmt::format("is {}; there is no RDMA device that would need it", shown)};
  if (!limit) return {ok, "is unlimited, as the RDMA devices here need it"};
  return {
      problem,
      fmt::format("is {}, and RDMA needs it unlimited: add the capability IPC_LOCK (Kubernetes), or start "
                  "with --ulimit memlock=-1",
                  shown)};
}

State check_open_files(const Node& node) {
  constexpr std::uint64_t few = 4096;
  const auto limit = soft_limit(node, "Max open files");
  if (!limit) return {ok, "are unlimited"};
  const std::string shown = fmt::format("are limited to {} for a process", *limit);
  if (*limit >= few) return {ok, shown};
  return {warning,
          shown +
              ": DataLoader workers may end with \"Too many open files\"; raise the limit with ulimit -n "
              "65536 or --ulimit nofile=65536"};
}

State check_processes(const Node& node, unsigned workers) {
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
    if (left >= std::uint64_t{64} * (workers + 1)) return {ok, shown};
    return {problem, fmt::format("{}, too few for {}: raise the limit (kubelet's podPidsLimit, --pids-limit)",
                                 shown, counted(std::to_string(workers), "worker"))};
  }
  return {ok, "are not limited by the cgroup of this container"};
}

State check_memory(const Node& node, unsigned workers) {
  const auto limit = read_memory(node, find_memory_group(node)).limit;
  if (!limit) return {ok, "is not limited by the cgroup of this container"};
  const std::string shown = "is limited to " + mebibytes(*limit);
  const std::uint64_t needed = (workers + 1) * torch_memory;  // torchrun's process has imported torch, too
  if (*limit >= needed) return {ok, shown};
  return {problem,
          fmt::format("{}, and torchrun with {} needs {} before anything is loaded: raise the container's "
                      "memory limit",
                      shown, counted(std::to_string(workers), "worker"), mebibytes(needed))};
}

State check_temporary(const Surroundings& surroundings) {
  const std::string& folder = surroundings.temporary;
  if (surroundings.temporary_is_writable) return {ok, "can be written to " + folder};
  return {problem,
          fmt::format("cannot be written to {}, and torchrun needs them: mount an emptyDir there, or set "
                      "TMPDIR",
                      folder)};
}

State check_own_name(const Surroundings& surroundings, const Node& node) {
  const std::string host = node.host_name();
  const std::vector<std::string>& addresses = surroundings.own_name.addresses;
  if (addresses.empty())
    return {surroundings.several_nodes ? problem : warning,
            fmt::format("{} has no address, and gloo looks its own address up by it: add it to /etc/hosts, "
                        "or set GLOO_SOCKET_IFNAME to the interface of this node",
                        host)};
  const std::string shown = fmt::format("{} is {}", host, addresses.front());
  if (!surroundings.several_nodes || !std::ranges::all_of(addresses, is_loopback)) return {ok, shown};
  return {warning,
          shown +
              ", which no other node can reach, and gloo would give it to them: set GLOO_SOCKET_IFNAME to "
              "the interface of this node"};
}

State check_master(const Surroundings& surroundings) {
  const auto& [addresses, why] = surroundings.masters_name;
  if (addresses.empty()) return {problem, why};
  return {ok, fmt::format("{} is {}", surroundings.master, joined(addresses))};
}

State check_clock(const Surroundings& surroundings) {
  if (surroundings.now < earliest_date)
    return {problem,
            "is wrong: it shows a time before 2026, and certificates would be refused; set the clock of this "
            "machine"};
  if (surroundings.clock_is_synchronised) return {ok, "is synchronised"};
  return {warning,
          "is not synchronised, as the kernel knows: the logs of several nodes may be out of order; run an "
          "NTP client on this machine"};
}

State check_python(const Python& python, Severity missing) {
  if (python.program.empty())
    return {missing, "was not found in PATH; name the interpreter with --python (RANKSHIM_PYTHON)"};
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
  return {ok,
          python.torch.empty() ? "was found; its version is not known" : "has the version " + python.torch};
}

State check_accelerators(const Surroundings& surroundings, const Accelerators& devices) {
  if (!devices) return {ok, "none are visible; workers run on the CPU"};
  const std::string seen = fmt::format("{} visible ({})", devices->count, devices->what);
  if (devices->count < surroundings.workers)
    return {problem,
            fmt::format("{}, fewer than the {} workers of this node: request as many accelerators, or set "
                        "--nproc-per-node (RANKSHIM_NPROC_PER_NODE)",
                        seen, surroundings.workers)};
  if (surroundings.holders.empty()) return {ok, seen + "; no other process in sight holds them"};
  return {warning, fmt::format("{}; held open by other processes: {}; their memory may be taken", seen,
                               joined(surroundings.holders))};
}

State check_seccomp(std::string_view status) {
  const bool filtered = trimmed(text_after(status, "Seccomp:")) == "2";
  return {ok, fmt::format("{} the system calls of this container",
                          filtered ? "a filter restricts" : "no filter restricts")};
}

/// Checks whether tools such as py-spy and gdb can inspect a worker.
State check_ptrace(const Node& node, std::string_view status) {
  const auto capabilities =
      parse_number<std::uint64_t>(trimmed(text_after(status, "CapEff:")), 16).value_or(0);
  constexpr unsigned sys_ptrace = 19;  // linux/capability.h
  const bool capable = ((capabilities >> sys_ptrace) & 1U) != 0;
  const auto scope =
      first_number<unsigned>(node.file("/proc/sys/kernel/yama/ptrace_scope").value_or("0")).value_or(0);
  if (scope == 0 || (capable && scope < 3)) return {ok, "py-spy and gdb can attach to workers"};
  return {ok,
          fmt::format("py-spy and gdb cannot attach to workers (ptrace_scope {}{}); rankshim's own stacks do "
                      "not need it",
                      scope, capable ? "" : ", no capability SYS_PTRACE")};
}

/// gVisor's /proc has neither these masks nor the exit codes of zombies.
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

std::vector<Finding> diagnose(const Surroundings& surroundings, const Node& node) {
  const Accelerators devices = node.accelerators();
  const Python& python = surroundings.python;
  const Severity missing = surroundings.needs_torch ? problem : warning;
  const std::string status = node.file("/proc/self/status").value_or("");
  std::vector<Finding> findings = surroundings.job;
  const auto add = [&](const char* subject, State state) {
    findings.push_back({state.severity, subject, std::move(state.text)});
  };
  add("own name", check_own_name(surroundings, node));
  if (!surroundings.master.empty()) add("master's name", check_master(surroundings));
  add("python", check_python(python, missing));
  if (!python.version.empty()) add("torch", check_torch(python, missing, devices));
  add("accelerators", check_accelerators(surroundings, devices));
  add("/dev/shm", check_shm(surroundings, devices));
  add("memory", check_memory(node, surroundings.workers));
  add("locked memory", check_locked_memory(node));
  add("open files", check_open_files(node));
  add("processes", check_processes(node, surroundings.workers));
  add("temporary files", check_temporary(surroundings));
  add("clock", check_clock(surroundings));
  add("seccomp", check_seccomp(status));
  add("ptrace", check_ptrace(node, status));
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
  for (const auto& [severity, subject, text] : findings)
    all.push_back(
        json::Object().text("severity", word(severity)).text("subject", subject).text("text", text));
  return json::Object().objects("findings", all).lines();
}

}  // namespace rankshim::doctor
