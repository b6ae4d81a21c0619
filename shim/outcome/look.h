#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "outcome/outcome.h"

/// What a worker does, as it is seen from outside. look/ reads it on each node, the link carries it to node
/// 0, and outcome/hang.h decides who hangs.
namespace rankshim::outcome {

/// How far a worker has come in one of torch's process groups. torch counts a group's collectives from 1.
struct GroupProgress {
  std::string name;         ///< torch's, equal on all members and different for each group: "0"
  std::string description;  ///< what the script calls it: "default_pg", "mesh_dp"; empty if it has none
  std::vector<RankRange> members;  ///< by their ranks in the job
  std::uint64_t entered = 0;       ///< the number of the last collective that this worker has entered
  std::uint64_t ended = 0;         ///< and of the last that has ended; not above `entered`
  std::string operation;           ///< what it entered last: "all_reduce"; empty if it is unknown

  bool operator==(const GroupProgress&) const = default;
};

/// A look at one worker.
struct WorkerLook {
  unsigned rank = 0;      ///< in the job
  std::uint32_t pid = 0;  ///< on its node
  char state = '?';    ///< of its main thread, as in proc(5): R, S, T; D only if it was D throughout the look
  std::string kernel;  ///< the kernel's function in which that thread waits; empty if it runs, or unknown
  std::optional<bool>
      works;               ///< since the look before: it computes, reads or writes; nullopt if there was none
  bool polls = false;      ///< it works, and all of that is that it wakes up often
  bool holds_gil = false;  ///< in a C call of its main thread: nothing else of its Python runs meanwhile
  std::vector<Frame> stack;  ///< of its main thread, the innermost call first; empty if it cannot be read
  std::string below;  ///< a process below it for which it may wait: "python3 (pid 81): S, hrtimer_nanosleep"
  std::vector<GroupProgress> groups;
};

}  // namespace rankshim::outcome
