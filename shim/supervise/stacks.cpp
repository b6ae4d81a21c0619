#include "supervise/stacks.h"

#include <algorithm>
#include <csignal>

#include "supervise/kernel.h"

namespace rankshim::supervise {

std::chrono::milliseconds time_for_stacks(std::chrono::milliseconds grace) {
  return std::min(grace / 5, std::chrono::milliseconds{1000});
}

std::size_t ask_for_stacks(const std::vector<Process>& processes) {
  std::size_t alive = 0;
  for (const Process& process : processes) {
    if (!process.alive()) continue;
    ++alive;
    kernel::forbid_core(process.pid);  // should its number be another's by now, no harm is done
  }
  send_each(processes, SIGABRT, nullptr);
  return alive;
}

std::string where_they_wait(const std::vector<Process>& processes) {
  constexpr std::size_t named_at_most = 5;
  std::size_t named = 0;
  std::string names;
  for (const Process& process : processes) {
    if (!process.alive() || ++named > named_at_most) continue;
    std::string name = read_proc(process.pid, "comm", 64).value_or("?");
    while (name.ends_with('\n')) name.pop_back();
    names += (names.empty() ? "" : ", ") + std::to_string(process.pid) + " (" + name + ", " +
             read_proc(process.pid, "wchan", 64).value_or("?") + ")";
  }
  if (named > named_at_most) names += " and " + std::to_string(named - named_at_most) + " more";
  return names;
}

}  // namespace rankshim::supervise
