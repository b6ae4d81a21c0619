#include "launchers/torchrun/program.h"

#include "base/log.h"

namespace rankshim::torchrun {

using std::chrono::milliseconds;
using supervise::Order;

namespace {

// Most launchers have workers by the first look, slow ones (which import from a network file system) by the
// last.
constexpr std::array<milliseconds, 3> looks_after = {milliseconds(5'000), milliseconds(20'000),
                                                     milliseconds(60'000)};

}  // namespace

void Program::started(boost::asio::io_context& io, const std::vector<pid_t>& processes,
                      Clock::time_point when, const std::vector<std::string>& environment) {
  command_ = processes.front();
  started_ = when;
  environment_ = &environment;
  if (job_.nodes > 1) look_due_ = when + looks_after.front();
  timer_.emplace(io.get_executor());
  arm();
}

void Program::arm() {
  if (!timer_) return;
  const auto next = due();
  if (!next) return timer_->cancel();
  timer_->expires_at(*next);
  timer_->async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    look();
    arm();
  });
}

void Program::stop_came() {
  look_due_.reset();
  arm();
}

void Program::look() {
  if (!look_due_ || *look_due_ > Clock::now()) return;
  look_due_.reset();
  trains_alone_ = lone_training(see_processes(command_, *environment_, job_.own_name), job_);
  if (trains_alone_.empty()) {
    if (++looks_ < looks_after.size()) look_due_ = started_ + looks_after[looks_];
    return;
  }
  log::warn("{}", trains_alone_);
  if (strict_) give({.kind = Order::Kind::stop, .why = trains_alone_});
}

supervise::WorkerRecord Program::record() const {
  supervise::WorkerRecord record;
  record.trains_alone = trains_alone_;
  record.ended_for_it = strict_ && !trains_alone_.empty();
  return record;
}

}  // namespace rankshim::torchrun
