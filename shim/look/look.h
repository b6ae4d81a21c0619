#pragma once

#include <sys/types.h>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "look/activity.h"
#include "outcome/look.h"

/// Shows from outside what the workers of this node are doing: their state, Python stacks and collectives.
namespace rankshim::look {

/// A worker, and its rank in the job.
struct InspectedWorker {
  unsigned rank = 0;
  pid_t pid = 0;
};

/// WorkerInspector looks at workers, and compares them with how they were at its last look.
class WorkerInspector {
 public:
  /// `folder` is where the workers' Python answers (look/progress.h); empty if it does not.
  WorkerInspector(boost::asio::io_context& io, std::string folder) : io_(io), folder_(std::move(folder)) {}

  /// Looks at each of these workers, and returns the looks in the same order. Unless `full`, they lack
  /// stacks, operations and descendants. Whatever needs no answer is read at once, before the first
  /// suspension, so that a worker that ends in the meantime has still been seen. Takes a few milliseconds, or
  /// half a second if a worker does not answer. No worker gets a signal or is stopped. Logs why a stack
  /// cannot be read, each reason once. Must not be cancelled, and `this` must outlive it.
  boost::asio::awaitable<std::vector<outcome::WorkerLook>> look(std::vector<InspectedWorker> workers,
                                                                bool full);

 private:
  struct Known {
    Activity activity;
    std::chrono::steady_clock::time_point when;
    std::optional<Work> work = std::nullopt;  ///< between the look before and this one
    std::uint64_t entered = 0;                ///< how many collectives it had entered
  };
  [[nodiscard]] Known compare(pid_t pid, Known now) const;

  boost::asio::io_context& io_;
  std::string folder_;
  std::map<pid_t, Known> known_;  ///< as of the last look
  std::set<std::string> logged_;  ///< reasons why stacks cannot be read
};

/// Whether a worker of a job with several nodes is alone in its default process group, and so trains alone.
/// No variable shows that if the script uses `file://` or world_size=1.
bool is_alone_in_its_group(const outcome::WorkerLook& look);

}  // namespace rankshim::look
