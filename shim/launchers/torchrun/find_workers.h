#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "supervise/tree.h"

namespace rankshim::torchrun {

enum class Presence : std::uint8_t {
  none,
  perhaps,  ///< a process is in the middle of execve(2): the answer is known in a moment
  some,
};

/// Whether a launcher's agent has a worker now: a descendant whose environment has LOCAL_RANK, which the
/// launcher sets for each worker and does not have itself. If that is not visible (no /proc, no permission,
/// or the launcher has a LOCAL_RANK itself), any descendant counts. If no descendants are visible, the answer
/// is yes: waiting is better than losing work.
Presence find_worker(pid_t agent, const std::vector<std::string>& agent_environment);

/// A launcher's workers now: its descendants that have a LOCAL_RANK, without their descendants; if the
/// launcher has a LOCAL_RANK itself, its children. Nothing if /proc does not show it.
std::optional<std::vector<supervise::Process>> workers_of(pid_t agent,
                                                          const std::vector<std::string>& agent_environment);

}  // namespace rankshim::torchrun
