#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace rankshim::supervise {

/// Whether a launcher's agent has a worker now: a descendant whose environment has the LOCAL_RANK that the
/// launcher gives each of them and does not have itself. Where that cannot be told (no /proc, no right to
/// look, a launcher with a LOCAL_RANK of its own) any descendant counts, and if none can be seen, yes: better
/// wait than lose work.
bool has_worker(pid_t agent, const std::vector<std::string>& agent_environment);

}  // namespace rankshim::supervise
