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
    missing,  ///< it has never joined
    active,   ///< it has a rank
    spare,    ///< it waits as a spare
    aside,    ///< a spare that gets a rank last, because its workers failed again and again
    lost,     ///< it went away, or cannot join
    drained,  ///< it was stopped from outside
  };
  State state = State::missing;
  std::optional<unsigned> rank;  ///< in this attempt or, if it may come back, in the last one
  unsigned failures = 0;         ///< how many consecutive failures of the job it has caused

  /// Whether it will not join the next meeting, unless as a new container.
  [[nodiscard]] bool is_gone() const { return state == State::lost || state == State::drained; }
};

/// A word for reports and the status: "spare", "put aside", …
std::string_view word(Member::State state);

/// Members keeps track of which node has which rank, over all attempts of a job with spares. The platform
/// gives each node an index, and the nodes with the lowest indices train first. The node with rank 0 hosts
/// the master. Pure.
class Members {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// The period for which a node had a rank.
  struct Tenure {
    unsigned rank = 0;
    unsigned index = 0;
    std::string host;
    Time since;
    std::optional<Time> until;  ///< when another node took over; nullopt if none has
    std::string why;            ///< "lost", "stopped", "put aside" or "started anew"
  };

  /// A job with that many nodes, of which `spares` wait.
  Members(unsigned nodes, unsigned spares);
  /// The same, for a hub that takes over from another one: the nodes tell who had which rank as they join.
  static Members taken_over(unsigned nodes, unsigned spares);
  /// Records that a node has had this rank since then. Ignores impossible indices, as does gone(), because
  /// they come from another node.
  void held(unsigned rank, unsigned index, const std::string& host, Time since);

  [[nodiscard]] const std::vector<Member>& all() const { return members_; }
  /// The number of nodes that train.
  [[nodiscard]] unsigned ranks() const { return static_cast<unsigned>(tenures_.size()); }
  [[nodiscard]] bool has_spares() const { return members_.size() > tenures_.size(); }
  /// The ranks that more than one node has had, each with all of them in order.
  [[nodiscard]] std::vector<Tenure> history() const;

  /// Assigns ranks to the nodes that are present; nullopt if it is too early. Each node keeps its rank. Free
  /// ranks are filled from the lowest, first with healthy spares, then with those that were put aside.
  /// `is_patient`: others may still come, so wait for the holders of ranks and, before the first launch, for
  /// all nodes; and for healthy nodes, rather than fill a free rank with one that was put aside.
  [[nodiscard]] std::optional<Assignment> assign(const std::vector<bool>& is_here, bool is_patient) const;

  /// Records that the nodes that are present were launched with these ranks, or wait. `hosts` are their
  /// names, by index.
  void launched(const Assignment& ranks, const std::vector<bool>& is_here,
                const std::vector<std::string>& hosts, Time now);
  /// Records that a node went away (lost), was stopped (drained), or cannot join (lost).
  void gone(unsigned index, Member::State how) {
    if (index < members_.size()) members_[index].state = how;
  }
  /// Records that a node has come back as a new container.
  void came_back(unsigned index);
  /// Records that this node's own failure ended an attempt. Only consecutive failures count.
  void failed(unsigned index);
  /// Whether a spare that waits takes over from this node, because its own failures have put it aside.
  [[nodiscard]] bool has_replacement(unsigned index) const;

 private:
  static constexpr unsigned most_failures = 2;

  [[nodiscard]] bool is_healthy(unsigned index) const { return members_[index].failures < most_failures; }

  [[nodiscard]] std::string_view why_replaced(const Tenure& last, unsigned index,
                                              const std::vector<bool>& is_here) const;

  std::vector<Member> members_;
  bool was_launched_ = false;
  std::vector<std::vector<Tenure>> tenures_;  ///< of each rank, in their order
};

}  // namespace rankshim::link
