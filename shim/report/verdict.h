#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "init/ending.h"
#include "launch/launch.h"
#include "report/details.h"
#include "settings/exit_map.h"

namespace rankshim {

/// Who failed first by itself, and how.
struct RootCause {
  std::string_view who;  ///< "worker", "launcher", "program"
  std::optional<unsigned> local_rank;
  std::optional<unsigned> rank;
  pid_t pid = 0;
  int code = 0;                        ///< in the shell's convention
  std::optional<int> signal;           ///< that ended it
  bool out_of_memory = false;          ///< the kernel killed it, or a process of it, at the cgroup's limit
  bool lost_peer = false;              ///< as a worker ends whose peer on another node is gone (lost_peer.h)
  const PythonError* error = nullptr;  ///< into the details; null where it left none
  std::string_view source;             ///< who told: "kernel", "error file"
  std::optional<std::chrono::steady_clock::time_point> when;
};

/// How it ended, for the exit code and for a person.
struct Verdict {
  int code = 0;
  Cause cause = Cause::none;
  std::string sentence;  ///< "train.py ended with code 3 after 12 s"
  bool failed = false;   ///< worth an error line
  bool is_told = false;  ///< stderr has the sentence already
  std::optional<RootCause> root;
};

/// The command's own end counts, after a stop too. Under torchrun, whose code is 1 whatever happened
/// (research: torchrun, "Exit codes"), in this order: the first worker of the last set that failed by itself,
/// before any stop and before the agent's end; 0 if all workers had ended with 0 before a stop; 128 + the
/// stop's signal, however the workers ended then: a job that was stopped is not done; torchrun's own code,
/// also where torchrun failed itself and ended its workers. Where --strict ended a node that trains alone,
/// that is the cause, and 78. `place` is this node's among the job's, nothing where it is alone.
/// `launcher_code`: torchrun's own code always (--exit-code launcher). `details` must outlive the verdict.
Verdict judge(const supervise::Ending& ending, const LaunchPlan& plan, const Details& details,
              const std::optional<supervise::NodePlace>& place = std::nullopt, bool launcher_code = false);

}  // namespace rankshim
