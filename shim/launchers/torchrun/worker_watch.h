#pragma once

#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "launchers/launcher_in_proc.h"
#include "loop/loop.h"
#include "supervise/supervise.h"

/// Finds the launcher's workers and how each ended, because torchrun exits with 1 however they ended, and
/// they are torchrun's children, not rankshim's. No source shows everything:
///
/// - inotify on the log folder shows when a set of workers starts, but not their pids.
/// - /proc shows their pids, and their ranks once they have called exec. No event announces either, so it is
///   searched, in growing gaps, until the set is complete; at any other time, this would be polling.
/// - A pidfd shows at once that a worker has ended, but how, only since Linux 6.15 (PIDFD_GET_INFO).
/// - Before Linux 6.15, a zombie's /proc entry shows how, but only until torchrun reaps it.
/// - If torchrun itself has ended, rankshim reaps its workers, and wait4() gives their wait status.
namespace rankshim::launchers {

/// Follows the agent's workers from their start, without polling while they run: inotify on the launcher's
/// log folder shows when a set of workers starts, and a pidfd for each worker shows when it has ended. After
/// a restart the next set gets a new folder; after a change of membership, the same folder created anew. If
/// the kernel lacks or refuses something (inotify, pidfd, /proc), ends remain unknown, with no other effect.
class WorkerWatch {
 public:
  /// Create it before the command runs, so that nothing is missed. `log_folder` is the agent's --log_dir,
  /// which exists. `workers` is how many one attempt starts on this node. `record` receives what is known of
  /// the workers of the last set. `changed` is called with a worker's end when it has ended, and with null
  /// when another set starts. `seen` is called when workers were found.
  WorkerWatch(boost::asio::io_context& io, std::string log_folder, unsigned workers,
              supervise::WorkerRecord& record, std::function<void(const supervise::WorkerEnd*)> changed,
              std::function<void()> seen);

  /// Call this when the command runs: the agent, or a program that starts it.
  void follow(pid_t command) { command_ = command; }

  /// Handles everything that has happened since the last call.
  void look();

  /// Call this when a worker has ended. One that had lost its agent was reaped by rankshim, with this wait
  /// status.
  void on_end(pid_t pid, std::optional<int> status = std::nullopt);

  /// Call this when the agent has ended: no further attempt is expected, but workers that still run are
  /// followed to their ends.
  void agent_ended();

  /// Looks once more, then stops watching.
  void finish();

  /// How often /proc was searched for workers.
  [[nodiscard]] std::uint64_t looks() const { return looks_; }

 private:
  void watch_folder(const std::string& folder);
  void drop_watches(std::size_t most);
  void listen();
  bool read_events();
  void on_entry(const std::string& folder, const std::string& name);
  void begin_attempt(const std::string& folder);
  void take_numbers(const Candidate& worker);
  void take_folder_of(std::string_view environment);
  void look_soon();
  void look_for_workers();
  void add_worker(const node::Process& process);
  void take_ends();
  void wait_for_end(pid_t pid);

  boost::asio::io_context& io_;
  pid_t command_ = 0;
  const std::string log_folder_;
  const unsigned expected_;
  supervise::WorkerRecord& record_;
  const std::function<void(const supervise::WorkerEnd*)> changed_;
  const std::function<void()> seen_;
  boost::asio::posix::stream_descriptor inotify_;  // open as long as the agent runs
  std::map<int, std::string> folders_;             // by inotify's watch descriptor
  loop::Timer timer_;
  bool look_is_due_ = false;  // the timer is running
  std::uint64_t looks_ = 0;
  std::chrono::milliseconds gap_{1};             // between two looks
  std::chrono::steady_clock::time_point begun_;  // when the search for the current set began
  std::map<pid_t, boost::asio::posix::stream_descriptor> pidfds_;  // of the workers that are followed
  std::set<pid_t> known_;    // the workers of the last set, and any left from earlier ones
  bool restarted_ = false;   // the set that is searched for follows a restart
  unsigned most_nodes_ = 0;  // the most that the job ever had
};

}  // namespace rankshim::launchers
