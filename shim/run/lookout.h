#pragma once

#include <sys/types.h>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "link/link.h"
#include "look/look.h"
#include "loop/loop.h"
#include "outcome/alone.h"
#include "outcome/hang.h"
#include "outcome/look.h"
#include "outcome/outcome.h"
#include "run/stall_clock.h"
#include "supervise/supervise.h"

namespace rankshim::run {

/// What can be seen of all workers of a job at one moment.
struct JobObservation {
  std::map<unsigned, Collectives> running;     ///< by rank; without those that do not report their numbers
  std::vector<unsigned> succeeded;             ///< the ranks that exited 0
  std::map<unsigned, outcome::Place> victims;  ///< ranks that waited for others in vain, and exited
  std::vector<unsigned> raised;            ///< ranks whose script an exception has ended, but that still run
  std::vector<outcome::WorkerLook> looks;  ///< at the running ones and the victims; empty if not wanted
  std::size_t workers = 0;                 ///< how many there are, whether they run or have ended

  /// The looks at the running ones only.
  [[nodiscard]] std::vector<outcome::WorkerLook> living() const;
  /// Who hangs, judging by all this. What a rank does after its exception shows nothing.
  [[nodiscard]] std::optional<outcome::Culprit> find_hang() const;
};

/// Lookout knows what the workers of this node are doing in one attempt, and what they did before their
/// launcher killed them.
class Lookout : public std::enable_shared_from_this<Lookout> {
 public:
  /// `folder` is where the workers' Python answers (look/progress.h); empty if it does not. `nodes` is how
  /// many nodes the job has, if its workers should be in one process group.
  Lookout(boost::asio::io_context& io, const std::string& folder,
          const std::shared_ptr<supervise::Workers>& launcher, unsigned nodes)
      : io_(io), inspector_(io, folder), launcher_(launcher), nodes_(nodes), stays_(io.get_executor()) {}

  /// Call this when a worker has lost its peer, or waited for it in vain. Any worker that still runs may be
  /// the reason, and its launcher will kill it in a moment; so they are all looked at now, and rankshim
  /// itself stops none of them until that is done. `groups`: how far the failed worker's collectives were,
  /// according to itself; empty if unknown.
  void worker_suffered(unsigned local_rank, std::vector<outcome::GroupProgress> groups = {});

  /// Call this when a worker of a program has timed out. The program's launcher may let the others run on
  /// (mpiexec.hydra); then a warning says who hangs, a while later.
  void worker_timed_out(unsigned local_rank);

  /// How the workers are, and how far the running ones have got; `full`: also what they are doing, and what
  /// those did that worker_suffered() found alive.
  boost::asio::awaitable<link::Observation> look(bool full);

  /// The same for a node that is not linked with others.
  boost::asio::awaitable<JobObservation> look_at_own(bool full);

  /// Adds what NCCL itself says of all ranks' collectives (look/ras.h), if no worker's Python tells. This
  /// node needs a worker that runs. `nccl_ras_addr` is that variable's value.
  boost::asio::awaitable<JobObservation> with_nccl(JobObservation job, std::string nccl_ras_addr);

  /// How this node's workers ended, as far as is known, when all have; for those that a program started, from
  /// what worker_suffered() found.
  [[nodiscard]] std::vector<link::WorkerReport> ends(const std::vector<supervise::WorkerEnd>& known) const;

  /// Set if each worker that answered had only itself in its default group (`file://`, world_size=1 in the
  /// script).
  [[nodiscard]] const std::optional<outcome::LoneTraining>& lone_training() const { return lone_training_; }

  /// Call this when an exception has ended a worker's script. Warns if the process still exists a while
  /// later: a thread or an exit handler keeps it alive, and no launcher sees that it has failed.
  void worker_raised(unsigned local_rank);

  /// The local ranks of the workers of the last set that suffered, earliest first.
  [[nodiscard]] const std::vector<unsigned>& suffered() const { return suffered_; }
  /// What worker_suffered() found, by local rank.
  [[nodiscard]] const std::map<unsigned, outcome::WorkerLook>& last_seen() const { return last_seen_; }

 private:
  /// Holds the workers of a launcher for as long as it exists.
  struct Hold {
    explicit Hold(std::shared_ptr<supervise::Workers> held) : launcher(std::move(held)) { launcher->hold(); }
    Hold(Hold&&) = default;
    Hold(const Hold&) = delete;
    Hold& operator=(Hold&&) = delete;
    Hold& operator=(const Hold&) = delete;
    ~Hold() {
      if (launcher) launcher->release();
    }
    std::shared_ptr<supervise::Workers> launcher;
  };
  static boost::asio::awaitable<void> look_before_stop(std::shared_ptr<Lookout> self, Hold hold,
                                                       std::vector<supervise::WorkerState> workers);
  static boost::asio::awaitable<void> warn_of_it(std::shared_ptr<Lookout> self,
                                                 supervise::WorkerState worker);

  void add_seen(std::vector<link::WorkerReport>& workers) const;
  void warn_of_who_stays() const;
  void note_who_trains_alone(const std::vector<outcome::WorkerLook>& looks);
  boost::asio::awaitable<std::map<unsigned, outcome::WorkerLook>> look_at(
      std::vector<supervise::WorkerState> workers, bool full);

  boost::asio::io_context& io_;
  look::WorkerInspector inspector_;
  std::weak_ptr<supervise::Workers> launcher_;
  const unsigned nodes_;
  std::optional<outcome::LoneTraining> lone_training_;
  std::set<pid_t> seen_;  ///< those that worker_suffered() has looked at
  std::vector<unsigned> suffered_;
  std::map<pid_t, loop::Timer> raised_;  ///< until they should have exited
  std::set<unsigned> timed_out_;         ///< local ranks of the last set of workers
  loop::Timer stays_;                    ///< until all others should have exited, too
  std::map<unsigned, outcome::WorkerLook> last_seen_;
  std::map<pid_t, std::vector<outcome::GroupProgress>> told_;  ///< what was passed to worker_suffered()
};

/// What node 0 sees of the whole job.
boost::asio::awaitable<JobObservation> look_at_job(std::shared_ptr<link::Link> link, link::LookMode mode);

/// The answer to `rankshim status --stacks`: lines for a reader, at most 400, and, if somebody waits, `hang`,
/// the sentence about who hangs. `located` adds the culprit's node.
json::Object describe(const JobObservation& observation,
                      const std::function<outcome::Culprit(outcome::Culprit)>& located);

/// Reports on those workers whose end is known.
std::vector<link::WorkerReport> ends_of(const std::vector<supervise::WorkerEnd>& workers);

}  // namespace rankshim::run
