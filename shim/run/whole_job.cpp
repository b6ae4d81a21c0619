#include "run/whole_job.h"

#include <boost/asio/experimental/awaitable_operators.hpp>
#include <chrono>
#include <csignal>
#include <utility>

#include "base/fault.h"
#include "base/log.h"
#include "base/signals.h"
#include "base/text.h"
#include "link/node_names.h"
#include "loop/loop.h"
#include "run/before_start.h"

namespace rankshim {

using boost::asio::awaitable;
using std::chrono::steady_clock;

namespace {

link::Options plan_link(const Run& run, const Job& job, const StaticNode& node,
                        const std::optional<link::Key>& token, Attempts& attempts,
                        std::vector<std::string> addresses) {
  const Environment& environment = run.node.environment();
  const auto variable = [&](std::string_view name) {
    return std::string(environment.get(name).value_or(""));
  };
  link::Options options;
  options.self.run = job.topology.facts.text(Fact::run_id);
  options.self.attempt = job.topology.facts.text(Fact::attempt);
  options.self.restarts = attempts.number();
  if (attempts.of_the_job()) options.self.job_restarts = run.settings.text(Option::job_restarts);
  options.self.rank = node.rank;
  options.self.nnodes = node.nodes;
  options.self.workers = node.workers;
  options.self.launcher = job.choice.launcher_name();
  options.self.host = run.node.host_name();
  options.self.pod = variable("POD_NAME");
  options.self.platform_node = variable("NODE_NAME");
  options.self.version = RANKSHIM_VERSION;
  options.master.host = node.master->host;
  options.master.port = node.master->port;
  options.addresses = std::move(addresses);
  options.token = token;
  options.timeout = *run.settings.time(Option::link_timeout);
  options.rules.equal_workers = job.choice.by_torchrun();
  options.rules.gathers = run.preflight;
  if (attempts.of_the_job())
    options.rules.decide = [&attempts](link::Stop& stop) { attempts.decide(stop, steady_clock::now()); };
  return options;
}

/// Whether this node links with the others: it is asked for, and it is possible.
bool is_linked(const Run& run, const Job& job, const Attempts& attempts) {
  if (run.only_wait) return false;
  const std::string_view wanted = run.settings.text(Option::link);
  if (wanted == "off" && !run.preflight) return false;
  const auto* node = job.topology.as<StaticNode>();
  const bool possible = node != nullptr && node->master;
  const bool launches = job.choice.launches() || job.choice.joins_nodes;
  const std::string_view wait = run.settings.text(Option::wait);
  const bool waits = wait == "auto" || wait == "port";
  const bool must = wanted == "on" || attempts.of_the_job() || run.preflight;
  if (possible && (must || (launches && waits))) return true;
  if (wanted == "on" && !possible && !job.topology.is_alone())
    log::warn(
        "--link=on: only nodes that have their numbers and a master from the beginning can be linked; this "
        "one goes on without a link");
  return false;
}

/// Meets the other nodes: returns the link, null if the job goes on without one, or how the run ends here.
awaitable<std::variant<std::unique_ptr<WholeJob>, Verdict>> meet_nodes(const Run& run, Job& job,
                                                                       Attempts& attempts,
                                                                       std::vector<std::string> addresses) {
  using namespace boost::asio::experimental::awaitable_operators;
  std::optional<link::Key> token;
  if (const std::string file(run.settings.text(Option::job_token_file)); !file.empty()) {
    auto read = link::read_token(file);
    if (const auto* faults = std::get_if<Faults>(&read))
      co_return ended_before_start(exit_code::configuration, Cause::config, Anchor::none,
                                   to_line(faults->front()));
    token = std::get<link::Key>(read);
  }
  const char* must = run.settings.text(Option::link) == "on" ? "--link=on"
                     : attempts.of_the_job()                 ? "--job-restarts"
                     : run.preflight                         ? "preflight"
                                                             : nullptr;
  StaticNode& node = std::get<StaticNode>(job.topology.part);
  std::shared_ptr<link::Link> link;
  try {
    link = link::Link::make(run.io, plan_link(run, job, node, token, attempts, std::move(addresses)));
  } catch (const boost::system::system_error& error) {
    if (must != nullptr)
      co_return ended_before_start(
          exit_code::system, Cause::none, Anchor::no_link,
          fmt::format("the system refused what the link of the nodes needs, which {} asks for: {}", must,
                      loop::reason(error)));
    log::warn("the job goes on without a link between its nodes: {}", loop::reason(error));
    co_return nullptr;
  }
  run.monitor.enter("meet", "the other nodes");
  run.monitor.begin();
  run.monitor.set_link(link.get());
  const auto deadline = steady_clock::now() + *run.settings.time(Option::wait_timeout);
  const auto met = co_await (link->meet(deadline) || run.signals.next_ending());
  if (const auto* signal = std::get_if<supervise::Received>(&met)) {
    run.monitor.set_link(nullptr);
    run.signals.drop();
    co_return stopped_before_start(signal->number, "while waiting for the other nodes");
  }
  if (const auto* launch = std::get_if<link::Launch>(&met)) {
    node.told = {launch->offset, launch->world};
    attempts.begin(launch->attempt, steady_clock::now());
    log::info("all {} nodes are here", node.nodes);
    co_return std::make_unique<WholeJob>(std::move(link), node.rank, node.max_restarts != 0, run.preflight);
  }
  run.monitor.set_link(nullptr);
  if (const auto* refused = std::get_if<link::Refused>(&met))
    co_return ended_before_start(exit_code::configuration, Cause::config, Anchor::nodes_differ,
                                 refused->sentence);
  if (const auto* late = std::get_if<link::TimedOut>(&met))
    co_return ended_before_start(exit_code::unreachable, Cause::wait, Anchor::nodes_missing, late->sentence);
  const std::string& why = std::get<link::NoLink>(met).why;
  if (must != nullptr)
    co_return ended_before_start(exit_code::configuration, Cause::config, Anchor::no_link,
                                 fmt::format("the nodes cannot be linked, which {} asks for: {}", must, why));
  log::info("the job goes on without a link between its nodes: {}", why);
  co_return nullptr;
}

}  // namespace

awaitable<std::variant<Membership, Verdict>> join_job(const Run& run, Job& job, Attempts& attempts) {
  Membership membership;
  if (attempts.number() != 0) {  // what came in between is not for the next command
    const auto signal = co_await run.signals.next_ending(steady_clock::now());
    if (signal.number != 0) run.signals.drop();
    if (signal.number != 0) co_return stopped_before_start(signal.number, "before the next attempt");
  }
  attempts.begin(attempts.number(), steady_clock::now());
  const bool links = is_linked(run, job, attempts);
  std::vector<std::string> addresses;
  if (auto end =
          co_await wait_for_master(run, job.topology, links ? Until::name : job.choice.wait, addresses))
    co_return std::move(*end);
  if (!addresses.empty()) membership.master_address = addresses.front();
  if (!links) co_return membership;
  auto met = co_await meet_nodes(run, job, attempts, addresses);
  if (auto* end = std::get_if<Verdict>(&met)) co_return std::move(*end);
  membership.whole = std::move(std::get<std::unique_ptr<WholeJob>>(met));
  if (membership.whole == nullptr) {
    if (auto end = co_await wait_for_master(run, job.topology, job.choice.wait, addresses))
      co_return std::move(*end);
    if (!addresses.empty()) membership.master_address = addresses.front();
  }
  co_return membership;
}

void WholeJob::begin(supervise::Orders& orders) {
  link_->on_stop([this, &orders](const link::Stop& stop) {
    stop_ = stop;
    if (gathers_ && stop.why == link::Stop::Why::failed) return;  // each node's command has ended
    const std::string why = stop.sentence();
    log::warn("{}; this node stops too", why);
    orders.give({.kind = supervise::Order::Kind::stop, .why = why});
  });
}

void WholeJob::worker_failed(const link::Failure& failure) {
  told_ = true;
  link_->report_failure(failure);
}

void WholeJob::stopping(int signal) {
  if (std::exchange(told_, true) || stop_) return;
  link_->report_stop(signal);
}

awaitable<void> WholeJob::finish(const Run& run, Verdict& verdict, const supervise::Ending& ending) {
  using namespace boost::asio::experimental::awaitable_operators;
  if (verdict.code != 0 && !stop_ && !std::exchange(told_, true)) {
    const bool stopped = verdict.cause == Cause::stopped;
    if (stopped) {
      link_->report_stop(ending.stop_signal.value_or(SIGTERM));
    } else {
      link_->report_failure(stop_of(verdict).culprit);
    }
  }
  verdict.sentence = link::with_node_names(verdict.sentence, link_->nodes());
  if (verdict.code == 0 && !stop_) run.monitor.enter("finish", "the other nodes' ends");
  const auto end = co_await (link_->finish(verdict.code) || run.signals.next_ending());
  const auto* job = std::get_if<link::JobEnd>(&end);
  if (job != nullptr && job->stop && !stop_) stop_ = job->stop;
  const bool has_own_stop =
      ending.signal_after_order || (ending.stop_signal && ending.stopped_because.empty());
  const bool is_for_another = stop_ && stop_->culprit.node != node_rank_ && !has_own_stop;
  const bool starts_again = is_for_another && stop_->again;
  if (is_for_another)
    verdict.sentence = stop_->sentence() + "; this node was ended for it: " + verdict.sentence;
  const auto* signal = std::get_if<supervise::Received>(&end);
  if (signal != nullptr && (starts_again || (!stop_ && verdict.cause != Cause::stopped)))
    verdict.sentence +=
        fmt::format("; {} came while it waited for the other nodes", supervise::signal_name(signal->number));
  if (signal != nullptr && (starts_again || (!stop_ && verdict.code == 0))) {
    run.signals.drop();
    verdict.code = exit_code::signal_base + signal->number;
    verdict.cause = Cause::stopped;
    verdict.anchor = Anchor::none;
    verdict.failed = false;
    verdict.root.reset();
    co_return;
  }
  if (stop_ && gathers_ && verdict.code != 0 && !has_own_stop) {
    verdict.sentence = stop_->sentence();
    co_return;
  }
  if (!is_for_another) co_return;
  verdict.code = exit_code::peer;
  verdict.cause = Cause::peer;
  verdict.anchor = stop_->why == link::Stop::Why::failed    ? Anchor::node_failed
                   : stop_->why == link::Stop::Why::drained ? Anchor::node_stopped
                                                            : Anchor::node_lost;
  verdict.failed = true;
  verdict.root.reset();
  verdict.ended_for = stop_;
}

}  // namespace rankshim
