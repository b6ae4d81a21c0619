#include "run/whole_job.h"

#include <algorithm>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/duration.h"
#include "base/fault.h"
#include "base/files.h"
#include "base/log.h"
#include "base/signals.h"
#include "base/text.h"
#include "launchers/choose.h"
#include "link/wording.h"
#include "loop/loop.h"
#include "outcome/judge.h"
#include "report/wording.h"
#include "run/before_start.h"
#include "run/job_watch.h"
#include "wait/port.h"

namespace rankshim::run {

using boost::asio::awaitable;
using launchers::Job;
using outcome::Cause;
using outcome::Culprit;
using report::PhaseName;
using settings::Option;
using std::chrono::steady_clock;
namespace reason = report::reason;
using Stage = reason::Stopped::Stage;

namespace {

/// How long a stopped node may take to end.
std::chrono::milliseconds grace_of(const Run& run) {
  return run.settings.time(Option::grace).value_or(supervise::default_grace);
}

/// How long to wait for the others when all start again: they may still need the grace to end.
std::chrono::milliseconds time_to_come(const Run& run) {
  return *run.settings.time(Option::wait_timeout) + grace_of(run);
}

/// The key from --job-token-file; nullopt if the option is not set.
Outcome<std::optional<link::Key>> job_token(const Run& run) {
  const std::string file(run.settings.text(Option::job_token_file));
  if (file.empty()) return std::nullopt;
  auto read = read_token(file);
  if (auto* faults = std::get_if<Faults>(&read)) return std::move(*faults);
  return std::get<link::Key>(read);
}

/// Sets the node's place in this attempt: its rank and the number of nodes are the job's, and a spare's are
/// the platform's. The master is on the node with rank 0.
void take_rank(topology::Topology& topology, topology::StaticNode& node, const link::Go& go,
               wait::Reached& reached) {
  node.rank = go.rank.value_or(node.member->index);
  node.nodes = go.rank ? go.nodes : node.member->nodes;
  const auto set = [&](Fact fact, const std::string& text) {
    topology.facts[fact] = Value{text, Origin::derived, "the job's members", {}};
  };
  set(Fact::node_rank, std::to_string(node.rank));
  set(Fact::nnodes, std::to_string(node.nodes));
  const std::string moved = go.lead ? go.lead->master : "";
  const std::string& host = moved.empty() ? node.member->master.host : moved;
  if (host == topology.meeting->host) return;
  topology.meeting->host = host;
  set(Fact::master_addr, host);
  reached = {};
  if (!moved.empty()) reached = {.addresses = {moved}, .mine = go.rank == 0U};
}

/// For a job with spares: plans who coordinates the job if the hub is lost, and passes on what a hub knows
/// from earlier attempts.
void plan_succession(const Run& run, Attempts& attempts, link::Options& options) {
  if (!attempts.succession) attempts.succession = std::make_shared<link::Succession>(run.io);
  const link::Succession& known = *attempts.succession;
  options.succession = attempts.succession;
  options.has_mesh = wait::find_sidecar() != 0;
  const auto grace = grace_of(run);
  options.timing.successor = grace + std::chrono::seconds(5);
  options.timing.old_hub = options.timeout + grace;
  options.rules.silent_end = link::ping_interval(options.timeout) + grace;
  options.rules.silent_ended_by = known.all_ended_by;
  if (!known.is_led_by(options.self.rank)) {
    attempts.members.reset();
    return;
  }
  if (!attempts.members) {
    if (known.term) options.rules.to_come = known.to_come();
    attempts.members = std::make_shared<link::Members>(known.members_for(options.self));
  }
  options.rules.last_launch = known.launched;
  options.rules.members = attempts.members;
  if (known.hub_has_ended) options.rules.old_hub = known.hub;
}

link::Options plan_link(const Run& run, const Job& job, const topology::StaticNode& node,
                        const std::optional<link::Key>& token, Attempts& attempts,
                        const wait::Reached& reached) {
  const node::Environment& environment = run.host.environment();
  const auto variable = [&](std::string_view name) {
    return std::string(environment.get(name).value_or(""));
  };
  link::Options options;
  options.self.run = job.topology.facts.text(Fact::run_id);
  options.self.attempt = job.topology.facts.text(Fact::attempt);
  options.self.restarts = attempts.number();
  options.self.uncounted = attempts.uncounted();
  if (attempts.of_the_job()) options.self.job_restarts = run.settings.text(Option::job_restarts);
  options.self.spares = launchers::number_of_spares(run.settings);
  options.self.rank = node.member ? node.member->index : node.rank;
  options.self.nnodes = node.member ? node.member->nodes : node.nodes;
  options.self.workers = node.workers;
  options.self.launcher = job.choice.launcher->name();
  options.self.host = run.host.host_name();
  options.self.pod = variable("POD_NAME");
  options.self.platform_node = variable("NODE_NAME");
  options.self.version = RANKSHIM_VERSION;
  options.master.host = node.member ? node.member->master.host : job.topology.master()->host;
  options.master.port = job.topology.master()->port;
  options.addresses = reached.addresses;
  options.leads_elsewhere = !reached.addresses.empty() && !reached.mine;
  options.second_port = topology::default_port("the link of " + options.self.run);
  options.token = token;
  options.timeout = *run.settings.time(Option::link_timeout);
  options.timing.end = time_to_come(run);
  options.rules.equal_workers = job.choice.launcher->wants_equal_workers();
  options.rules.gathers = run.preflight;
  options.rules.earliest = attempts.earliest();
  if (attempts.of_the_job())
    options.rules.decide = [&attempts](link::Stop& stop) { attempts.decide(stop, steady_clock::now()); };
  if (options.self.spares != 0) plan_succession(run, attempts, options);
  return options;
}

/// The end of a meeting that failed after that time. If the nodes have met before, their settings agree, and
/// with spares the hub may be anywhere.
EarlyEnd end_of(const link::Refuse& refuse, const topology::Topology& topology,
                std::chrono::milliseconds time, const Attempts& attempts) {
  if (refuse.culprit) {
    EarlyEnd end =
        early_end(exit_code::peer, Cause::peer_lost, ErrorCode::node_stopped, reason::NotMet{refuse});
    report::set_stopped_for(end.verdict, {.culprit = *refuse.culprit});
    return end;
  }
  const bool late = refuse.cause == Cause::unreachable;
  const int code = late ? exit_code::unreachable : exit_code::configuration;
  if (refuse.error_code != ErrorCode::none)
    return early_end(code, refuse.cause, refuse.error_code, reason::NotMet{refuse});
  const bool may_move = attempts.succession && attempts.succession->is_known();
  const bool have_met = attempts.number() != 0 || (attempts.succession && attempts.succession->term);
  reason::NotMet unmet{.why = refuse, .master = may_move ? "" : topology.master()->text()};
  if (late) unmet.waited = time;
  for (const Fact fact : {Fact::nnodes, Fact::node_rank, Fact::master_port})
    if (const auto& value = topology.facts[fact]; value && !have_met)
      unmet.own.push_back(in_words(fact, *value));
  return early_end(code, refuse.cause, late ? ErrorCode::nodes_missing : ErrorCode::nodes_differ,
                   std::move(unmet));
}

/// Makes the node that listens there the hub, as far as this node knows: it is not the one that was before.
void switch_hub(link::Succession& known, const link::ListenAddress& hub,
                const topology::StaticNode::Member& self) {
  known.leader = hub;
  known.gone.erase(hub.index);  // it has answered
  known.unreachable.erase(hub.index);
  if (hub.index != self.index) return log::info("node {} coordinates the job; this node joins it", hub.index);
  const auto gone = known.gone.find(known.hub);
  log::warn("{} {}; this node coordinates the job from now on", outcome::node_name(known.hub, known.hub_host),
            gone == known.gone.end() ? "cannot be reached" : fmt::format("was {}", word(gone->second)));
}

/// What requires the link, for a message; empty if nothing does.
std::string_view link_required_by(const Run& run, const Job& job) {
  return run.preflight ? "preflight" : job.choice.link_demanded_by;
}

/// Creates the link; null if the system refuses what it needs, and nothing requires the link.
std::shared_ptr<link::Link> make_link(const Run& run, link::Options options, std::string_view required_by) {
  try {
    return link::Link::make(run.io, std::move(options));
  } catch (const boost::system::system_error& error) {
    if (!required_by.empty())
      throw early_end(exit_code::system, Cause::system, ErrorCode::no_link,
                      reason::Refused{.needs = reason::Refused::Needs::link,
                                      .error = std::string(loop::reason(error)),
                                      .required_by = std::string(required_by)});
    log::warn("the job continues without a link between its nodes: {}", loop::reason(error));
    return nullptr;
  }
}

/// How the search for the other nodes ended, and the link; null if there is none.
struct Meeting {
  std::shared_ptr<link::Link> link;
  std::variant<link::Go, link::Refuse, link::Unlinked, link::Moved, supervise::Signal> end;
};

/// Looks for the other nodes until `deadline`, and follows the hub to where it is now.
awaitable<Meeting> seek_nodes(const Run& run, const Job& job, const topology::StaticNode& node,
                              const std::optional<link::Key>& token, Attempts& attempts,
                              const wait::Reached& reached, steady_clock::time_point deadline) {
  using namespace boost::asio::experimental::awaitable_operators;
  Meeting meeting;
  for (;;) {
    meeting.link =
        make_link(run, plan_link(run, job, node, token, attempts, reached), link_required_by(run, job));
    if (!meeting.link) co_return meeting;
    run.monitor.enter(PhaseName::meet, "the other nodes");
    run.monitor.set_link(meeting.link);
    meeting.end = co_await (meeting.link->meet(deadline) || next_end(run));
    const auto* moved = std::get_if<link::Moved>(&meeting.end);
    if (moved == nullptr) co_return meeting;
    switch_hub(*attempts.succession, moved->hub, *node.member);
  }
}

/// Adopts what the hub has said about this attempt, now that all nodes have met.
void begin_attempt(topology::Topology& topology, topology::StaticNode& node, const link::Go& go,
                   Attempts& attempts, wait::Reached& reached) {
  node.told.reset();
  if (go.rank) node.told = {go.offset, go.world};
  attempts.begin(go.attempt, go.uncounted, steady_clock::now());
  if (!node.member) return log::info("all {} nodes are here", node.nodes);
  take_rank(topology, node, go, reached);
  log::info("{} of {} nodes train, and this one {}", go.nodes, node.member->nodes,
            go.rank ? fmt::format("has rank {}", *go.rank) : "waits as a spare");
}

/// Meets the other nodes. Returns the link, or null if the job goes on without one.
awaitable<std::unique_ptr<WholeJob>> meet_nodes(const Run& run, Job& job, Attempts& attempts,
                                                wait::Reached& reached) {
  using namespace boost::asio::experimental::awaitable_operators;
  const auto token = job_token(run);
  if (const auto* faults = std::get_if<Faults>(&token))
    throw early_end(exit_code::configuration, Cause::configuration, ErrorCode::none,
                    reason::Faulty{faults->front()});
  topology::StaticNode& node = std::get<topology::StaticNode>(job.topology.part);
  if (launchers::number_of_spares(run.settings) != 0 && !node.member)
    node.member = {node.rank, node.nodes, *job.topology.master()};
  if (node.nodes > link::most_nodes)
    throw early_end(exit_code::configuration, Cause::configuration, ErrorCode::nodes_differ,
                    reason::TooManyNodes{*job.topology.facts[Fact::nnodes], link::most_nodes});
  const bool again = attempts.number() != 0;
  const auto time = again ? time_to_come(run) : *run.settings.time(Option::wait_timeout);
  const Meeting met = co_await seek_nodes(run, job, node, std::get<std::optional<link::Key>>(token), attempts,
                                          reached, steady_clock::now() + time);
  if (!met.link) co_return nullptr;
  if (const auto* signal = std::get_if<supervise::Signal>(&met.end)) {
    run.signals.drop();
    // A node that joins for the first time can be replaced by another; in a running job it is a part.
    if (again) {
      met.link->report_stop(signal->number);
      co_await (met.link->finish({exit_code::signal_base + signal->number}) || next_end(run));
    }
    throw stopped_early(signal->number, Stage::nodes);
  }
  if (const auto* go = std::get_if<link::Go>(&met.end)) {
    const unsigned index = node.member ? node.member->index : node.rank;
    begin_attempt(job.topology, node, *go, attempts, reached);
    co_return std::make_unique<WholeJob>(met.link, index, node.max_restarts != 0, run.preflight,
                                         attempts.allowed());
  }
  if (const auto* refuse = std::get_if<link::Refuse>(&met.end))
    throw end_of(*refuse, job.topology, time, attempts);
  const link::Problem& why = std::get<link::Unlinked>(met.end).why;
  if (const std::string_view required_by = link_required_by(run, job); !required_by.empty())
    throw early_end(exit_code::configuration, Cause::configuration, ErrorCode::no_link,
                    reason::NoLink{std::string(required_by), why});
  log::warn("the job continues without a link between its nodes: {}; --link on makes this an error",
            in_words(why));
  co_return nullptr;
}

}  // namespace

Outcome<link::Key> read_token(const std::string& path) {
  constexpr std::size_t shortest = 16;
  constexpr std::size_t fewest_different = 4;
  const auto fault = [&](const std::string& why) {
    return Faults{{ErrorCode::job_token,
                   "cannot read the job's token from the file " + in_quotes(path) + ": " + why,
                   {path},
                   "write a secret of at least 16 bytes into it, the same on all nodes, or leave "
                   "--job-token-file out"}};
  };
  const auto read = read_file(path);
  if (const auto* unreadable = std::get_if<Unreadable>(&read)) return fault(unreadable->why());
  if (std::get<std::string>(read).size() > largest_file) return fault("it is larger than 1 MiB");
  std::error_code unknown;
  const auto permissions = std::filesystem::status(path, unknown).permissions();
  if (!unknown && (permissions & std::filesystem::perms::others_write) != std::filesystem::perms::none)
    return fault("it is world-writable (chmod o-w)");
  const std::string_view token = trimmed(std::get<std::string>(read));
  if (token.size() < shortest) return fault(fmt::format("it has {} bytes", token.size()));
  if (std::set<char>(token.begin(), token.end()).size() < fewest_different)
    return fault(
        fmt::format("it has {} bytes, but fewer than {} different bytes", token.size(), fewest_different));
  return link::Key(token);
}

awaitable<void> tell_early_end(const Run& run, const Job& job, report::Verdict& verdict) {
  using namespace boost::asio::experimental::awaitable_operators;
  // Time for the other nodes' containers to start.
  const auto patience =
      std::min<std::chrono::milliseconds>(std::chrono::seconds(10), *run.settings.time(Option::wait_timeout));
  const auto token = job_token(run);
  const auto* known = std::get_if<std::optional<link::Key>>(&token);
  const auto* node = job.topology.as<topology::StaticNode>();
  if (!job.choice.links || node == nullptr || known == nullptr) co_return;
  Attempts attempts(run.settings, job);
  link::Options plan = plan_link(run, job, *node, *known, attempts, {});
  plan.timing.leave = patience;
  run.monitor.enter(PhaseName::meet, "the other nodes, to tell them of the end");
  log::info("notifying the other nodes that this node cannot join, for up to {}", format_time(patience));
  try {
    const auto link = link::Link::make(run.io, std::move(plan));
    link->report_failure(report::culprit_of(verdict));
    const auto met = co_await (link->meet(steady_clock::now() + patience) || next_end(run));
    if (const auto* signal = std::get_if<supervise::Signal>(&met)) {
      run.signals.drop();  // otherwise the post-stop hook would get it
      if (supervise::is_stop_signal(signal->number)) verdict.stopped_by = signal->number;
    }
  } catch (const boost::system::system_error& error) {
    log::warn("cannot notify the other nodes: {}", loop::reason(error));
  }
}

awaitable<std::optional<report::Verdict>> wait_as_spare(const Run& run, Attempts& attempts, WholeJob& whole) {
  using namespace boost::asio::experimental::awaitable_operators;
  run.monitor.enter(PhaseName::spare, "a node whose place it takes");
  const std::shared_ptr<link::Link>& link = whole.shared_link();
  std::optional<JobWatch> watch;  // of the others, if this node coordinates the job
  if (link->is_hub())
    watch.emplace(run,
                  whole.job_to_watch([link](const Culprit& culprit, const auto&) { link->end_job(culprit); }),
                  true);
  const auto end = co_await (link->stand_by() || next_end(run));
  if (const auto* signal = std::get_if<supervise::Signal>(&end)) {
    run.signals.drop();
    link->report_stop(signal->number);
    if (link->is_hub())
      co_await (link->finish({.code = exit_code::signal_base + signal->number}) || next_end(run));
    else
      co_await link->leave({.code = exit_code::signal_base + signal->number});
    throw stopped_early(signal->number, Stage::spare);
  }
  co_await (link->finish({}) || next_end(run));  // a signal is left for the next step
  const std::optional<link::Stop>& stop = link->stop();
  report::Verdict verdict{.reason = reason::SpareNotNeeded{}};
  if (stop) report::set_stopped_for(verdict, *stop);
  if (!stop || !stop->again) {
    if (stop && stop->not_restarted) verdict.notes.emplace_back(*stop->not_restarted);
    co_return verdict;
  }
  attempts.next(steady_clock::now(), !stop->drained());
  log::info("{}; all nodes meet again", in_words(*stop));
  co_return std::nullopt;
}

awaitable<std::unique_ptr<WholeJob>> join_job(const Run& run, Job& job, Attempts& attempts,
                                              wait::Reached& reached) {
  const bool links = job.choice.links;
  if (attempts.number() != 0) {  // signals that came in between are not for the next command
    // Linked nodes meet in the meantime, and node 0 holds them back.
    const auto until = links ? steady_clock::now() : attempts.earliest();
    if (until > steady_clock::now())
      run.monitor.enter(PhaseName::restart, "the pause before the next attempt");
    const auto signal = co_await next_end(run, until);
    if (signal.number != 0 && !links) {  // otherwise the other nodes must be told
      run.signals.drop();
      throw stopped_early(signal.number, Stage::pause);
    }
  }
  attempts.begin(attempts.number(), attempts.uncounted(), steady_clock::now());
  // The nodes of a restarted job would all ask for the name at the same moment. So they first look for node 0
  // where it was, and ask for the name only if it is not there.
  const bool knows_hub = attempts.succession && attempts.succession->is_known();
  if (links && reached.addresses.empty() && !knows_hub)
    co_await wait_for_master(run, job.topology, wait::Until::name, reached);
  if (links) {
    if (auto whole = co_await meet_nodes(run, job, attempts, reached)) co_return whole;
  }
  co_await wait_for_master(run, job.topology, job.choice.wait, reached);
  co_return nullptr;
}

HangWatch::Target WholeJob::job_to_watch(decltype(HangWatch::Target::end) end) const {
  return {.look = [link = link_](link::LookMode mode) { return look_at_job(link, mode); },
          .located = [link = link_](Culprit culprit) { return link->located(std::move(culprit)); },
          .end = std::move(end)};
}

void WholeJob::begin(const std::shared_ptr<supervise::Workers>& launcher,
                     const std::shared_ptr<Lookout>& lookout) {
  link_->on_stop([this, watched = std::weak_ptr(launcher)](const link::Stop& stop) {
    stop_ = stop;
    if (is_check_ && stop.failed()) return;  // each node's command has ended
    const auto launcher = watched.lock();
    log::warn("{}; this node {}", in_words(stop),
              launcher != nullptr ? "is stopped too" : "had ended already");
    if (launcher != nullptr) launcher->give({.kind = supervise::Order::Kind::stop});
  });
  link_->on_look([lookout](bool full) { return lookout->look(full); });
}

bool WholeJob::concerns_job(const supervise::WorkerEnd& worker, const Culprit& failure) const {
  if (has_launcher_restarts_ || is_stopping_ || stop_ || !worker.status_known || worker.status == 0)
    return false;
  return !told_failure_ || (!told_cause_ && (is_inconclusive(failure) || ended_by_itself(failure)));
}

void WholeJob::worker_failed(const Culprit& failure) {
  told_failure_ = true;
  told_cause_ = !is_inconclusive(failure);
  link_->report_failure(failure);
}

awaitable<void> WholeJob::report_refusal(const report::Reason& why) {
  worker_failed({.cause = Cause::system, .code = exit_code::system, .text = report::wording::in_words(why)});
  co_await link_->finish({.code = exit_code::system});
}

void WholeJob::on_own_stop(const outcome::StopRequest& stop) {
  if (stop_ || told_failure_) return;
  is_stopping_ = true;
  if (stop.from_outside() && !std::exchange(told_stop_, true)) link_->report_stop(stop.signal);
}

awaitable<std::optional<int>> WholeJob::wait_for_others(const Run& run, const link::Done& done) {
  using namespace boost::asio::experimental::awaitable_operators;
  const auto end = co_await (link_->finish(done) || (may_restart_ ? next_stop(run) : next_end(run)));
  const auto* received = std::get_if<supervise::Signal>(&end);
  if (received == nullptr) {
    if (link_->stop()) stop_ = link_->stop();
    co_return std::nullopt;
  }
  const int signal = received->number;
  if (!may_restart_) {
    co_await link_->leave(done);
    co_return signal;
  }
  link_->report_stop(signal);
  co_await link_->finish(done);
  if (!link_->stop() || !link_->stop()->again) co_return signal;
  stop_ = link_->stop();  // node 0 has not heard of it, so tell the next meeting
  co_return std::nullopt;
}

awaitable<void> WholeJob::wait_for_job(const Run& run, report::Verdict& verdict,
                                       const supervise::ExitRecord& record,
                                       std::vector<link::WorkerReport> workers) {
  report_end(verdict);
  using During = supervise::ExitRecord::During;
  const bool own_stop = record.stopped_from_outside(During::command).has_value();
  verdict.is_linked = true;
  if (verdict.root)
    verdict.root->culprit.text = link::with_node_names(verdict.root->culprit.text, link_->nodes());
  if (!stop_ && !own_stop) {
    run.monitor.enter(PhaseName::finish, "the other nodes' ends");
    if (verdict.root) log::warn("{}; this node waits for the others", report::wording::sentence(verdict));
  }
  const std::optional<int> signal = co_await wait_for_others(run, {verdict.code, std::move(workers)});
  if (stop_ && !own_stop) set_job_end(verdict, *stop_, node_rank_, is_check_);
  // Node 0's verdict may not have arrived. This node's own failure then gets the same code.
  if (verdict.failed() && verdict.error_code == ErrorCode::none) verdict.error_code = ErrorCode::node_failed;
  if (signal && set_signal_while_waiting(verdict, *signal, stop_)) run.signals.drop();
}

/// A stop is reported even after a failure, because it matters if everything would be restarted.
void WholeJob::report_end(const report::Verdict& verdict) {
  if (verdict.code == 0 && !stop_) return;
  if (!stop_ && !told_stop_ && verdict.failed() && !std::exchange(told_failure_, true))
    link_->report_failure(report::culprit_of(verdict));
  if (verdict.stopped_by && !std::exchange(told_stop_, true)) link_->report_stop(*verdict.stopped_by);
}

}  // namespace rankshim::run
