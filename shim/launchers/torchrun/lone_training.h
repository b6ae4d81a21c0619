#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Whether the command's processes train on this node alone although the job has several nodes. This works
/// with any launcher, because the workers' variables show it.
namespace rankshim::torchrun {

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
  std::string name;  ///< "torchrun", "run.sh": for messages
  /// WORLD_SIZE of a worker, which is a process that also has a LOCAL_RANK; 0 for other processes.
  unsigned world_size = 0;
  unsigned local_rank = 0;
  unsigned local_world_size = 0;  ///< 0 if it is not set
  unsigned spawned_world = 0;  ///< WORLD_SIZE of a process without a LOCAL_RANK, which may have any meaning
  std::string alone_by;        ///< for a torchrun: the flag on its command line that keeps it on this node
  bool meets_on_loopback = false;  ///< that flag is an endpoint on loopback
};

/// The sentence about a node that trains alone: "this node trains alone: worker 4711 (torchrun, started by
/// run_train.sh) has WORLD_SIZE=8, but the job has 16"; or with fewer nodes than this one was told of. Empty
/// if there is no sign of it, and if any worker has the job's size or a larger one: then a smaller one is a
/// helper (an evaluation, an inference engine).
std::string lone_training(const std::vector<SeenProcess>& processes, const JobSize& job);

/// The command and its descendants; empty if /proc does not show them. A process that waits in the kernel is
/// left out, because reading its environment could block. `own_name` as in JobSize.
std::vector<SeenProcess> see_processes(pid_t command, const std::vector<std::string>& own_environment,
                                       std::string_view own_name);

/// The name and, for a torchrun, the flag that keeps it on its node, from a command line in the form of
/// /proc/PID/cmdline.
SeenProcess read_command_line(std::string_view words, std::string_view own_name = {});

}  // namespace rankshim::torchrun
