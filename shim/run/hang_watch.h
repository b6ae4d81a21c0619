#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "outcome/look.h"
#include "outcome/outcome.h"
#include "run/lookout.h"
#include "run/stall_clock.h"

namespace rankshim::run {

/// HangWatch warns of a job whose collectives have stalled, and ends it if asked to: on the hub for all
/// nodes, and on a node that is not linked for its own workers. It runs on the event loop until it is
/// destroyed.
class HangWatch {
 public:
  /// The job that it watches: how to look at it, and how to end it.
  struct Target {
    /// Looks at the job.
    std::function<boost::asio::awaitable<JobObservation>(link::LookMode mode)> look;
    /// Adds the culprit's node.
    std::function<outcome::Culprit(outcome::Culprit)> located;
    /// Ends the job because of this culprit, whom these looks have shown.
    std::function<void(const outcome::Culprit&, std::vector<outcome::WorkerLook>)> end;
  };

  /// `changed` is called when notice() has changed.
  HangWatch(boost::asio::io_context& io, StallClock::Rules rules, Target job, std::function<void()> changed);
  ~HangWatch();
  HangWatch(const HangWatch&) = delete;
  HangWatch& operator=(const HangWatch&) = delete;

  /// The ranks known to be slow.
  [[nodiscard]] std::vector<unsigned> stragglers() const;
  /// The last notice, until the job continues; empty if there is none.
  [[nodiscard]] const std::string& notice() const;

 private:
  struct State;
  static boost::asio::awaitable<void> watch(std::shared_ptr<State> state);
  static boost::asio::awaitable<void> examine(std::shared_ptr<State> state);

  std::shared_ptr<State> state_;
};

}  // namespace rankshim::run
