#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "node/process.h"

/// What /proc shows of a launcher. Its workers are the descendants whose environment has LOCAL_RANK, which it
/// sets for each worker and does not have itself.
namespace rankshim::torchrun {

enum class Presence : std::uint8_t {
  none,
  perhaps,  ///< a process is in the middle of execve(2): the answer is known in a moment
  hidden,   ///< its environment cannot be read
  some,
};

/// Whether a process below a launcher is a worker.
struct Candidate {
  Presence presence = Presence::none;
  std::string environment;  ///< as /proc gives it; empty if it is not known

  /// The number in a variable that the launcher has set for it.
  [[nodiscard]] std::optional<unsigned> number(std::string_view name) const;
};
Candidate look_at(const Process& process);

/// Whether such a launcher has a LOCAL_RANK itself: then its workers cannot be told from its other processes.
bool has_local_rank(const std::vector<std::string>& environment);

/// Whether the launcher has a worker now. A process whose environment is hidden counts, and any descendant if
/// the launcher has a LOCAL_RANK itself. If no descendants are visible, the answer is `some`: waiting is
/// better than losing work.
Presence find_worker(pid_t launcher, const std::vector<std::string>& environment);

/// The launcher's workers now, without their descendants; if it has a LOCAL_RANK itself, its children. None
/// if /proc does not show it.
std::vector<Process> workers_of(pid_t launcher, const std::vector<std::string>& environment);

/// Whether a launcher's agent waits for the other nodes, as far as it can be seen from outside: the agent, or
/// a process that it started, listens at the port of the store or is connected to it. Before that it imports
/// torch, which on a cold image takes minutes. False if /proc does not show it.
bool is_in_rendezvous(pid_t agent, std::uint16_t port);

/// The sockets that listen at `port` or are connected to it, from a table of /proc/PID/net (tcp, tcp6;
/// proc(5)), as /proc/PID/fd names them: "socket:[4711]".
std::set<std::string> sockets_at(std::string_view table, std::uint16_t port);

}  // namespace rankshim::torchrun
