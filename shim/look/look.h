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

/// What the workers of this node do, from outside: their state, their Python stacks, their collectives.
namespace rankshim::look {

/// A worker, and its rank in the job.
struct WorkerToSee {
  unsigned rank = 0;
  pid_t pid = 0;
};

/// Looker looks at workers, and knows how they were when it looked last.
class Looker {
 public:
  /// `folder` is where the workers' Python answers (look/progress.h); empty: it does not.
  Looker(boost::asio::io_context& io, std::string folder) : io_(io), folder_(std::move(folder)) {}

  /// A look at each of these, in their order; unless it is `full`, without stacks, operations and what is
  /// below them. What does not need an answer is read at once, before the first suspension: who ends in the
  /// meantime was seen. It takes some milliseconds, or half a second if somebody does not answer. No worker
  /// gets a signal, or stops for it. Why a stack cannot be read is logged, each reason once. Must not be
  /// cancelled, and `this` must live until its end.
  boost::asio::awaitable<std::vector<outcome::WorkerLook>> look(std::vector<WorkerToSee> workers, bool full);

 private:
  struct Known {
    Activity activity;
    std::chrono::steady_clock::time_point when;
    std::optional<Work> work = std::nullopt;  ///< from the look before until then
    std::uint64_t entered = 0;                ///< how many collectives it had entered then
  };
  [[nodiscard]] Known compare(pid_t pid, Known now) const;

  boost::asio::io_context& io_;
  std::string folder_;
  std::map<pid_t, Known> known_;  ///< as of the last look
  std::set<std::string> logged_;  ///< why stacks cannot be read
};

/// Whether a worker of a job with several nodes is alone in its default process group, so that it trains
/// alone: `file://`, or world_size=1 in the script, shows in no variable.
bool is_alone_in_its_group(const outcome::WorkerLook& look);

}  // namespace rankshim::look
