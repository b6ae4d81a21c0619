#include "run/attempt.h"

#include <utility>

#include "base/log.h"
#include "outcome/judge.h"
#include "outcome/wording.h"
#include "settings/settings.h"

namespace rankshim::run {

using boost::asio::awaitable;
using launchers::Job;
using settings::Option;
using settings::Settings;
using std::chrono::milliseconds;

namespace {

/// This node's numbers in the job: those of its last workers, because an elastic job's nodes come and go, or
/// else the topology's. nullopt for a lone node.
std::optional<supervise::NodeNumbers> numbers_of(const supervise::ExitRecord& record, const Job& job) {
  const topology::Topology& topology = job.topology;
  if (topology.is_alone()) return std::nullopt;
  const std::optional<supervise::NodeNumbers>& last = record.workers.numbers;
  if (last || topology.is<topology::ElasticNode>() || !topology.node_rank()) return last;
  return supervise::NodeNumbers{*topology.node_rank(), topology.nodes().value_or(0)};
}

/// Whether this node watches for hangs. If nodes are linked, the hub does; otherwise each node, except that a
/// program on a lone node need not be training: rankshim sleeps beside it unless the user asks for the watch.
bool is_to_watch(const Settings& settings, const Job& job, const WholeJob* whole) {
  if (whole != nullptr) return whole->link().is_hub();
  const auto is_set = [&](Option option) { return settings[option]->origin != Origin::fallback; };
  return job.choice.launcher->launches() || job.topology.has_other_nodes() || is_set(Option::hang_notice) ||
         is_set(Option::hang_timeout);
}

/// The master's literal address, if it was looked up.
std::optional<std::string> master_address(const RunState& state) {
  if (state.reached.addresses.empty()) return std::nullopt;
  return state.reached.addresses.front();
}

/// What was prepared for this attempt, or else is created now.
std::unique_ptr<Launch> launch_of(RunState& state) {
  auto prepared = state.warm.take(state.attempts.number(), master_address(state));
  if (prepared) return prepared;
  return std::make_unique<Launch>(state.input, state.attempts.number(), master_address(state));
}

}  // namespace

Attempt::Attempt(const Run& run, const Job& job, RunState& state, WholeJob* whole)
    : run_(run),
      job_(job),
      state_(state),
      whole_(whole),
      launch_(launch_of(state)),
      errors_(run, job, launch_->environment, launch_->folder.own()),
      lookout_(std::make_shared<Lookout>(run.io, site_folder(), launch_->workers,
                                         job.topology.is_alone() ? 0 : job.topology.nodes().value_or(0))) {
  if (whole_ != nullptr) launch_->command.open_files = whole_->link().inherited_limit();
}

void Attempt::watch() {
  if (!site_folder().empty())
    raised_.emplace(run_.io, site_folder(),
                    [this](unsigned local_rank, const look::ExceptionSocket::Groups& groups) {
                      worker_raised(local_rank, groups);
                    });
  if (whole_ != nullptr) whole_->begin(launch_->workers, lookout_);
  run_.monitor.begin_attempt(state_.attempts.number(), !state_.attempts.allowed(), launch_->workers);
  watch_.emplace(run_, job_to_watch(), is_to_watch(run_.settings, job_, whole_));
}

awaitable<supervise::ExitRecord> Attempt::run_command() {
  if (state_.attempts.may_go_on()) state_.warm.prepare_next(*launch_, master_address(state_));
  const supervise::Policy policy = plan_policy();
  co_return co_await supervise::supervise(run_.io, run_.signals, launch_->command, policy);
}

void Attempt::end_watch() {
  watch_.reset();
  raised_.reset();
  launch_->workers.reset();
}

report::Details Attempt::gather(const supervise::ExitRecord& record) {
  report::Details details = errors_.gather(record, launch_->folder.remove_if_unused());
  details.looks = lookout_->last_seen();
  details.suffered = lookout_->suffered();
  details.is_one_of_several = job_.topology.is<topology::CreatedProcess>() && !job_.topology.is_alone();
  details.lone_training = lookout_->lone_training();
  details.hang = std::move(hang_);
  details.hang_looks = std::move(hang_looks_);
  return details;
}

report::Verdict Attempt::judge(const supervise::ExitRecord& record, const report::Details& details) const {
  return report::judge(record, job_.choice, launch_->plan, details, numbers_of(record, job_),
                       run_.settings.flag(Option::strict));
}

std::vector<link::WorkerReport> Attempt::ends(const supervise::ExitRecord& record,
                                              const report::Verdict& verdict) const {
  return verdict.code == 0 ? ends_of(record.workers.ends) : lookout_->ends(record.workers.ends);
}

void Attempt::started(const std::vector<pid_t>& processes, Clock::time_point /*when*/,
                      const std::vector<std::string>& /*environment*/) {
  run_.monitor.started(processes.front());
  state_.warm.started();
  state_.previous.reset();
}

void Attempt::worker_ended(const supervise::WorkerEnd& worker) {
  run_.monitor.changed();
  if (worker.status_known && worker.status == 0) return;
  run_.monitor.ended(worker.pid, worker.started);
  const outcome::Culprit failure = errors_.failure_of(worker, launch_->workers->record().error_folder);
  if (is_victim(failure.cause)) lookout_->worker_suffered(worker.local_rank);
  if (whole_ != nullptr && whole_->concerns_job(worker, failure)) whole_->worker_failed(failure);
}

void Attempt::stop_passed_on(const outcome::StopRequest& stop, std::optional<milliseconds> /*grace*/) {
  if (stop.from_outside()) state_.warm.drop();
  if (whole_ != nullptr) whole_->on_own_stop(stop);
  run_.monitor.stopping(stop.signal);
}

void Attempt::command_ended(const supervise::ExitRecord& record) {
  run_.monitor.command_ended();
  run_.monitor.ended(record.pid, record.started_at);
  report_end(record);
}

namespace {

awaitable<JobObservation> with_nccl(awaitable<JobObservation> looking, std::shared_ptr<Lookout> lookout,
                                    std::string nccl_ras_addr) {
  JobObservation observation = co_await std::move(looking);
  co_return co_await lookout->with_nccl(std::move(observation), std::move(nccl_ras_addr));
}

}  // namespace

HangWatch::Target Attempt::job_to_watch() {
  HangWatch::Target job = job_by_python();
  const std::string nccl_ras_addr(launch_->environment.get("NCCL_RAS_ADDR").value_or(""));
  job.look = [look = std::move(job.look), lookout = lookout_, nccl_ras_addr](link::LookMode mode) {
    return with_nccl(look(mode), lookout, nccl_ras_addr);
  };
  return job;
}

HangWatch::Target Attempt::job_by_python() {
  const auto end = [this](const outcome::Culprit& culprit, std::vector<outcome::WorkerLook> looks) {
    end_hang(culprit, std::move(looks));
  };
  if (whole_ != nullptr && whole_->link().is_hub()) return whole_->job_to_watch(end);
  const unsigned node = job_.topology.node_rank().value_or(0);
  const std::string host = job_.topology.is_alone() ? "" : run_.host.host_name();
  const auto located = [node, host](outcome::Culprit culprit) {
    culprit.node = node;
    culprit.host = host;
    return culprit;
  };
  const auto look = [lookout = lookout_](link::LookMode mode) { return lookout->look_at_own(mode.full); };
  return {.look = look, .located = located, .end = end};
}

void Attempt::report_end(const supervise::ExitRecord& record) {
  if (whole_ != nullptr && !record.stop) whole_->report_end(judge(record, errors_.gather(record)));
}

std::string Attempt::site_folder() const {
  const launchers::OwnFolder& folder = launch_->folder.own();
  return folder.has_site ? folder.path : "";
}

supervise::Policy Attempt::plan_policy() {
  supervise::Policy policy = plan_supervision(run_.settings);
  policy.scope = run_.settings.choice<SignalScope>(Option::signal_scope);
  policy.stacks = run_.settings.flag(Option::stacks);
  policy.ctty = run_.settings.flag(Option::ctty);
  policy.launcher = launch_->workers.get();
  policy.worker_signals = *run_.settings.get<SignalSet>(Option::worker_signals);
  policy.ignored_at_start = launch_->ignored;
  policy.apart = [&state = state_] { return state.warm.processes(); };
  policy.sent_to_all = [&state = state_](const supervise::Signal& signal) {
    return state.step.has_signalled_all(static_cast<pid_t>(signal.sender));
  };
  policy.observer = this;
  return policy;
}

void Attempt::worker_raised(unsigned local_rank, const look::ExceptionSocket::Groups& groups) {
  if (!launch_->workers) return;
  lookout_->worker_raised(local_rank);
  // It is unknown where a program's workers write their exceptions, and a look does no harm.
  const bool has_files = job_.choice.launcher->launches();
  if (!has_files || errors_.is_victims(local_rank, launch_->workers->record().error_folder))
    lookout_->worker_suffered(local_rank, groups);
  if (!has_files && whole_ == nullptr && errors_.has_timed_out()) lookout_->worker_timed_out(local_rank);
}

void Attempt::end_hang(const outcome::Culprit& culprit, std::vector<outcome::WorkerLook> looks) {
  hang_looks_ = std::move(looks);
  if (whole_ != nullptr) return whole_->shared_link()->end_job(culprit);
  hang_ = culprit;
  log::error("{}; this node is stopped", present_hang_in_words(culprit));
  launch_->workers->give({.kind = supervise::Order::Kind::stop});
}

}  // namespace rankshim::run
