#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <optional>

#include "launchers/torchrun/lone_training.h"
#include "loop/timer.h"
#include "supervise/launcher.h"

namespace rankshim::torchrun {

/// Any command of a job, for the supervisor. A few looks soon after the start find out whether it trains
/// alone. That is a warning, and with --strict a stop.
class Program : public supervise::Launcher {
 public:
  Program(const JobSize& job, bool strict) : job_(job), strict_(strict) {}

  [[nodiscard]] supervise::WorkerRecord record() const override;

  void started(boost::asio::io_context& io, const std::vector<pid_t>& processes, Clock::time_point when,
               const std::vector<std::string>& environment) override;
  void stop_came() override;
  void command_ended() override { timer_.reset(); }

 protected:
  /// When look() is to be called; nothing: never.
  [[nodiscard]] virtual std::optional<Clock::time_point> due() const { return look_due_; }
  /// Does what is due.
  virtual void look();
  /// To be called when due() may have become earlier.
  void arm();

  [[nodiscard]] pid_t command() const { return command_; }
  [[nodiscard]] Clock::time_point start() const { return started_; }
  [[nodiscard]] const std::vector<std::string>& environment() const { return *environment_; }

 private:
  const JobSize job_;
  const bool strict_;
  pid_t command_ = 0;
  Clock::time_point started_;
  const std::vector<std::string>* environment_ = nullptr;
  std::optional<loop::Timer> timer_;  // while the command runs
  std::optional<Clock::time_point> look_due_;
  std::size_t looks_ = 0;  // so far
  std::string trains_alone_;
};

}  // namespace rankshim::torchrun
