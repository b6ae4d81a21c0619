#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/fact.h"
#include "base/text.h"
#include "node/process.h"
#include "outcome/alone.h"

/// Finds out from /proc what a command is running. A launcher's workers are the descendants whose environment
/// has LOCAL_RANK, which the launcher sets for each worker and does not have itself. With any launcher, the
/// workers' variables show whether a node trains alone.
namespace rankshim::launchers {

enum class Presence : std::uint8_t {
  none,
  perhaps,  ///< a process is in the middle of execve(2): ask again in a moment
  hidden,   ///< an environment cannot be read
  some,
};

/// A process below a launcher, and whether it is a worker.
struct Candidate {
  Presence presence = Presence::none;
  std::string environment;  ///< as in /proc; empty if unknown

  /// The number in a variable that the launcher set for it.
  [[nodiscard]] std::optional<unsigned> number(std::string_view variable) const {
    return first_number<unsigned>(node::value_in(environment, variable));
  }
  [[nodiscard]] std::optional<unsigned> rank() const { return number(variable_of(Fact::rank)); }
  [[nodiscard]] std::optional<unsigned> local_rank() const { return number(variable_of(Fact::local_rank)); }
  [[nodiscard]] std::optional<unsigned> world_size() const { return number(variable_of(Fact::world_size)); }
  [[nodiscard]] std::optional<unsigned> local_world_size() const {
    return number(variable_of(Fact::local_world_size));
  }
};
Candidate look_at(const node::Process& process);

/// Whether the launcher itself has a LOCAL_RANK, so that its workers cannot be told from its other processes.
bool has_local_rank(const std::vector<std::string>& environment);

/// Whether the launcher has a worker now. Processes whose environment is hidden count, and so does any
/// descendant if the launcher itself has a LOCAL_RANK. If no descendants are visible, the answer is `some`:
/// waiting is better than losing work.
Presence find_worker(pid_t launcher, const std::vector<std::string>& environment);

/// The launcher's current workers, without their descendants; its children if it has a LOCAL_RANK itself.
/// Empty if /proc does not show it.
std::vector<node::Process> workers_of(pid_t launcher, const std::vector<std::string>& environment);

/// torchrun's own process: the command, or the torchrun that a wrapper started (`timeout 60 torchrun`). The
/// command if /proc does not show it.
node::Process find_agent(pid_t command);

/// Whether a launcher's agent waits for the other nodes, as far as that is visible from outside: the agent,
/// or a process that it started, listens on the store's port or is connected to it. Before that it imports
/// torch, which takes minutes on a cold image. False if /proc does not show it.
bool is_in_rendezvous(pid_t agent, std::uint16_t port);

/// The sockets that listen on `port` or are connected to it, from a table in /proc/PID/net (tcp, tcp6;
/// proc(5)), as /proc/PID/fd names them: "socket:[4711]".
std::set<std::string> sockets_at(std::string_view table, std::uint16_t port);

/// The size that the job should have.
struct JobSize {
  unsigned nodes = 0;        ///< the minimum for an elastic job; below 2 there is nothing to check
  unsigned workers = 0;      ///< on this node, if known
  bool on_loopback = false;  ///< the master is on loopback: a trial of several nodes on one machine
  std::string own_name;      ///< of a node that is not the master: a rendezvous there meets nobody
};

/// A process, as seen in /proc.
struct SeenProcess {
  pid_t pid = 0;
  pid_t parent = 0;
  std::string name;                    ///< "torchrun", "run.sh": for messages
  unsigned world_size = 0;             ///< 0 if not set; may mean anything if the process is not a worker
  std::optional<unsigned> local_rank;  ///< of a worker
  unsigned local_world_size = 0;       ///< 0 if it is not set
  std::string alone_by;  ///< for a torchrun: the flag on its command line that keeps it on this node

  /// WORLD_SIZE of a process without a LOCAL_RANK.
  [[nodiscard]] unsigned spawned_world() const { return local_rank ? 0 : world_size; }
};

/// The command and its descendants; empty if /proc does not show them. A process that is stuck in the kernel
/// is left out, because reading its environment could block.
std::vector<SeenProcess> see_processes(pid_t command, const std::vector<std::string>& environment,
                                       const JobSize& job);

/// Fills in the name and, for a torchrun, the flag that keeps it on its node, from the words of a command
/// line.
SeenProcess seen_by_words(const std::vector<std::string>& words, const JobSize& job = {});

/// Checks whether a node trains alone, or with fewer nodes than the job has. nullopt if nothing suggests it,
/// or if any worker has the job's size or more: a smaller one is then a helper (an evaluation, an inference
/// engine).
std::optional<outcome::LoneTraining> lone_training(const std::vector<SeenProcess>& processes,
                                                   const JobSize& job);

}  // namespace rankshim::launchers
