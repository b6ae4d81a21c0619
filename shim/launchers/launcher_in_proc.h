#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "node/process.h"

/// What /proc shows of a command. A launcher's workers are the descendants whose environment has LOCAL_RANK,
/// which it sets for each worker and does not have itself. Whether a node trains alone, the workers'
/// variables show with any launcher.
namespace rankshim::launchers {

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
  [[nodiscard]] std::optional<unsigned> number(std::string_view name) const {
    return first_number<unsigned>(node::value_in(environment, name));
  }
};
Candidate look_at(const node::Process& process);

/// Whether such a launcher has a LOCAL_RANK itself: then its workers cannot be told from its other processes.
bool has_local_rank(const std::vector<std::string>& environment);

/// Whether the launcher has a worker now. A process whose environment is hidden counts, and any descendant if
/// the launcher has a LOCAL_RANK itself. If no descendants are visible, the answer is `some`: waiting is
/// better than losing work.
Presence find_worker(pid_t launcher, const std::vector<std::string>& environment);

/// The launcher's workers now, without their descendants; if it has a LOCAL_RANK itself, its children. None
/// if /proc does not show it.
std::vector<node::Process> workers_of(pid_t launcher, const std::vector<std::string>& environment);

/// torchrun's own process: the command, or the torchrun that a program in front of it has started (`timeout
/// 60 torchrun`); the command if /proc does not show it.
node::Process find_agent(pid_t command);

/// Whether a launcher's agent waits for the other nodes, as far as it can be seen from outside: the agent, or
/// a process that it started, listens at the port of the store or is connected to it. Before that it imports
/// torch, which on a cold image takes minutes. False if /proc does not show it.
bool is_in_rendezvous(pid_t agent, std::uint16_t port);

/// The sockets that listen at `port` or are connected to it, from a table of /proc/PID/net (tcp, tcp6;
/// proc(5)), as /proc/PID/fd names them: "socket:[4711]".
std::set<std::string> sockets_at(std::string_view table, std::uint16_t port);

/// The size that the job should have.
struct JobSize {
  unsigned nodes = 0;        ///< the minimum for an elastic job; below 2 there is nothing to check
  unsigned workers = 0;      ///< on this node, if known
  bool on_loopback = false;  ///< its master is on loopback: several nodes are being tried on one machine
  std::string own_name;      ///< of a node that is not the master: an endpoint there meets nobody
};

/// A process according to /proc.
struct SeenProcess {
  pid_t pid = 0;
  pid_t parent = 0;
  std::string name;         ///< "torchrun", "run.sh": for messages
  unsigned world_size = 0;  ///< 0 if it is not set; of a process that is no worker, it may have any meaning
  std::optional<unsigned> local_rank;  ///< of a worker
  unsigned local_world_size = 0;       ///< 0 if it is not set
  std::string alone_by;  ///< for a torchrun: the flag on its command line that keeps it on this node

  /// WORLD_SIZE of a process without a LOCAL_RANK.
  [[nodiscard]] unsigned spawned_world() const { return local_rank ? 0 : world_size; }
};

/// The command and its descendants; none if /proc does not show them. A process that waits in the kernel is
/// left out, because reading its environment could block.
std::vector<SeenProcess> see_processes(pid_t command, const std::vector<std::string>& environment,
                                       const JobSize& job);

/// The name and, for a torchrun, the flag that keeps it on its node.
SeenProcess seen_by_words(const std::vector<std::string>& words, const JobSize& job = {});

/// That a node trains alone; both texts are empty if there is no sign of it.
struct LoneTraining {
  std::string warning;
  std::string in_short;  ///< once it has ended: "trained alone (world 8 of 16)"
};

/// The sentence about a node that trains alone: "this node trains alone: worker 4711 (torchrun, started by
/// run_train.sh) has WORLD_SIZE=8, but the job has 16"; or with fewer nodes than this one was told of. Empty
/// if there is no sign of it, and if any worker has the job's size or a larger one: then a smaller one is a
/// helper (an evaluation, an inference engine).
LoneTraining lone_training(const std::vector<SeenProcess>& processes, const JobSize& job);

}  // namespace rankshim::launchers
