#include "look/look.h"

#include <algorithm>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

#include "base/log.h"
#include "look/progress.h"
#include "look/python_stack.h"
#include "loop/loop.h"
#include "node/process.h"

namespace rankshim::look {

using boost::asio::awaitable;
using outcome::WorkerLook;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

constexpr milliseconds wait_for_answers{500};
constexpr milliseconds shortest_to_compare{1000};  // over less time, a few switches are not work

/// How many collectives a worker has entered, in all groups.
std::uint64_t entered_by(const WorkerLook& look) {
  std::uint64_t entered = 0;
  for (const outcome::GroupProgress& group : look.groups) entered += group.entered;
  return entered;
}

}  // namespace

/// Compares with the look before. If that was only a moment ago, no work would show, so its result still
/// stands.
WorkerInspector::Known WorkerInspector::compare(pid_t pid, Known now) const {
  const auto found = known_.find(pid);
  if (found == known_.end()) return now;
  const Known& before = found->second;
  const auto between = std::chrono::duration_cast<milliseconds>(now.when - before.when);
  if (between < shortest_to_compare) return before;
  now.entered = before.entered;
  now.work = work_between(before.activity, now.activity, between);
  return now;
}

awaitable<std::vector<WorkerLook>> WorkerInspector::look(std::vector<InspectedWorker> workers, bool full) {
  std::vector<WorkerLook> looks;
  std::vector<pid_t> pids;
  std::map<pid_t, Known> now_known;
  for (const InspectedWorker& worker : workers) {
    const auto now = steady_clock::now();
    const Activity activity = read_activity(worker.pid);
    WorkerLook& look = looks.emplace_back(WorkerLook{.rank = worker.rank,
                                                     .pid = static_cast<std::uint32_t>(worker.pid),
                                                     .state = activity.state,
                                                     .kernel = activity.kernel});
    if (full) {
      PythonStacks stacks = main_stack(worker.pid);
      if (!stacks.threads.empty()) {
        look.stack = std::move(stacks.threads.front().frames);
        look.holds_gil = stacks.threads.front().holds_gil;
      }
      const bool is_news = !stacks.unreadable.empty() && !stacks.runs_nothing && node::is_alive(worker.pid);
      if (is_news && logged_.insert(stacks.unreadable).second)
        log::warn("cannot read the Python stack of rank {} (pid {}): {}", worker.rank, worker.pid,
                  stacks.unreadable);
    }
    now_known[worker.pid] = compare(worker.pid, {.activity = activity, .when = now});
    pids.push_back(worker.pid);
  }
  known_ = std::move(now_known);
  const auto until = steady_clock::now() + wait_for_answers;
  const auto answers = co_await ask_progress(io_, folder_, pids, full, wait_for_answers);
  // Every disk access is a moment in state D. Report it only if it lasts.
  if (std::ranges::find(looks, 'D', &WorkerLook::state) != looks.end()) {
    loop::Timer timer(io_.get_executor(), until);
    co_await timer.async_wait(boost::asio::use_awaitable);
  }
  for (WorkerLook& look : looks) {
    const auto pid = static_cast<pid_t>(look.pid);
    const auto answer = answers.find(pid);
    if (answer != answers.end()) {
      look.groups = answer->second;
      look.holds_gil = false;  // it was only for a moment
    }
    // What it did before its last collective is not work for which others wait.
    Known& known = known_[pid];
    if (std::exchange(known.entered, entered_by(look)) != entered_by(look)) known.work.reset();
    if (known.work) look.works = *known.work != Work::none;
    look.polls = known.work == Work::polls;
    if (full) look.below = describe_below(pid);
    if (look.state == 'D' && read_activity(pid).state != 'D') look.state = 'S';
  }
  co_return looks;
}

bool is_alone_in_its_group(const WorkerLook& look) {
  const auto group = std::ranges::find(look.groups, "default_pg", &outcome::GroupProgress::description);
  return group != look.groups.end() && outcome::is_one(group->members);
}

}  // namespace rankshim::look
