#include "run/job_watch.h"

#include <string>
#include <utility>

#include "loop/loop.h"
#include "outcome/hang.h"
#include "outcome/wording.h"

namespace rankshim::run {

using boost::asio::awaitable;
using settings::Option;

namespace {

StallClock::Rules hang_rules(const settings::Settings& settings) {
  return {.notice = *settings.time(Option::hang_notice), .timeout = *settings.time(Option::hang_timeout)};
}

awaitable<void> answer_stacks(HangWatch::Target job, status::Socket::Reply reply) {
  const JobObservation observation = co_await job.look({.full = true});
  reply(describe(observation, job.located).str());
}

/// "rank 2 was the last in 9 of 10 looks"; empty if none is slow.
std::string slow_ranks(const HangWatch& watch) {
  const auto ranks = watch.stragglers();
  return ranks.empty()
             ? ""
             : in_words(outcome::to_ranges(ranks)) + ": last in 9 of the last 10 looks, so slow, not hung";
}

}  // namespace

JobWatch::JobWatch(const Run& run, const HangWatch::Target& job, bool for_hangs) : monitor_(run.monitor) {
  if (for_hangs)
    hangs_ = std::make_unique<HangWatch>(run.io, hang_rules(run.settings), job,
                                         [&monitor = monitor_] { monitor.changed(); });
  monitor_.set_view(
      {.look = [&io = run.io,
                job](status::Socket::Reply reply) { loop::spawn(io, answer_stacks(job, std::move(reply))); },
       .slow = [this] { return hangs_ ? slow_ranks(*hangs_) : std::string(); },
       .hang = [this] { return hangs_ ? hangs_->notice() : std::string(); }});
}

JobWatch::~JobWatch() { monitor_.set_view({}); }

}  // namespace rankshim::run
