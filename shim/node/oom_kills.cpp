#include "node/oom_kills.h"

#include <algorithm>
#include <utility>

namespace rankshim::node {

namespace {

/// A script notices that its child is gone when it next looks for its work: torch's DataLoader after 5 s at
/// most (torch/utils/data/_utils, MP_STATUS_CHECK_INTERVAL), plus a step of the training.
constexpr std::chrono::seconds until_noticed{60};

}  // namespace

bool OomKills::count(std::uint64_t kills, Clock::time_point now) {
  if (kills <= kills_) return false;
  kills_ = kills;
  rose_ = now;
  outlived_.clear();
  return true;
}

void OomKills::outlived(std::uint64_t kills, std::vector<pid_t> processes) {
  if (kills == kills_) outlived_ = std::move(processes);
}

OomEvidence OomKills::evidence(pid_t process, std::optional<Clock::time_point> started,
                               Clock::time_point now) const {
  if (kills_ == 0) return {};
  const bool lately = now - rose_ < until_noticed;
  const bool was_there = started ? *started < rose_ : lately;
  return {.own = was_there && std::ranges::count(outlived_, process) == 0, .of_child = lately};
}

}  // namespace rankshim::node
