#include "node/oom_kills.h"

#include <algorithm>
#include <utility>

namespace rankshim::node {

namespace {

/// How long a script may take to notice that its child is gone: torch's DataLoader looks after 5 s at most
/// (torch/utils/data/_utils, MP_STATUS_CHECK_INTERVAL), plus a training step.
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
