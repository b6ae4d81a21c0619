#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "init/tree.h"

namespace rankshim::torchrun {

enum class Presence : std::uint8_t {
  none,
  perhaps,  ///< a process is within execve(2): in a moment it can be told
  some,
};

/// Whether a launcher's agent has a worker now: a descendant whose environment has the LOCAL_RANK that the
/// launcher gives each of them and does not have itself. Where that cannot be told (no /proc, no right to
/// look, a launcher with a LOCAL_RANK of its own) any descendant counts, and if none can be seen, yes: better
/// wait than lose work.
Presence find_worker(pid_t agent, const std::vector<std::string>& agent_environment);

/// A launcher's workers now: its descendants that have a LOCAL_RANK, without what these started; its children
/// where it has one itself. Nothing where /proc does not tell.
std::optional<std::vector<supervise::Process>> workers_of(pid_t agent,
                                                          const std::vector<std::string>& agent_environment);

}  // namespace rankshim::torchrun
