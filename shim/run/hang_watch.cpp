#include "run/hang_watch.h"

#include <chrono>
#include <optional>
#include <utility>

#include "base/duration.h"
#include "base/fault.h"
#include "base/log.h"
#include "loop/loop.h"
#include "outcome/hang.h"
#include "report/wording.h"

namespace rankshim::run {

using boost::asio::awaitable;
using outcome::Culprit;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

constexpr std::chrono::minutes worth_a_wake_up{1};  // what must be known sooner is asked for at once
constexpr std::size_t most_lines = 40;

void print_stacks(const std::vector<outcome::WorkerLook>& looks) {
  for (const std::string& line : outcome::in_lines(outcome::group_stacks(looks), most_lines))
    log::info("{}", line);
}

/// Whether --hang-timeout is not enough: the worker that the others wait for still works, or it is on a node
/// that this one cannot see, and which then has time to name it.
bool has_more_time(const outcome::Hang& hang) {
  return hang.place.works.value_or(false) || hang.kind == outcome::HangKind::elsewhere;
}

}  // namespace

struct HangWatch::State {
  StallClock clock;
  Target job;
  std::function<void()> changed;
  std::string notice;
  bool gently = false;
  loop::Event woken;
  bool over = false;

  void set_notice(std::string text) {
    notice = std::move(text);
    changed();
  }

  /// Tells the clock what was seen, and the user if the job has resumed. Returns when it was seen.
  StallClock::Time take_in(const JobObservation& observation) {
    const auto now = steady_clock::now();
    if (const auto stood = clock.saw(observation.running, now)) {
      log::info("{}", report::wording::resumed(*stood));
      set_notice("");
    }
    return now;
  }
};

HangWatch::HangWatch(boost::asio::io_context& io, StallClock::Rules rules, Target job,
                     std::function<void()> changed)
    : state_(
          new State{.clock = StallClock(rules, steady_clock::now()),
                    .job = std::move(job),
                    .changed = std::move(changed),
                    .notice = {},
                    .gently = rules.timeout == milliseconds::zero() || rules.timeout / 5 >= worth_a_wake_up,
                    .woken = loop::Event(io.get_executor())}) {
  if (state_->clock.is_on()) loop::spawn(io, watch(state_));
}

HangWatch::~HangWatch() {
  state_->over = true;
  state_->woken.signal();
}

std::vector<unsigned> HangWatch::stragglers() const { return state_->clock.stragglers(); }

const std::string& HangWatch::notice() const { return state_->notice; }

awaitable<void> HangWatch::watch(std::shared_ptr<State> state) {
  while (!state->over) {
    co_await state->woken.wait(state->clock.next());
    if (state->over) co_return;
    const JobObservation observation = co_await state->job.look({.gently = state->gently});
    if (state->over) co_return;
    const auto now = state->take_in(observation);
    if (state->clock.notices(now) || state->clock.ends(now, false)) co_await examine(state);
  }
}

/// Finds out who is to blame when nothing has moved for long.
awaitable<void> HangWatch::examine(std::shared_ptr<State> state) {
  StallClock& clock = state->clock;
  const JobObservation observation = co_await state->job.look({.full = true});
  if (state->over) co_return;
  const auto now = state->take_in(observation);  // it may have resumed meanwhile
  std::optional<Culprit> culprit = observation.find_hang();
  if (!culprit || clock.stalled(now) == milliseconds::zero()) co_return;
  culprit->hang->stalled = static_cast<std::uint32_t>(clock.stalled(now).count());
  culprit = state->job.located(std::move(*culprit));
  if (clock.ends(now, has_more_time(*culprit->hang))) {
    print_stacks(observation.living());
    state->over = true;
    state->job.end(*culprit, observation.living());
  } else if (clock.notices(now)) {
    clock.noticed();
    state->set_notice(report::wording::notice(*culprit));
    log::warn("{}", state->notice);
    print_stacks(observation.living());
  }
}

}  // namespace rankshim::run
