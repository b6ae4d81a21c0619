#pragma once

#include <string>

#include "launch/launch.h"
#include "settings/exit_map.h"
#include "supervise/supervise.h"

namespace rankshim {

/// How it ended, for the exit code and for a person.
struct Verdict {
  int code = 0;
  Cause cause = Cause::none;
  std::string sentence;  ///< "train.py ended with code 3 after 12 s"
  bool failed = false;   ///< worth an error line
};

/// The command's own end counts, after a stop too. Under torchrun, whose code is 1 whatever happened
/// (research: torchrun, "Exit codes"), in this order: the first worker that failed by itself, before any
/// stop; 0 if all workers ended with 0; 128 + the stop's signal, also where the KILL was ours; torchrun's own
/// code.
Verdict judge(const supervise::Ending& ending, const LaunchPlan& plan);

}  // namespace rankshim
