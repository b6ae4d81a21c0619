#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launchers/launcher.h"
#include "link/members.h"
#include "link/message.h"
#include "link/succession.h"
#include "outcome/not_restarted.h"
#include "settings/settings.h"

namespace rankshim::run {

/// Counts the attempts of a job that is restarted in place, and decides which failures are followed by
/// another attempt: according to --job-restarts for the whole job, and on a lone node also to --max-restarts
/// of the native launcher, which restarts after every failure. Pure: times are passed in.
class Attempts {
 public:
  using Time = std::chrono::steady_clock::time_point;

  Attempts(const settings::Settings& settings, const launchers::Job& job);
  /// Makes this node unreachable for the others, because it takes no further part.
  ~Attempts();
  Attempts(Attempts&&) = default;
  Attempts& operator=(Attempts&&) = default;

  /// Whether any failure can be followed by another attempt.
  [[nodiscard]] bool allowed() const { return limit_.most != 0; }
  /// Whether a failure of this attempt may be followed by another attempt.
  [[nodiscard]] bool may_go_on() const {
    return allowed() && (limit_.within.has_value() || counted() < limit_.most);
  }
  /// Whether the attempts come from --job-restarts, for which all nodes must be linked.
  [[nodiscard]] bool of_the_job() const { return of_the_job_; }
  /// This attempt's number, from 0.
  [[nodiscard]] unsigned number() const { return number_; }

  /// How many of the previous attempts used up no restart.
  [[nodiscard]] unsigned uncounted() const { return uncounted_; }

  /// Call this when the command is about to be started. `number` and `uncounted` are node 0's, because this
  /// container may be newer than the job.
  void begin(unsigned number, unsigned uncounted, Time now);
  /// Decides whether the job is restarted after this stop: sets its `again`, or why not.
  void decide(link::Stop& stop, Time now);
  /// Counts the next attempt. A spare that replaces a drained node uses up no restart: then `is_counted` is
  /// false.
  void next(Time now, bool is_counted = true);
  /// When the next attempt may begin: at once after an attempt that lasted a minute, and after the first one
  /// that did not. Each further short attempt doubles the pause, up to --restart-pause and half of
  /// --wait-timeout. Node 0's value applies to the whole job.
  [[nodiscard]] Time earliest() const { return earliest_; }

  /// "restart 2 of 3, after a pause of 2 s", for the next attempt.
  [[nodiscard]] std::string progress() const;

  /// In a job with spares, at the hub: which node has which rank, over all attempts.
  std::shared_ptr<link::Members> members;
  /// In a job with spares, at any node: where the hub is, over all attempts.
  std::shared_ptr<link::Succession> succession;

 private:
  [[nodiscard]] unsigned counted() const { return number_ - uncounted_; }
  /// Why the job is not restarted after this stop; nullopt if it is.
  [[nodiscard]] std::optional<outcome::NotRestarted> why_not(const link::Stop& stop, Time now) const;
  [[nodiscard]] std::string lasting_failure(const link::Stop& stop, Time now) const;

  settings::RestartLimit limit_;
  bool of_the_job_ = false;
  settings::ExitPattern permanent_;
  std::chrono::milliseconds longest_pause_;
  std::chrono::milliseconds pause_{0};
  std::chrono::milliseconds next_pause_{0};  ///< after another attempt that ends soon
  unsigned number_ = 0;
  unsigned uncounted_ = 0;  ///< how many of these used up no restart
  Time began_;
  Time earliest_;
  std::vector<Time> restarts_;  ///< those that this container has seen
  std::string last_failure_;    ///< the last attempt's lasting_failure()
};

}  // namespace rankshim::run
