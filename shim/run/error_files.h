#pragma once

#include <string>

#include "launchers/launcher.h"
#include "launchers/python_error.h"
#include "link/message.h"
#include "report/verdict.h"
#include "run/run.h"
#include "supervise/exit_record.h"

namespace rankshim::run {

/// The files in which the workers and the launcher describe why they failed.
class ErrorFiles {
 public:
  /// Create it before the command starts: if the user named the launcher's file, an earlier run may have left
  /// one. `environment` is the command's, and `folder` rankshim's.
  ErrorFiles(const Run& run, const launchers::Job& job, const node::Environment& environment,
             const launchers::OwnFolder& folder);

  /// Collects what the workers, the launcher and the kernel left about this end, redacted. `is_unused`:
  /// nothing was written to rankshim's folder.
  [[nodiscard]] report::Details gather(const supervise::ExitRecord& record, bool is_unused = false) const;

  /// Describes a worker that has just failed to the other nodes, with its exception redacted. `folder` is
  /// where the launcher's workers write their errors.
  [[nodiscard]] outcome::Culprit failure_of(const supervise::WorkerEnd& worker,
                                            const std::string& folder) const;
  /// Whether the exception that a worker has just written to `folder` shows that it lost its peer or waited
  /// for it in vain.
  [[nodiscard]] bool is_victims(unsigned local_rank, const std::string& folder) const;

  /// Whether the exception of a program, or of a worker of its own, says that it waited in vain.
  [[nodiscard]] bool has_timed_out() const;

 private:
  [[nodiscard]] launchers::PythonError read(const std::string& path) const;

  const Run& run_;
  const launchers::Job& job_;
  const std::string failure_;           // torchrun's; empty if there is none
  const std::string launchers_;         // empty if it is not read
  const std::string launchers_before_;  // its content
};

}  // namespace rankshim::run
