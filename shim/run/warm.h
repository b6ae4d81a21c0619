#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "node/process.h"
#include "report/snapshot.h"
#include "run/launch.h"

namespace rankshim::run {

/// Warm prepares an attempt before its time (--warm): what it is to start runs already, and has imported what
/// its script imports first (supervise/prepared.h). The first attempt is prepared while the nodes meet, and
/// the next one while an attempt trains. Everything it does is secondary: what it cannot do, the attempt does
/// itself, as without it. `rankshim status` shows what is prepared.
class Warm {
 public:
  /// `input` lives as long as the run.
  explicit Warm(const AttemptInput& input);
  ~Warm();
  Warm(const Warm&) = delete;
  Warm& operator=(const Warm&) = delete;

  /// The nodes are about to meet for this attempt: unless they are there already, its processes are started
  /// when that has taken a tenth of a second. `waits`: something is waited for besides the other nodes. Where
  /// nothing is, they would not be ready sooner than by an ordinary start: nothing is done.
  void before_meeting(unsigned number, bool waits);

  /// An attempt runs, and after a failure the next one follows. Its processes are started one after another,
  /// if there is room in memory, once this attempt's start is over: when all of its workers have a process
  /// group, or a minute has passed. `master_address` is where this attempt has found the master.
  void beside(const Launch& running, const std::optional<std::string>& master_address);

  /// This node waits as a spare: the same for the attempt in which it may take a node's place.
  void beside_job(unsigned number);

  /// What was prepared for this attempt, to be started by supervise(); null if nothing was, or if it is not
  /// what this attempt needs.
  std::unique_ptr<Launch> take(unsigned number, const std::optional<std::string>& master_address);

  /// What take() has returned was started: tells which processes could not be used.
  void started();

  /// No attempt will follow: ends what was prepared.
  void drop();

  /// The processes that are prepared, and those that were and may be ending: the attempt that runs has
  /// nothing to do with them.
  [[nodiscard]] std::vector<node::Process> processes() const;

 private:
  [[nodiscard]] std::optional<report::PreparedAttempt> status() const;

  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace rankshim::run
