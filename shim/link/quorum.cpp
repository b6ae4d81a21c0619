#include "link/quorum.h"

namespace rankshim::link {

bool is_quorum(const Term& term, std::span<const MemberId> group) {
  const auto is_in = [&](MemberId member) { return std::ranges::find(group, member) != group.end(); };
  const auto here = static_cast<std::size_t>(std::ranges::count_if(term.voters, is_in));
  return 2 * here > term.voters.size() || (2 * here == term.voters.size() && is_in(term.hub));
}

bool accepts(const std::optional<KnownTerm>& own, const KnownTerm& told) {
  if (!own || own->last.attempt < told.last.attempt) return true;
  return own->last.attempt == told.last.attempt && own->last.hub == told.last.hub;
}

bool may_go_on(const KnownTerm& known, std::span<const MemberId> group) {
  return is_quorum(known.last, group) && (!known.before || is_quorum(*known.before, group));
}

std::vector<MemberId> successors(const Term& term, std::span<const MemberId> ranked) {
  constexpr std::size_t most = 8;
  std::vector<MemberId> all;
  for (const MemberId member : ranked)
    if (all.size() < most && member != term.hub &&
        std::ranges::find(term.voters, member) != term.voters.end())
      all.push_back(member);
  return all;
}

}  // namespace rankshim::link
