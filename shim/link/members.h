#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rankshim::link {

/// For each node rank of the job, the index of the node that has it.
using Assignment = std::vector<unsigned>;

/// A node of the job over all its attempts.
struct Member {
  enum class State : std::uint8_t {
    missing,  ///< it has never come
    active,   ///< it has a rank
    spare,    ///< it waits beside the job
    aside,    ///< the same, and it is the last that gets a rank: its workers failed again and again
    lost,     ///< it went away, or cannot take part
    drained,  ///< it was stopped from outside
  };
  State state = State::missing;
  std::optional<unsigned> rank;  ///< in this attempt or, where it may come back, in the last
  unsigned failures = 0;         ///< how many of the job's failures in a row it has caused

  /// It does not come to the next meeting, unless as a new container.
  [[nodiscard]] bool is_gone() const { return state == State::lost || state == State::drained; }
};

/// A word for reports and the status: "spare", "put aside", …
std::string_view word(Member::State state);

/// Members is who has which rank, over all attempts of a job with spares. The platform gives each node an
/// index, of which the first ones train at first. Who has rank 0 hosts the master. Pure.
class Members {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// A node that had a rank for a while.
  struct Tenure {
    unsigned rank = 0;
    unsigned index = 0;
    std::string host;
    Time since;
    std::optional<Time> until;  ///< another one has it since
    std::string why;            ///< "lost", "stopped", "put aside" or "started anew"
  };

  /// Of `nodes`, `spares` wait.
  Members(unsigned nodes, unsigned spares);
  /// The same for a hub that takes over from another one: who had which rank the nodes say as they come.
  static Members taken_over(unsigned nodes, unsigned spares);
  /// That node has had this rank since. Indices that the job does not have are ignored, here and in gone():
  /// another node said them.
  void held(unsigned rank, unsigned index, const std::string& host, Time since);

  [[nodiscard]] const std::vector<Member>& all() const { return members_; }
  /// How many nodes train.
  [[nodiscard]] unsigned ranks() const { return ranks_; }
  [[nodiscard]] bool has_spares() const { return members_.size() > ranks_; }
  /// The ranks that have had more than one node, each with all of them in turn.
  [[nodiscard]] std::vector<Tenure> history() const;

  /// Who gets which rank of the nodes that are here; nullopt: not yet. Each keeps its rank. Holes are filled
  /// from the lowest, first with healthy spares, then with those that were put aside. `is_patient`: others
  /// that are no worse may still come, of which the holder of a rank is waited for and, at first, everybody.
  [[nodiscard]] std::optional<Assignment> assign(const std::vector<bool>& is_here, bool is_patient) const;

  /// The nodes that are here were launched with these ranks, or wait. `hosts` are their names, by index.
  void launched(const Assignment& ranks, const std::vector<bool>& is_here,
                const std::vector<std::string>& hosts, Time now);
  /// A node went away (lost), was stopped (drained), or cannot take part (lost).
  void gone(unsigned index, Member::State how) {
    if (index < members_.size()) members_[index].state = how;
  }
  /// It is there again, as a new container.
  void came_back(unsigned index);
  /// A failure of this node's own ended an attempt, and none of another node did since its last.
  void failed(unsigned index);

 private:
  static constexpr unsigned most_failures = 2;

  [[nodiscard]] bool is_healthy(unsigned index) const { return members_[index].failures < most_failures; }

  [[nodiscard]] std::string_view why_replaced(const Tenure& last, unsigned index,
                                              const std::vector<bool>& is_here) const;

  std::vector<Member> members_;
  unsigned ranks_;
  bool was_launched_ = false;
  std::vector<Tenure> tenures_;  ///< in their order
};

}  // namespace rankshim::link
