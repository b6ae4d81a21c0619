#include "run/lookout.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <iterator>
#include <ranges>
#include <utility>

#include "base/fault.h"
#include "base/log.h"
#include "base/text.h"
#include "look/ras.h"
#include "loop/loop.h"
#include "node/process.h"
#include "outcome/hang.h"
#include "outcome/wording.h"
#include "report/verdict.h"
#include "supervise/exit_record.h"

namespace rankshim::run {

using boost::asio::awaitable;
using outcome::WorkerLook;
using std::chrono::steady_clock;

namespace {

constexpr std::chrono::seconds time_to_exit{10};  // for a worker that has raised
constexpr std::chrono::seconds time_to_ask_nccl{2};

void add(JobObservation& job, const link::WorkerReport& worker, unsigned rank) {
  if (worker.code == 0) job.succeeded.push_back(rank);
  if (!worker.code && worker.entered != 0) job.running[rank] = {worker.entered, worker.ended};
}

}  // namespace

std::vector<WorkerLook> JobObservation::living() const {
  std::vector<WorkerLook> living;
  std::ranges::copy_if(looks, std::back_inserter(living),
                       [this](const WorkerLook& look) { return !victims.contains(look.rank); });
  return living;
}

std::optional<outcome::Culprit> JobObservation::find_hang() const {
  std::vector<WorkerLook> judged = looks;
  std::erase_if(judged, [this](const WorkerLook& look) { return contains(raised, look.rank); });
  return outcome::find_hang(judged, succeeded, victims);
}

std::vector<link::WorkerReport> ends_of(const std::vector<supervise::WorkerEnd>& workers) {
  std::vector<link::WorkerReport> ends;
  for (const supervise::WorkerEnd& worker : workers) {
    if (!worker.status_known) continue;
    const auto age = std::chrono::duration_cast<std::chrono::milliseconds>(steady_clock::now() - worker.when);
    ends.push_back({.local_rank = worker.local_rank,
                    .code = supervise::exit_code_of_status(worker.status),
                    .age = static_cast<std::uint32_t>(age.count())});
  }
  return ends;
}

/// Only the first victim triggers a look: by the time others have failed as well, the launcher is ending the
/// rest. After a launcher has restarted its workers, there are new ones to look at.
void Lookout::worker_suffered(unsigned local_rank, std::vector<outcome::GroupProgress> groups) {
  const auto launcher = launcher_.lock();
  if (launcher == nullptr) return;
  std::vector<supervise::WorkerState> unseen = launcher->running_workers();
  if (unseen.empty()) return;
  const auto worker = std::ranges::find(unseen, local_rank, &supervise::WorkerState::local_rank);
  if (worker != unseen.end() && !groups.empty()) {
    WorkerLook& look = last_seen_[local_rank];
    look.rank = worker->rank.value_or(local_rank);
    look.pid = static_cast<std::uint32_t>(worker->pid);
    told_[worker->pid] = look.groups = std::move(groups);
  }
  const bool had_seen = std::erase_if(unseen, [this](const supervise::WorkerState& worker) {
                          return seen_.contains(worker.pid);
                        }) != 0;
  if (!had_seen) {
    suffered_.clear();
    timed_out_.clear();
  }
  add_once(local_rank, suffered_);
  if (unseen.empty()) return;
  for (const supervise::WorkerState& one : unseen) seen_.insert(one.pid);
  loop::spawn(io_, look_before_stop(shared_from_this(), Hold(launcher), std::move(unseen)));
}

awaitable<void> Lookout::look_before_stop(std::shared_ptr<Lookout> self, Hold /*hold*/,
                                          std::vector<supervise::WorkerState> workers) {
  for (auto& [local_rank, look] : co_await self->look_at(std::move(workers), true)) {
    const auto told = self->told_.find(static_cast<pid_t>(look.pid));
    if (told != self->told_.end()) look.groups = told->second;
    self->last_seen_[local_rank] = std::move(look);
  }
}

void Lookout::worker_timed_out(unsigned local_rank) {
  timed_out_.insert(local_rank);
  stays_.expires_after(time_to_exit);
  stays_.async_wait([this](const boost::system::error_code& error) {
    if (!error) warn_of_who_stays();
  });
}

/// By what all did when the first had failed: nobody waits for them any more.
void Lookout::warn_of_who_stays() const {
  if (launcher_.expired()) return;
  JobObservation then;
  std::vector<unsigned> stay;
  for (const auto& [local_rank, look] : last_seen_) {
    then.looks.push_back(look);
    if (timed_out_.contains(local_rank)) then.victims[look.rank];
    if (node::is_alive(static_cast<pid_t>(look.pid))) stay.push_back(look.rank);
  }
  const auto culprit = then.find_hang();
  if (!culprit || culprit->ranks.empty()) return;
  const bool one = outcome::is_one(culprit->ranks);
  const bool is_there =
      std::ranges::any_of(stay, [&](unsigned rank) { return culprit->ranks.front().contains(rank); });
  if (is_there)
    log::warn("{}; {} still running{}", what_happened(*culprit), one ? "it is" : "they are",
              reference(report::error_code_of(*culprit)));
}

void Lookout::worker_raised(unsigned local_rank) {
  const auto launcher = launcher_.lock();
  if (launcher == nullptr) return;
  const auto running = launcher->running_workers();
  const auto worker = std::ranges::find(running, local_rank, &supervise::WorkerState::local_rank);
  if (worker == running.end() || raised_.contains(worker->pid)) return;
  loop::Timer& timer = raised_.try_emplace(worker->pid, io_.get_executor()).first->second;
  timer.expires_after(time_to_exit);
  timer.async_wait([this, one = *worker](const boost::system::error_code& error) {
    if (!error) loop::spawn(io_, warn_of_it(shared_from_this(), one));
  });
}

awaitable<void> Lookout::warn_of_it(std::shared_ptr<Lookout> self, supervise::WorkerState worker) {
  const auto launcher = self->launcher_.lock();
  if (launcher == nullptr) co_return;
  const auto running = launcher->running_workers();
  if (std::ranges::find(running, worker.pid, &supervise::WorkerState::pid) == running.end()) co_return;
  const auto looks = co_await self->inspector_.look(
      {{.rank = worker.rank.value_or(worker.local_rank), .pid = worker.pid}}, true);
  if (node::is_alive(worker.pid))
    log::warn("rank {} raised an exception {} s ago and has not exited: it is {}", looks.front().rank,
              time_to_exit.count(), in_words(outcome::place_of(looks.front())));
}

/// Once the command has ended nobody is left, but what the workers did that the launcher killed is still of
/// interest.
awaitable<link::Observation> Lookout::look(bool full) {
  const auto self = shared_from_this();
  link::Observation observation;
  if (const auto launcher = launcher_.lock()) {
    const auto running = launcher->running_workers();
    observation.looks = co_await look_at(running, full);
    observation.workers = ends_of(launcher->record().ends);
    for (const supervise::WorkerState& worker : running) {
      if (std::ranges::find(observation.workers, worker.local_rank, &link::WorkerReport::local_rank) !=
          observation.workers.end())
        continue;
      link::WorkerReport& report =
          observation.workers.emplace_back(link::WorkerReport{.local_rank = worker.local_rank});
      for (const outcome::GroupProgress& group : observation.looks[worker.local_rank].groups) {
        report.entered += group.entered;
        report.ended += group.ended;
      }
    }
  }
  if (full)
    for (const auto& [local_rank, look] : last_seen_) observation.looks.try_emplace(local_rank, look);
  add_seen(observation.workers);
  co_return observation;
}

/// Adds the workers whose ends are unknown: they had failed by then, or their launcher has ended them since.
void Lookout::add_seen(std::vector<link::WorkerReport>& workers) const {
  for (const unsigned local_rank : last_seen_ | std::views::keys)
    if (std::ranges::find(workers, local_rank, &link::WorkerReport::local_rank) == workers.end())
      workers.push_back({.local_rank = local_rank,
                         .code = contains(suffered_, local_rank) ? 1 : exit_code::signal_base + SIGTERM});
}

std::vector<link::WorkerReport> Lookout::ends(const std::vector<supervise::WorkerEnd>& known) const {
  std::vector<link::WorkerReport> workers = ends_of(known);
  add_seen(workers);
  return workers;
}

void Lookout::note_who_trains_alone(const std::vector<WorkerLook>& looks) {
  const auto has_group = [](const WorkerLook& look) { return !look.groups.empty(); };
  // If nobody answered, or has a group any more, nothing changes.
  if (std::ranges::none_of(looks, has_group)) return;
  const bool all_alone = std::ranges::all_of(
      looks, [&](const WorkerLook& look) { return !has_group(look) || look::is_alone_in_its_group(look); });
  if (!all_alone) lone_training_.reset();
  if (nodes_ < 2 || lone_training_ || !all_alone) return;
  lone_training_ = {.sign = outcome::LoneTraining::Sign::process_group,
                    .who = fmt::format("rank {}", looks.front().rank),
                    .nodes = nodes_};
  log::warn("{}; look at world_size and init_method of init_process_group in the script{}",
            in_words(*lone_training_), reference(ErrorCode::trains_alone));
}

awaitable<JobObservation> Lookout::look_at_own(bool full) {
  const auto self = shared_from_this();
  JobObservation job;
  const auto launcher = launcher_.lock();
  if (launcher == nullptr) co_return job;
  link::Observation observation = co_await look(full);
  std::map<unsigned, unsigned> ranks;  // by local rank
  for (const auto& [local_rank, look] : observation.looks) ranks[local_rank] = look.rank;
  for (const supervise::WorkerEnd& worker : launcher->record().ends)
    ranks[worker.local_rank] = worker.rank.value_or(worker.local_rank);
  for (const link::WorkerReport& worker : observation.workers) add(job, worker, ranks[worker.local_rank]);
  job.workers = observation.workers.size();
  if (!full) co_return job;
  for (auto& [local_rank, look] : observation.looks) {
    const auto pid = static_cast<pid_t>(look.pid);
    if (timed_out_.contains(local_rank) && !node::is_alive(pid)) job.victims[look.rank];
    if (raised_.contains(pid)) job.raised.push_back(look.rank);
    job.looks.push_back(std::move(look));
  }
  co_return job;
}

awaitable<JobObservation> Lookout::with_nccl(JobObservation job, std::string nccl_ras_addr) {
  const auto self = shared_from_this();
  const auto launcher = launcher_.lock();
  if (!job.running.empty() || job.workers < 2 || launcher == nullptr) co_return job;
  std::vector<look::InspectedWorker> own;
  for (const supervise::WorkerState& worker : launcher->running_workers())
    own.push_back({.rank = worker.rank.value_or(worker.local_rank), .pid = worker.pid});
  const std::string answer = co_await look::ask_ras(look::ras_endpoints(nccl_ras_addr), time_to_ask_nccl);
  for (auto& [rank, groups] : look::parse_ras(answer, job.workers, own)) {
    Collectives& all = job.running[rank];
    for (const outcome::GroupProgress& group : groups) {
      all.entered += group.entered;
      all.ended += group.ended;
    }
    const auto look = std::ranges::find(job.looks, rank, &WorkerLook::rank);
    if (look != job.looks.end()) look->groups = std::move(groups);
  }
  co_return job;
}

awaitable<JobObservation> look_at_job(std::shared_ptr<link::Link> link, link::LookMode mode) {
  co_await link->look(mode);
  JobObservation job;
  for (const link::Node& node : link->nodes()) {
    if (node.trains()) job.workers += node.hello.workers;
    for (const link::WorkerReport& worker : node.done ? node.done->workers : node.seen)
      if (worker.local_rank < node.hello.workers) add(job, worker, node.go.offset + worker.local_rank);
  }
  if (mode.full) job.looks = link->take_looks();
  co_return job;
}

json::Object describe(const JobObservation& observation,
                      const std::function<outcome::Culprit(outcome::Culprit)>& located) {
  constexpr std::size_t lines_at_most = 370, waits_at_most = 28, widest = 140;
  const std::vector<WorkerLook> living = observation.living();
  json::Object object;
  object.flag("failed", false).number("ranks", static_cast<std::int64_t>(living.size()));
  std::vector<std::string> lines;
  const auto add = [&](const std::string& line) { lines.emplace_back(cut(line, widest)); };
  if (const auto culprit = observation.find_hang()) {
    lines.push_back(outcome::present_hang_in_words(located(*culprit)));
    object.text("hang", lines.front());
  }
  const auto waits = outcome::find_waits(living, observation.succeeded);
  for (const outcome::Wait& wait : waits | std::views::take(waits_at_most)) add(outcome::in_words(wait));
  if (waits.size() > waits_at_most)
    add(fmt::format("({} more groups of ranks wait)", waits.size() - waits_at_most));
  for (const std::string& line : outcome::in_lines(outcome::group_stacks(living), lines_at_most)) add(line);
  if (lines.empty()) lines.emplace_back("no worker is running");
  return object.texts("lines", lines);
}

awaitable<std::map<unsigned, WorkerLook>> Lookout::look_at(std::vector<supervise::WorkerState> workers,
                                                           bool full) {
  std::vector<look::InspectedWorker> wanted;
  wanted.reserve(workers.size());
  for (const supervise::WorkerState& worker : workers)
    wanted.push_back({.rank = worker.rank.value_or(worker.local_rank), .pid = worker.pid});
  std::vector<WorkerLook> looks = co_await inspector_.look(std::move(wanted), full);
  note_who_trains_alone(looks);
  std::map<unsigned, WorkerLook> by_local_rank;
  for (std::size_t i = 0; i < std::min(looks.size(), workers.size()); ++i) {
    const bool is_empty = looks[i].stack.empty() && looks[i].groups.empty();
    if (full && is_empty && !node::is_alive(workers[i].pid)) continue;  // it was ending, which shows nothing
    by_local_rank[workers[i].local_rank] = std::move(looks[i]);
  }
  co_return by_local_rank;
}

}  // namespace rankshim::run
