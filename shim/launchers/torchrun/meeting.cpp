#include "launchers/torchrun/meeting.h"

#include <algorithm>
#include <string>

#include "base/duration.h"
#include "base/log.h"
#include "launchers/torchrun/rendezvous.h"

namespace rankshim::torchrun {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds time_to_import{1000};  // if the time is over while it still imports

}  // namespace

Meeting::Meeting(const MeetingPlan& plan, pid_t agent, Clock::time_point started)
    : plan_(plan),
      agent_(agent),
      started_(started),
      logged_at_(started),
      due_(started + std::min(plan.log_interval, plan.limit.value_or(plan.log_interval))) {}

bool Meeting::is_over(Clock::time_point now) {
  const bool meets = is_in_rendezvous(agent_, plan_.port);
  if (meets && plan_.limit && now >= started_ + *plan_.limit) return true;
  if (now >= logged_at_ + plan_.log_interval) {
    logged_at_ += plan_.log_interval;
    const std::string since = seconds(std::chrono::duration_cast<milliseconds>(logged_at_ - started_));
    if (meets) {
      log::info("waiting for the other nodes: torchrun has no worker yet, {} after its start{}", since,
                plan_.limit ? "; at most " + seconds(*plan_.limit) : std::string());
    } else {
      log::info("torchrun has not reached the master's port yet, {} after its start: it is still importing",
                since);
    }
  }
  due_ = logged_at_ + plan_.log_interval;
  if (plan_.limit && due_ > started_ + *plan_.limit)
    due_ = std::max(started_ + *plan_.limit, now + time_to_import);
  return false;
}

}  // namespace rankshim::torchrun
