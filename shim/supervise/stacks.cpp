#include "supervise/stacks.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <span>

#include "base/text.h"
#include "supervise/kernel.h"

namespace rankshim::supervise {
namespace {

/// A list of which only the first few are shown.
std::string first_few(const std::vector<std::string>& names) {
  constexpr std::size_t most = 5;
  const std::string first = joined(std::span(names).first(std::min(names.size(), most)));
  return names.size() > most ? fmt::format("{} and {} more", first, names.size() - most) : first;
}

std::string wait_channel(pid_t process) { return read_proc(process, "wchan").value_or("?"); }

/// "17 (python3, HOW)" for each of them that lives.
template <class How>
std::string with_names(const std::vector<Process>& processes, const How& how) {
  std::vector<std::string> names;
  for (const Process& process : processes) {
    if (!process.alive()) continue;
    const std::string name = read_proc(process.pid, "comm").value_or("?");
    names.push_back(fmt::format("{} ({}, {})", process.pid, trimmed(name), how(process)));
  }
  return first_few(names);
}

/// "state S, in futex_do_wait"; for a running process, "state R".
std::string how_it_waits(const Process& process) {
  const std::string channel = wait_channel(process.pid);
  const bool waits = !channel.empty() && channel != "0" && channel != "?";
  return std::string("state ") + process.state + (waits ? ", in " + channel : "");
}

}  // namespace

std::chrono::milliseconds time_for_stacks(std::chrono::milliseconds grace) {
  return std::min(grace / 5, std::chrono::milliseconds{1000});
}

bool shows_stacks(const Process& process) {
  const std::optional<SignalMasks> masks = signal_masks(process.pid);
  return masks && (masks->caught & bit(SIGABRT)) != 0;
}

void ask_for_stacks(const std::vector<Process>& processes) {
  for (const Process& process : processes) {
    // If its number belongs to another process by now, this does no harm.
    if (process.alive()) kernel::forbid_core(process.pid);
  }
  send_each(processes, {SIGABRT});
}

std::string describe_hanging(const std::vector<Process>& processes, const std::vector<WorkerState>& workers) {
  std::vector<std::string> names;
  for (const WorkerState& worker : workers) {
    const auto process = std::ranges::find(processes, worker.pid, &Process::pid);
    if (worker.ended || process == processes.end() || !process->alive()) continue;
    names.push_back(fmt::format("worker {} ({}pid {}, {})", worker.local_rank,
                                worker.rank ? fmt::format("rank {}, ", *worker.rank) : "", worker.pid,
                                how_it_waits(*process)));
  }
  return names.empty() ? with_names(processes, how_it_waits) : first_few(names);
}

std::string where_they_wait(const std::vector<Process>& processes) {
  return with_names(processes, [](const Process& process) { return wait_channel(process.pid); });
}

}  // namespace rankshim::supervise
