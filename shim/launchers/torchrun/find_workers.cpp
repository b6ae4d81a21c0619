#include "launchers/torchrun/find_workers.h"

#include <algorithm>
#include <cerrno>

#include "base/text.h"

namespace rankshim::torchrun {

std::optional<unsigned> Candidate::number(std::string_view name) const {
  return first_number<unsigned>(value_in(environment, name));
}

Candidate look_at(const Process& process) {
  if (!process.alive()) return {};
  std::optional<std::string> environment = read_proc(process.pid, "environ");
  // A process that has ended meanwhile is no worker: a launcher starts short-lived helpers first.
  if (!environment) return {errno == ENOENT || errno == ESRCH ? Presence::none : Presence::hidden, {}};
  const Presence presence = environment->empty()                           ? Presence::perhaps
                            : value_in(*environment, "LOCAL_RANK").empty() ? Presence::none
                                                                           : Presence::some;
  return {presence, std::move(*environment)};
}

bool has_local_rank(const std::vector<std::string>& environment) {
  return std::ranges::any_of(environment, [](const auto& entry) { return entry.starts_with("LOCAL_RANK="); });
}

Presence find_worker(pid_t launcher, const std::vector<std::string>& environment) {
  const std::optional<std::vector<Process>> below = descendants(launcher);
  if (!below) return Presence::some;
  const bool any_counts = has_local_rank(environment);
  Presence found = Presence::none;
  for (const Process& process : *below) {
    if (any_counts && process.alive()) return Presence::some;
    found = std::max(found, look_at(process).presence);
  }
  return found == Presence::hidden ? Presence::some : found;
}

std::vector<Process> workers_of(pid_t launcher, const std::vector<std::string>& environment) {
  std::vector<Process> found = descendants(launcher).value_or(std::vector<Process>{});
  const bool children_count = has_local_rank(environment);
  std::erase_if(found, [&](const Process& process) {
    return children_count ? !process.alive() || process.parent != launcher
                          : look_at(process).presence != Presence::some;
  });
  const std::vector<Process> all = found;
  std::erase_if(found, [&](const Process& process) {
    return std::ranges::find(all, process.parent, &Process::pid) != all.end();
  });
  return found;
}

}  // namespace rankshim::torchrun
