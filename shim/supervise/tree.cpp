#include "supervise/tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <iterator>
#include <span>
#include <string_view>
#include <utility>

#include "base/files.h"
#include "base/text.h"

namespace rankshim::supervise {
namespace {

using node::Process;

/// Whether the process is a shell, by argv[0], which for a script is its interpreter.
bool runs_shell(pid_t pid) {
  const std::vector<std::string> words = node::read_command_line(pid);
  if (words.empty()) return false;
  std::string_view name = base_name(words.front());
  if (name.starts_with('-')) name.remove_prefix(1);  // a login shell
  return node::is_shell(name);
}

std::vector<Process> children_of(const Process& process, const std::vector<Process>& all) {
  std::vector<Process> children;
  std::ranges::copy_if(all, std::back_inserter(children),
                       [&](const Process& other) { return other.parent == process.pid; });
  return children;
}

/// Whether the signal goes on to this child although its parent takes it.
bool goes_on(const Process& parent, const SignalMasks& masks, const Process& child, bool by_shell,
             int signal) {
  if (child.group != parent.group) return false;
  const std::optional<SignalMasks> child_masks = signal_masks(child.pid);
  if (!child_masks) return false;
  if (by_shell) {  // a shell's background jobs ignore both
    constexpr SignalSet both = bit(SIGINT) | bit(SIGQUIT);
    return (child_masks->ignored & both) != both || (masks.ignored & both) == both;
  }
  return (masks.ignored & bit(signal)) != 0 && (child_masks->ignored & bit(signal)) == 0;
}

/// Where the process hangs. Leaves out its name.
HangingProcess hanging(const Process& process) {
  std::string channel = node::read_proc(process.pid, "wchan").value_or("");  // proc(5): 0 if it does not wait
  if (channel == "0") channel.clear();
  return {.pid = process.pid, .state = process.state, .kernel = std::move(channel)};
}

std::string in_words(const HangingProcess& process) {
  const std::string state =
      fmt::format("state {}{}{}", process.state, process.kernel.empty() ? "" : ", in ", process.kernel);
  if (!process.local_rank) return fmt::format("{} ({}, {})", process.pid, process.name, state);
  return fmt::format("worker {} ({}pid {}, {})", *process.local_rank,
                     process.rank ? fmt::format("rank {}, ", *process.rank) : "", process.pid, state);
}

}  // namespace

int send_to(const Process& process, const Signal& signal) {
  const UniqueFd descriptor(kernel::pidfd_open(process.pid));
  // The descriptor was opened first: if the process is still the same, so is the descriptor's.
  std::optional<Process> now = node::read_process(process.pid);
  if (!now && errno != ENOENT && errno != ESRCH) now = node::read_process(process.pid);
  if (!now || !now->is(process)) return -ESRCH;
  const int sent = descriptor.number() < 0 ? -ENOSYS : kernel::pidfd_send(descriptor.number(), signal);
  // Without pidfds (old kernels, seccomp), the comparison just made must do.
  const bool no_pidfd = sent == -ENOSYS || sent == -EPERM || sent == -EINVAL;
  return no_pidfd ? kernel::send(process.pid, signal) : sent;
}

int send_each(const std::vector<Process>& processes, const Signal& signal) {
  int sent = -ESRCH;
  for (const Process& process : processes)
    if (process.alive()) sent = either(sent, send_to(process, signal));
  return sent;
}

std::optional<SignalMasks> signal_masks(pid_t pid) {
  const std::string status = node::read_proc(pid, "status").value_or("");
  SignalMasks masks;
  for (const auto& [field, set] : {std::pair("\nSigCgt:\t", &masks.caught),
                                   {"\nSigIgn:\t", &masks.ignored},
                                   {"\nSigBlk:\t", &masks.blocked}}) {
    const auto at = status.find(field);
    if (at == std::string::npos) return std::nullopt;
    *set = std::strtoull(status.c_str() + at + std::strlen(field), nullptr, 16);
  }
  return masks;
}

bool is_young(const Process& process) {
  constexpr std::uint64_t ticks_per_second = 100;  // USER_HZ, the same on x86 and Arm
  constexpr std::uint64_t startup_seconds = 60;
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<std::uint64_t>(now.tv_sec) < process.start / ticks_per_second + startup_seconds;
}

std::vector<Process> handlers_below(std::vector<Process> roots, const std::vector<Process>& all, int signal) {
  std::vector<Process> handlers;
  for (std::size_t at = 0; at < roots.size(); ++at) {  // grows in the loop
    const Process process = roots[at];
    const std::optional<SignalMasks> masks = signal_masks(process.pid);
    const bool handles = masks && masks->handle(signal);
    if (handles) handlers.push_back(process);
    std::ranges::copy(handles ? next_after(process, all, signal) : children_of(process, all),
                      std::back_inserter(roots));
  }
  return handlers;
}

std::vector<Process> next_after(const Process& process, const std::vector<Process>& all, int signal) {
  std::vector<Process> next = children_of(process, all);
  // The masks are read after the signal was sent: a process that handles it by now has got it, and one that
  // does not is ending.
  const std::optional<SignalMasks> masks = signal_masks(process.pid);
  if (next.empty() || !masks || !masks->take(signal)) return next;
  const bool by_shell = runs_shell(process.pid);
  if (!by_shell && signal != SIGINT && signal != SIGQUIT) return {};
  std::erase_if(next,
                [&](const Process& child) { return !goes_on(process, *masks, child, by_shell, signal); });
  return next;
}

std::chrono::milliseconds time_for_stacks(std::chrono::milliseconds grace) {
  return std::min(grace / 5, std::chrono::milliseconds{1000});
}

std::vector<HangingProcess> find_hanging(const std::vector<Process>& processes,
                                         const std::vector<WorkerState>& workers) {
  std::vector<HangingProcess> found;
  for (const WorkerState& worker : workers) {
    const auto process = std::ranges::find(processes, worker.pid, &Process::pid);
    if (worker.ended || process == processes.end() || !process->alive()) continue;
    HangingProcess& one = found.emplace_back(hanging(*process));
    one.local_rank = worker.local_rank;
    one.rank = worker.rank;
  }
  if (!found.empty()) return found;
  for (const Process& process : processes) {
    if (!process.alive()) continue;
    const std::string name = node::read_proc(process.pid, "comm").value_or("?");
    found.emplace_back(hanging(process)).name = trimmed(name);
  }
  return found;
}

std::string in_words(const std::vector<HangingProcess>& processes) {
  constexpr std::size_t most = 5;
  std::vector<std::string> names;
  for (const HangingProcess& process : std::span(processes).first(std::min(processes.size(), most)))
    names.push_back(in_words(process));
  return few(names, processes.size() - names.size());
}

}  // namespace rankshim::supervise
