#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "loop/timer.h"
#include "supervise/launcher.h"

/// Any command of a job, and whether its processes train on this node alone although the job has several
/// nodes. This works with any launcher, because the workers' variables show it.
namespace rankshim::torchrun {

/// The size that the job should have.
struct JobSize {
  unsigned nodes = 0;        ///< the minimum for an elastic job; below 2 there is nothing to check
  unsigned workers = 0;      ///< on this node, if known
  bool on_loopback = false;  ///< its master is on loopback: several nodes are being tried on one machine
  std::string own_name;      ///< of a node that is not the master: an endpoint there meets nobody
};

/// A process according to /proc.
struct SeenProcess {
  pid_t pid = 0;
  pid_t parent = 0;
  std::string name;         ///< "torchrun", "run.sh": for messages
  unsigned world_size = 0;  ///< 0 if it is not set; of a process that is no worker, it may have any meaning
  std::optional<unsigned> local_rank;  ///< of a worker
  unsigned local_world_size = 0;       ///< 0 if it is not set
  std::string alone_by;  ///< for a torchrun: the flag on its command line that keeps it on this node

  /// WORLD_SIZE of a process without a LOCAL_RANK.
  [[nodiscard]] unsigned spawned_world() const { return local_rank ? 0 : world_size; }
};

/// The name and, for a torchrun, the flag that keeps it on its node.
SeenProcess seen_by_words(const std::vector<std::string>& words, const JobSize& job = {});

/// The sentence about a node that trains alone: "this node trains alone: worker 4711 (torchrun, started by
/// run_train.sh) has WORLD_SIZE=8, but the job has 16"; or with fewer nodes than this one was told of. Empty
/// if there is no sign of it, and if any worker has the job's size or a larger one: then a smaller one is a
/// helper (an evaluation, an inference engine).
std::string lone_training(const std::vector<SeenProcess>& processes, const JobSize& job);

/// Any command of a job, for the supervisor. A few looks soon after the start find out whether it trains
/// alone. That is a warning, and with --strict a stop.
class Program : public supervise::Launcher {
 public:
  Program(const JobSize& job, bool strict) : job_(job), strict_(strict) {}

  void started(boost::asio::io_context& io, const std::vector<pid_t>& processes, Clock::time_point when,
               const std::vector<std::string>& environment) override;
  void stop_passed_on(int /*signal*/, std::optional<std::chrono::milliseconds> /*grace*/) override {
    drop(Task::look);
  }
  void command_ended() override;

 protected:
  /// What is done at a moment while the command runs.
  enum class Task : std::uint8_t { look, meet, stop_agent, name_hanging, end_late };
  /// Does it at `when`, and not at the moment that was planned for it before.
  void plan(Task task, Clock::time_point when, std::function<void()> act);
  void drop(Task task) { timers_.erase(task); }

  [[nodiscard]] pid_t command() const { return command_; }
  [[nodiscard]] Clock::time_point started_at() const { return started_; }
  [[nodiscard]] const std::vector<std::string>& environment() const { return *environment_; }

 private:
  void look(std::size_t number);

  const JobSize job_;
  const bool strict_;
  pid_t command_ = 0;
  Clock::time_point started_;
  const std::vector<std::string>* environment_ = nullptr;
  boost::asio::io_context* io_ = nullptr;  // while the command runs
  std::map<Task, loop::Timer> timers_;
};

}  // namespace rankshim::torchrun
