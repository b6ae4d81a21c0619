#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "outcome/outcome.h"

namespace rankshim::outcome {

/// Why a job that could have been restarted is not. Node 0 decides it, and tells the other nodes;
/// report/wording.h has the sentences.
struct NotRestarted {
  enum class Why : std::uint8_t {
    all_used,        ///< all restarts are used
    permanent,       ///< by --permanent
    hung_again,      ///< twice in a row at the same lines and collective
    raised_again,    ///< twice in a row the same exception, soon after the start
    stopped,         ///< this node was stopped
    left_processes,  ///< SIGKILL did not end all of this node's processes
    no_spare,        ///< a node was stopped, and no spare can take over
    node_gone,       ///< it was about to be, but `gone` has left since, and no spare can take over
  };
  Why why = Why::all_used;
  unsigned used = 0, most = 0;                      ///< for all_used
  std::optional<std::chrono::milliseconds> within;  ///< for all_used, as the option says
  bool of_the_job = false;                          ///< for all_used: by --job-restarts, not --max-restarts
  std::optional<int> code;                          ///< for permanent: the exit code; nullopt: the cause
  Cause cause = Cause::none;                        ///< for permanent
  std::optional<Culprit> gone;                      ///< for node_gone: a node that was stopped or lost
  bool was_spare = false;                           ///< for node_gone

  bool operator==(const NotRestarted&) const = default;
};

}  // namespace rankshim::outcome
