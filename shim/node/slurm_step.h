#pragma once

#include <sys/types.h>

#include <string_view>

#include "node/environment.h"

/// Tells how Slurm signals the step that rankshim runs in.
namespace rankshim::node {

/// Whether this slurm.conf makes slurmstepd signal every process of a step (proctrack/linuxproc). With
/// proctrack/cgroup it signals only its own children, with proctrack/pgid only their groups
/// (slurm/src/plugins/proctrack, proctrack_p_signal).
bool signals_every_process(std::string_view slurm_conf);

/// The Slurm step of this environment. Reads slurm.conf once, in the constructor: the file may be on a
/// network file system, and a signal must not wait for that.
class SlurmStep {
 public:
  explicit SlurmStep(const Environment& environment);

  /// Whether a signal from this sender has already reached everything below rankshim: the sender is
  /// slurmstepd, in a step of such a cluster. The deepest processes get it first (linuxproc/kill_tree.c). A
  /// batch script's own shell is signalled alone, and has no SLURM_STEP_ID. False if the sender or slurm.conf
  /// cannot be read: then a process may get a signal twice, but none is lost.
  [[nodiscard]] bool has_signalled_all(pid_t sender) const;

 private:
  bool signals_every_process_ = false;
};

}  // namespace rankshim::node
