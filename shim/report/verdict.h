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

/// The command's own end counts, after a stop too. Under torchrun, whose code is 1 whatever happened once it was stopped
/// (research: torchrun, "Exit codes"), a stop that did not end in 0 is 128 + the stop's signal, also where the KILL was
/// ours.
Verdict judge(const supervise::Ending& ending, const LaunchPlan& plan);

}  // namespace rankshim
