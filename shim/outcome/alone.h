#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace rankshim::outcome {

/// A node trains without the others, or without some of them, although the job has several nodes.
struct LoneTraining {
  /// What shows it.
  enum class Sign : std::uint8_t {
    world_size,     ///< a worker's WORLD_SIZE is too small
    launcher_flag,  ///< an option keeps the launcher on this node
    process_group,  ///< each worker has only itself in its default group, which no variable shows
  };
  Sign sign = Sign::world_size;
  std::string who;          ///< "worker 12 (torchrun)", "rank 8"
  bool meets_some = false;  ///< for world_size: it has met some of the other nodes
  unsigned world = 0;       ///< for world_size: the worker's
  unsigned expected = 0;    ///< for world_size: the number of workers in the job
  std::string flag;         ///< for launcher_flag: "--standalone"
  unsigned nodes = 0;       ///< the job's, except for world_size

  bool operator==(const LoneTraining&) const = default;
};

/// A launcher's agent was connected to no other node until its time was over.
struct Unreached {
  std::string master;  ///< "job-master-0:29500"
  std::chrono::milliseconds limit{0};
};

}  // namespace rankshim::outcome
