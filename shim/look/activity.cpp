#include "look/activity.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "base/text.h"
#include "look/python_stack.h"
#include "node/process.h"
#include "outcome/hang.h"
#include "outcome/wording.h"

namespace rankshim::look {
namespace {

using node::Process;

/// The number in the first line that begins with `name`; 0 if there is none.
std::uint64_t number_after(std::string_view file, std::string_view name) {
  for (std::string_view rest = file; !rest.empty();) {
    const std::string_view line = next_line(rest);
    if (line.starts_with(name))
      return first_number<std::uint64_t>(trimmed(line.substr(name.size()))).value_or(0);
  }
  return 0;
}

std::uint64_t bytes_of(pid_t pid) {
  const std::string io = node::read_proc(pid, "io").value_or("");
  return number_after(io, "rchar:") + number_after(io, "wchar:");
}

/// Whether the thread waits on a multiprocessing queue, as a DataLoader's or a pool's worker does for its
/// next task.
bool waits_for_work(const PythonThread& thread) {
  return std::ranges::any_of(thread.frames, [](const outcome::Frame& frame) {
    return frame.function == "get" && frame.file.ends_with("/multiprocessing/queues.py");
  });
}

}  // namespace

Activity read_activity(pid_t pid) {
  constexpr unsigned utime = 14, stime = 15;  // proc(5)
  const std::string main_thread = fmt::format("task/{}/", pid);
  const std::string stat = node::read_proc(pid, main_thread + "stat").value_or("");
  const std::string status = node::read_proc(pid, main_thread + "status").value_or("");
  Activity activity{.kernel = node::read_proc(pid, "wchan").value_or("")};
  if (const auto process = node::parse_stat(stat)) activity.state = process->state;
  if (activity.kernel == "0" || activity.state == 'R') activity.kernel.clear();
  activity.switches =
      number_after(status, "voluntary_ctxt_switches:") + number_after(status, "nonvoluntary_ctxt_switches:");
  for (const unsigned field : {utime, stime})
    activity.ticks += first_number<std::uint64_t>(node::stat_field(stat, field)).value_or(0);
  activity.bytes = bytes_of(pid);
  for (const Process& process : node::descendants(pid).value_or(std::vector<Process>{}))
    activity.bytes += bytes_of(process.pid);
  return activity;
}

Work work_between(const Activity& before, const Activity& after, std::chrono::milliseconds between) {
  constexpr double switches_a_second = 1, of_a_cpu = 0.01, bytes_a_second = 10'000;
  const double seconds = std::chrono::duration<double>(between).count();
  const auto rose = [seconds](std::uint64_t from, std::uint64_t to, double most) {
    return to > from && static_cast<double>(to - from) > most * seconds;
  };
  if (rose(before.ticks, after.ticks, of_a_cpu * static_cast<double>(sysconf(_SC_CLK_TCK))) ||
      rose(before.bytes, after.bytes, bytes_a_second))
    return Work::works;
  return rose(before.switches, after.switches, switches_a_second) ? Work::polls : Work::none;
}

std::string describe_below(pid_t pid) {
  constexpr std::size_t most = 64;  // DataLoaders have several
  const auto below = node::descendants(pid).value_or(std::vector<Process>{});
  for (std::size_t i = 0; i < std::min(below.size(), most); ++i) {
    const Process& process = below[i];
    if (!process.alive()) continue;
    const PythonStacks stacks = main_stack(process.pid);
    if (!stacks.threads.empty() && waits_for_work(stacks.threads.front())) continue;
    std::string who =
        fmt::format("{} (pid {})", trimmed(node::read_proc(process.pid, "comm").value_or("?")), process.pid);
    if (std::string_view("TtD").find(process.state) != std::string_view::npos)
      return fmt::format("{} in state {}", who, process.state);
    if (stacks.threads.empty()) return who;
    const outcome::Place place =
        outcome::place_of({.state = process.state, .stack = stacks.threads.front().frames});
    return fmt::format("{}, which is {}", who, in_words(place));
  }
  return "";
}

}  // namespace rankshim::look
