#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launchers/launcher_in_proc.h"
#include "loop/loop.h"
#include "node/host.h"
#include "supervise/supervise.h"
#include "topology/topology.h"

namespace rankshim::launchers {

/// The job's size, with which processes are compared; all zero if each worker has its own rankshim, or
/// nothing trains here.
JobSize size_of(const topology::Topology& topology, const node::Host& host);

/// Program is any command of a job, as the supervisor sees it. It looks at the processes a few times soon
/// after the start, and warns, or with --strict stops the command, if they train alone.
class Program : public supervise::Workers {
 public:
  /// `answers`: the folder where the workers' Python answers (look/progress.h); empty: none.
  Program(const JobSize& job, bool strict, std::string answers = {})
      : job_(job), strict_(strict), answers_(std::move(answers)) {}

  void prepare(boost::asio::io_context& io) override { io_ = &io; }
  void started(const std::vector<pid_t>& processes, Clock::time_point when,
               const std::vector<std::string>& environment) override;
  void stop_passed_on(const outcome::StopRequest& /*stop*/,
                      std::optional<std::chrono::milliseconds> /*grace*/) override {
    drop(Task::look);
  }
  void command_ended(const supervise::ExitRecord& record) override;
  /// The workers of a launcher inside the command, as /proc shows them. If there never were any, the
  /// processes that have a process group (torch.multiprocessing.spawn starts them in order of local rank), or
  /// else the command itself.
  [[nodiscard]] std::vector<supervise::WorkerState> running_workers() const override;

 protected:
  /// A task to be done at a certain time while the command runs.
  enum class Task : std::uint8_t { look, meet, stop_agent, name_hanging, end_late, outlive };
  /// Schedules the task for `when`, replacing any earlier schedule of it.
  void plan(Task task, Clock::time_point when, std::function<void()> act);
  void drop(Task task) { timers_.erase(task); }

  [[nodiscard]] pid_t command() const { return command_; }
  [[nodiscard]] Clock::time_point started_at() const { return started_; }
  [[nodiscard]] const std::vector<std::string>& environment() const { return *environment_; }

 private:
  void look(std::size_t number);
  [[nodiscard]] std::vector<supervise::WorkerState> answering(const std::vector<pid_t>& ever) const;

  const JobSize job_;
  const bool strict_;
  const std::string answers_;
  pid_t command_ = 0;
  mutable bool had_workers_ = false;  ///< running_workers() has found some
  Clock::time_point started_;
  const std::vector<std::string>* environment_ = nullptr;
  boost::asio::io_context* io_ = nullptr;  // until the command has ended
  std::map<Task, loop::Timer> timers_;
};

}  // namespace rankshim::launchers
