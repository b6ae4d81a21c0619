#include "link/members.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <utility>

namespace rankshim::link {

std::string_view word(Member::State state) {
  static constexpr std::array<std::string_view, 6> words = {"missing",   "active", "spare",
                                                            "put aside", "lost",   "stopped"};
  return words[static_cast<std::size_t>(state)];
}

Members::Members(unsigned nodes, unsigned spares) : members_(nodes), tenures_(nodes - spares) {
  for (unsigned rank = 0; rank < ranks(); ++rank) members_[rank].rank = rank;
}

Members Members::taken_over(unsigned nodes, unsigned spares) {
  Members members(nodes, spares);
  for (Member& member : members.members_) member.rank.reset();
  members.was_launched_ = true;
  return members;
}

void Members::held(unsigned rank, unsigned index, const std::string& host, Time since) {
  const bool is_possible = rank < ranks() && index < members_.size();
  if (!is_possible || !tenures_[rank].empty() || members_[index].rank) return;
  members_[index].rank = rank;
  tenures_[rank].push_back({.rank = rank, .index = index, .host = host, .since = since, .why = {}});
}

std::optional<Assignment> Members::assign(const std::vector<bool>& is_here, bool is_patient) const {
  std::vector<std::optional<unsigned>> holders(ranks());
  std::vector<unsigned> healthy, aside;  // without a rank
  bool healthy_may_come = false;
  for (unsigned index = 0; index < members_.size(); ++index) {
    const Member& member = members_[index];
    if (!is_here[index]) {
      const bool may_come = is_patient && !member.is_gone();
      if (may_come && (member.rank || !was_launched_)) return std::nullopt;
      healthy_may_come = healthy_may_come || (may_come && is_healthy(index));
    } else if (member.rank && is_healthy(index)) {
      holders[*member.rank] = index;
    } else {
      (is_healthy(index) ? healthy : aside).push_back(index);
    }
  }
  const auto fill = [&](std::vector<unsigned>& from) {
    auto next = from.begin();
    for (auto& holder : holders)
      if (!holder && next != from.end()) holder = *next++;
    from.erase(from.begin(), next);
  };
  fill(healthy);
  const auto is_hole = [](const auto& holder) { return !holder; };
  if (healthy_may_come && std::ranges::any_of(holders, is_hole)) return std::nullopt;
  for (const unsigned index : aside)  // each gets its own rank back if possible
    if (const auto rank = members_[index].rank; rank && !holders[*rank]) holders[*rank] = index;
  std::erase_if(aside, [&](unsigned index) { return std::ranges::find(holders, index) != holders.end(); });
  fill(aside);
  if (std::ranges::any_of(holders, is_hole)) return std::nullopt;
  Assignment ranks;
  for (const auto& holder : holders) ranks.push_back(*holder);
  return ranks;
}

/// Why another container has taken over the rank.
std::string_view Members::why_replaced(const Tenure& last, unsigned index,
                                       const std::vector<bool>& is_here) const {
  const Member& member = members_[last.index];
  if (last.index == index) return "started anew";
  if (member.is_gone()) return word(member.state);
  return word(is_here[last.index] ? Member::State::aside : Member::State::lost);
}

void Members::launched(const Assignment& ranks, const std::vector<bool>& is_here,
                       const std::vector<std::string>& hosts, Time now) {
  was_launched_ = true;
  for (unsigned rank = 0; rank < ranks.size(); ++rank) {
    const unsigned index = ranks[rank];
    std::vector<Tenure>& tenures = tenures_[rank];
    if (!tenures.empty()) {
      Tenure& before = tenures.back();
      if (before.index == index && before.host == hosts[index]) continue;
      before.until = now;
      before.why = why_replaced(before, index, is_here);
    }
    tenures.push_back({.rank = rank, .index = index, .host = hosts[index], .since = now, .why = {}});
  }
  for (Member& member : members_) member.rank.reset();
  for (unsigned rank = 0; rank < ranks.size(); ++rank) members_[ranks[rank]].rank = rank;
  for (unsigned index = 0; index < members_.size(); ++index) {
    Member& member = members_[index];
    if (member.rank) {
      member.state = Member::State::active;
    } else if (is_here[index]) {
      member.state = is_healthy(index) ? Member::State::spare : Member::State::aside;
    } else if (member.state == Member::State::active) {
      member.state = Member::State::lost;  // it did not join in time; a spare may come a moment later
    }
  }
}

void Members::came_back(unsigned index) {
  Member& member = members_[index];
  if (member.rank)
    member.state = Member::State::active;
  else
    member.state = is_healthy(index) ? Member::State::spare : Member::State::aside;
}

void Members::failed(unsigned index) {
  for (Member& member : members_)
    if (&member != &members_[index] && member.failures < most_failures) member.failures = 0;
  ++members_[index].failures;
}

bool Members::has_replacement(unsigned index) const {
  if (index >= members_.size() || is_healthy(index)) return false;
  for (unsigned other = 0; other < members_.size(); ++other)
    if (members_[other].state == Member::State::spare && is_healthy(other)) return true;
  return false;
}

std::vector<Members::Tenure> Members::history() const {
  std::vector<Tenure> all;
  for (const std::vector<Tenure>& tenures : tenures_)
    if (tenures.size() > 1) std::ranges::copy(tenures, std::back_inserter(all));
  return all;
}

}  // namespace rankshim::link
