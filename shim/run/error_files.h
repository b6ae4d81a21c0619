#pragma once

#include <string>

#include "init/ending.h"
#include "launch/job.h"
#include "launch/launch.h"
#include "report/details.h"
#include "run/run.h"
#include "torchrun/error_file.h"
#include "torchrun/torchrun_plan.h"

namespace rankshim {

/// Where the workers and the launcher leave word of why they failed.
class ErrorFiles {
 public:
  /// To be made before the command's start: where the user named the launcher's file, an earlier run may have
  /// left one. `folder` is our own.
  ErrorFiles(const Run& run, const Job& job, const OwnFolder& folder);

  /// What the workers, the launcher and the kernel have left to say of this end, redacted.
  [[nodiscard]] Details gather(const supervise::Ending& ending) const;

 private:
  const Run& run_;
  const Job& job_;
  const std::string launchers_;  // empty: it is to say nothing
  const FileState launchers_before_;
};

}  // namespace rankshim
