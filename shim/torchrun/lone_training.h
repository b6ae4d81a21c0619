#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Whether what the command has started trains on this node alone though the job has several: whatever the
/// launcher, its workers' own variables say so.
namespace rankshim::torchrun {

/// What the job should have.
struct JobSize {
  unsigned nodes = 0;        ///< of an elastic job the fewest; below 2 nothing can be told
  unsigned workers = 0;      ///< on this node, as far as is known
  bool on_loopback = false;  ///< its master is this machine itself: a trial of several nodes on one machine
};

/// A process as /proc shows it.
struct SeenProcess {
  pid_t pid = 0;
  pid_t parent = 0;
  std::string name;  ///< "torchrun", "run.sh": what a person would call it
  /// WORLD_SIZE of a process that has a LOCAL_RANK too: a worker. 0: it is none.
  unsigned world_size = 0;
  unsigned local_rank = 0;
  unsigned local_world_size = 0;   ///< 0: it does not say
  unsigned spawned_world = 0;      ///< WORLD_SIZE of one without a LOCAL_RANK, which may be anybody's
  std::string alone_by;            ///< of a torchrun: the flag of its command line that keeps it on this node
  bool meets_on_loopback = false;  ///< that flag is an endpoint on loopback
};

/// The sentence about a node that trains alone: "worker 4711 (torchrun, started by run_train.sh) has
/// WORLD_SIZE=8, but the job has 16". Empty where nothing looks like that, and where any worker has the size
/// of a larger job: what is smaller beside it is a helper (an evaluation, an inference engine).
std::string lone_training(const std::vector<SeenProcess>& processes, const JobSize& job);

/// The command and its descendants; none where /proc does not tell. A process that waits in the kernel is
/// left out: reading its environment could wait with it.
std::vector<SeenProcess> see_processes(pid_t command, const std::vector<std::string>& own_environment);

/// The name and, of a torchrun, what keeps it on its node, of a command line as /proc/PID/cmdline has it.
SeenProcess read_command_line(std::string_view words);

}  // namespace rankshim::torchrun
