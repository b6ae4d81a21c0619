#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "launchers/launcher.h"
#include "link/members.h"
#include "link/message.h"
#include "link/succession.h"
#include "settings/settings.h"

namespace rankshim::run {

/// The attempts of a job that is started again in place: which one this is, and which failures are followed
/// by another. By --job-restarts for the whole job; on a lone node also by --max-restarts of the native
/// launcher, which restarts after every failure. Pure: times come in.
class Attempts {
 public:
  using Time = std::chrono::steady_clock::time_point;

  Attempts(const settings::Settings& settings, const launchers::Job& job);
  /// Nobody finds this node any more: it takes no further part.
  ~Attempts();
  Attempts(Attempts&&) = default;
  Attempts& operator=(Attempts&&) = default;

  /// Whether any failure is followed by another attempt.
  [[nodiscard]] bool allowed() const { return limit_.most != 0; }
  /// Whether a failure of this attempt may be followed by another one.
  [[nodiscard]] bool may_go_on() const {
    return allowed() && (limit_.within.has_value() || counted() < limit_.most);
  }
  /// Whether --job-restarts allows it: all nodes must be linked.
  [[nodiscard]] bool of_the_job() const { return of_the_job_; }
  /// This attempt's number, from 0.
  [[nodiscard]] unsigned number() const { return number_; }

  /// How many of the attempts before this one have used up no restart.
  [[nodiscard]] unsigned uncounted() const { return uncounted_; }

  /// The command is about to be started. `number` and `uncounted` are node 0's: this container may be newer
  /// than the job.
  void begin(unsigned number, unsigned uncounted, Time now);
  /// Decides whether the job is started again after this stop: sets its `again`, or its `note`.
  void decide(link::Stop& stop, Time now);
  /// The job is started again. A spare that replaces a drained node uses up no restart: `is_counted` is
  /// false.
  void next(Time now, bool is_counted = true);
  /// When the next attempt may begin: at once after one that lasted for a minute, and after the first that
  /// did not. Each further one makes the pause twice as long, up to --restart-pause and half of
  /// --wait-timeout. Node 0's counts for the whole job.
  [[nodiscard]] Time earliest() const { return earliest_; }

  /// "restart 2 of 3, after a pause of 2 s", for the attempt to come.
  [[nodiscard]] std::string progress() const;

  /// The hub of a job with spares: who has which rank, over all attempts.
  std::shared_ptr<link::Members> members;
  /// Any node of a job with spares: where the hub is, over all attempts.
  std::shared_ptr<link::Succession> succession;

 private:
  [[nodiscard]] unsigned counted() const { return number_ - uncounted_; }
  [[nodiscard]] std::string why_not(const link::Stop& stop, Time now) const;
  [[nodiscard]] std::string lasting_failure(const link::Stop& stop, Time now) const;

  settings::RestartLimit limit_;
  bool of_the_job_ = false;
  settings::ExitPattern permanent_;
  std::chrono::milliseconds longest_pause_;
  std::chrono::milliseconds pause_{0};
  std::chrono::milliseconds next_pause_{0};  ///< after one more that ends soon
  unsigned number_ = 0;
  unsigned uncounted_ = 0;  ///< of these, those that used up no restart
  Time began_;
  Time earliest_;
  std::vector<Time> restarts_;  ///< that this container has seen
  std::string last_failure_;    ///< the last attempt's lasting_failure()
};

}  // namespace rankshim::run
