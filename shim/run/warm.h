#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "node/process.h"
#include "report/snapshot.h"
#include "run/launch.h"

namespace rankshim::run {

/// Warm prepares an attempt ahead of time (--warm): the processes that it will start are already running, and
/// have imported what their script imports first (supervise/prepared.h). The first attempt is prepared while
/// the nodes meet, and each next one while an attempt trains. All of this is secondary: whatever Warm cannot
/// do, the attempt does itself, as it would without Warm. `rankshim status` shows what is prepared.
class Warm {
 public:
  /// `input` must live as long as the run.
  explicit Warm(const AttemptInput& input);
  ~Warm();
  Warm(const Warm&) = delete;
  Warm& operator=(const Warm&) = delete;

  /// Call this when the nodes are about to meet for this attempt: unless they are there already, its
  /// processes are started once the meeting has taken a tenth of a second. `waits`: something else is waited
  /// for besides the other nodes. If nothing is waited for at all, this does nothing, because an ordinary
  /// start would be just as quick.
  void before_meeting(unsigned number, bool waits);

  /// Prepares the next attempt while one runs. Call this when a failure would be followed by another attempt.
  /// The processes are started one after another, if there is room in memory, once the running attempt has
  /// started up: when all of its workers have a process group, or a minute has passed. `master_address` is
  /// where it found the master.
  void prepare_next(const Launch& running, const std::optional<std::string>& master_address);

  /// Prepares the attempt in which this node, which waits as a spare, may take another's place.
  void prepare_spare(unsigned number);

  /// What was prepared for this attempt, to be started by supervise(); null if there is nothing, or not what
  /// this attempt needs.
  std::unique_ptr<Launch> take(unsigned number, const std::optional<std::string>& master_address);

  /// Call this when what take() returned was started: logs which processes could not be used.
  void started();

  /// Ends what was prepared, because no attempt will follow.
  void drop();

  /// The processes that are prepared, and those that were and may still be ending. They are not part of the
  /// running attempt.
  [[nodiscard]] std::vector<node::Process> processes() const;

 private:
  [[nodiscard]] std::optional<report::PreparedAttempt> status() const;

  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace rankshim::run
