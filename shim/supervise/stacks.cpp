#include "supervise/stacks.h"

#include <algorithm>
#include <csignal>

#include "supervise/kernel.h"

namespace rankshim::supervise {
namespace {

/// A list of which only the first few are shown.
struct ShortList {
  static constexpr std::size_t most = 5;
  std::size_t count = 0;
  std::string list;

  void add(const std::string& name) {
    if (++count <= most) list += (list.empty() ? "" : ", ") + name;
  }
  [[nodiscard]] std::string text() const {
    return count > most ? list + " and " + std::to_string(count - most) + " more" : list;
  }
};

std::string name_of(pid_t process) {
  std::string name = read_proc(process, "comm", 64).value_or("?");
  while (name.ends_with('\n')) name.pop_back();
  return name;
}

std::string wait_channel(pid_t process) { return read_proc(process, "wchan", 64).value_or("?"); }

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
  send_each(processes, SIGABRT, nullptr);
}

std::string describe_hanging(const std::vector<Process>& processes, const std::vector<WorkerState>& workers) {
  ShortList names;
  for (const WorkerState& worker : workers) {
    const auto process = std::ranges::find(processes, worker.pid, &Process::pid);
    if (worker.ended || process == processes.end() || !process->alive()) continue;
    std::string name = "worker " + std::to_string(worker.local_rank) + " (";
    if (worker.rank) name += "rank " + std::to_string(*worker.rank) + ", ";
    names.add(name + "pid " + std::to_string(worker.pid) + ", " + how_it_waits(*process) + ")");
  }
  if (names.count != 0) return names.text();
  for (const Process& process : processes) {
    if (process.alive())
      names.add(std::to_string(process.pid) + " (" + name_of(process.pid) + ", " + how_it_waits(process) +
                ")");
  }
  return names.text();
}

std::string where_they_wait(const std::vector<Process>& processes) {
  ShortList names;
  for (const Process& process : processes) {
    if (process.alive())
      names.add(std::to_string(process.pid) + " (" + name_of(process.pid) + ", " + wait_channel(process.pid) +
                ")");
  }
  return names.text();
}

}  // namespace rankshim::supervise
