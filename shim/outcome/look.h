#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "outcome/outcome.h"

/// What a worker is doing, as seen from outside. look/ reads it on each node, the link carries it to node 0,
/// and outcome/hang.h decides who hangs.
namespace rankshim::outcome {

/// How far a worker has got in one of torch's process groups. torch counts a group's collectives from 1.
struct GroupProgress {
  std::string name;         ///< torch's name, the same on all members and different for each group: "0"
  std::string description;  ///< what the script calls it: "default_pg", "mesh_dp"; empty if it has none
  std::vector<RankRange> members;  ///< as ranks in the job
  std::uint64_t entered = 0;       ///< the number of the last collective that this worker has entered
  std::uint64_t ended = 0;         ///< and of the last one that has ended; not above `entered`
  std::string operation;           ///< what it entered last: "all_reduce"; empty if unknown

  bool operator==(const GroupProgress&) const = default;
};

/// A look at one worker.
struct WorkerLook {
  unsigned rank = 0;      ///< in the job
  std::uint32_t pid = 0;  ///< on its node
  char state = '?';  ///< of its main thread, as in proc(5): R, S, T; D only if it lasted throughout the look
  std::string kernel;  ///< the kernel function in which that thread waits; empty if it runs, or unknown
  std::optional<bool> works;  ///< it has computed or done I/O since the look before; nullopt: no such look
  bool polls = false;         ///< it works, but does nothing except wake up often
  bool holds_gil = false;     ///< during a C call of its main thread, so that no other Python code of it runs
  std::vector<Frame> stack;   ///< of its main thread, innermost call first; empty if unreadable
  std::string below;  ///< a descendant that it may be waiting for: "python3 (pid 81): S, hrtimer_nanosleep"
  std::vector<GroupProgress> groups;
};

}  // namespace rankshim::outcome
