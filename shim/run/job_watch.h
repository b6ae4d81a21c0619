#pragma once

#include <memory>

#include "run/hang_watch.h"
#include "run/run.h"

namespace rankshim::run {

/// JobWatch shows a job to `rankshim status` for as long as it exists: what the workers are doing, and what a
/// HangWatch has found.
class JobWatch {
 public:
  /// `for_hangs`: whether this node runs a HangWatch for the job, with --hang-notice and --hang-timeout.
  JobWatch(const Run& run, const HangWatch::Target& job, bool for_hangs);
  ~JobWatch();
  JobWatch(const JobWatch&) = delete;
  JobWatch& operator=(const JobWatch&) = delete;

 private:
  Monitor& monitor_;
  std::unique_ptr<HangWatch> hangs_;
};

}  // namespace rankshim::run
