#include "torchrun/meeting.h"

#include <algorithm>
#include <string>

#include "base/duration.h"
#include "base/log.h"
#include "torchrun/rendezvous.h"

namespace rankshim::torchrun {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds look_again{1000};  // if the time is over while it still imports

}  // namespace

Meeting::Meeting(const MeetingPlan& plan, pid_t agent, Clock::time_point started)
    : plan_(plan),
      agent_(agent),
      started_(started),
      told_(started),
      due_(started + std::min(plan.told_every, plan.limit.value_or(plan.told_every))) {}

bool Meeting::is_over(Clock::time_point now) {
  const bool meets = is_in_rendezvous(agent_, plan_.port);
  if (meets && plan_.limit && now >= started_ + *plan_.limit) return true;
  if (now >= told_ + plan_.told_every) {
    told_ += plan_.told_every;
    const std::string since = seconds(std::chrono::duration_cast<milliseconds>(told_ - started_));
    if (meets) {
      log::info("waiting for the other nodes: torchrun has no worker yet, {} after its start{}", since,
                plan_.limit ? "; at most " + seconds(*plan_.limit) : std::string());
    } else {
      log::info("torchrun has not reached the master's port yet, {} after its start: it is still importing",
                since);
    }
  }
  due_ = told_ + plan_.told_every;
  if (plan_.limit && due_ > started_ + *plan_.limit)
    due_ = std::max(started_ + *plan_.limit, now + look_again);
  return false;
}

}  // namespace rankshim::torchrun
