#include "run/stall_clock.h"

#include <algorithm>
#include <map>

namespace rankshim::run {
namespace {

constexpr unsigned looks_in_timeout = 5;
constexpr unsigned longer = 4;
constexpr std::size_t looks_at_last = 10;
constexpr std::size_t times_last = 9;
constexpr std::chrono::milliseconds shortest_pause{200};

/// Whether a worker's collective has ended in between. More workers waiting in their first one is not
/// progress: another rank may still be compiling.
bool has_ended_one(const std::map<unsigned, Collectives>& before,
                   const std::map<unsigned, Collectives>& after) {
  return std::ranges::any_of(after, [&](const auto& worker) {
    const auto known = before.find(worker.first);
    return known != before.end() && worker.second.ended > known->second.ended;
  });
}

/// Whether a worker has other numbers than before, or is new. One that is not there any more has ended, or
/// its Python does not answer now: neither is progress.
bool has_changed(const std::map<unsigned, Collectives>& before,
                 const std::map<unsigned, Collectives>& after) {
  return std::ranges::any_of(after, [&](const auto& worker) {
    const auto known = before.find(worker.first);
    return known == before.end() || known->second != worker.second;
  });
}

}  // namespace

StallClock::StallClock(Rules rules, Time now)
    : rules_(rules), interval_(rules.notice), next_(Time::max()), since_(now), notice_(rules.notice) {
  if (rules_.timeout != Milliseconds::zero()) {
    const auto by_timeout = std::max(shortest_pause, rules_.timeout / looks_in_timeout);
    interval_ = rules_.notice == Milliseconds::zero() ? by_timeout : std::min(interval_, by_timeout);
  }
  pause_ = std::min(pause_, interval_);
  if (is_on()) next_ = now + pause_;
}

std::optional<StallClock::Milliseconds> StallClock::saw(const std::map<unsigned, Collectives>& workers,
                                                        Time now) {
  pause_ = std::min(2 * pause_, interval_);
  next_ = now + pause_;
  std::optional<Milliseconds> stood;
  if (has_changed(workers_, workers)) {
    if (notice_ != rules_.notice) stood = std::chrono::duration_cast<Milliseconds>(now - since_);
    has_moved_ = has_moved_ || has_ended_one(workers_, workers);
    for (const auto& [rank, collectives] : workers) workers_[rank] = collectives;
    since_ = now;
    notice_ = rules_.notice;
    count_last(workers);
  }
  return stood;
}

StallClock::Milliseconds StallClock::stalled(Time now) const {
  if (!has_moved_) return Milliseconds::zero();
  return std::chrono::duration_cast<Milliseconds>(now - since_);
}

bool StallClock::ends(Time now, bool more_time) const {
  const auto after = more_time ? longer * rules_.timeout : rules_.timeout;
  return rules_.timeout != Milliseconds::zero() && stalled(now) >= after;
}

/// Records the ranks that do not wait while most do.
void StallClock::count_last(const std::map<unsigned, Collectives>& workers) {
  std::vector<unsigned> last;
  for (const auto& [rank, collectives] : workers)
    if (!collectives.waits()) last.push_back(rank);
  if (2 * last.size() > workers.size()) last.clear();
  last_.push_back(std::move(last));
  if (last_.size() > looks_at_last) last_.erase(last_.begin());
}

std::vector<unsigned> StallClock::stragglers() const {
  std::map<unsigned, std::size_t> times;
  for (const auto& ranks : last_)
    for (const unsigned rank : ranks) ++times[rank];
  std::vector<unsigned> slow;
  for (const auto& [rank, count] : times)
    if (count >= times_last) slow.push_back(rank);
  return slow;
}

}  // namespace rankshim::run
