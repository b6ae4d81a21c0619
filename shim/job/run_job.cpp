#include "job/run_job.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/io_context.hpp>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "exit_code.h"
#include "job/job.h"
#include "launch/interface.h"
#include "launch/log_folder.h"
#include "log/log.h"
#include "report/verdict.h"
#include "settings/exit_map.h"
#include "supervise/signals.h"
#include "supervise/supervise.h"
#include "wait/wait.h"

namespace rankshim {
namespace {

/// Waits for the master. Returns the exit code where that ends us: it never came, or a signal did.
std::optional<int> wait_for_master(boost::asio::io_context& io, supervise::SignalQueue& signals,
                                   const Job& job, const Settings& settings, const ExitMap& exit_map,
                                   wait::Reached& reached) {
  using namespace boost::asio::experimental::awaitable_operators;
  const Facts& facts = job.topology.facts;
  wait::Master master{std::string(facts.text(Fact::master_addr)),
                      static_cast<std::uint16_t>(job.topology.number(Fact::master_port)), job.plan.wait,
                      !job.topology.host.has_value()};
  wait::Limits limits;
  limits.timeout = *settings.time(Option::wait_timeout);

  std::optional<int> code;
  boost::asio::co_spawn(io, wait::wait_for(std::move(master), std::move(limits)) || signals.next_ending(),
                        [&](const std::exception_ptr& error,
                            std::variant<wait::Reached, wait::Unreachable, supervise::Received> first) {
                          if (error) {  // out of memory or descriptors
                            log::error("the system refused to wait for the master");
                            code = exit_code::system;
                          } else if (const auto* signal = std::get_if<supervise::Received>(&first)) {
                            log::info("{} while waiting for the master; nothing was started",
                                      supervise::signal_name(signal->number));
                            code = exit_map.apply(Cause::stopped, exit_code::signal_base + signal->number);
                          } else if (const auto* unreachable = std::get_if<wait::Unreachable>(&first)) {
                            log::error("{}", unreachable->what);
                            code = exit_map.apply(Cause::wait, exit_code::unreachable);
                          } else {
                            reached = std::move(std::get<wait::Reached>(first));
                          }
                        });
  io.run();
  io.restart();
  return code;
}

void announce(const Job& job) {
  const Facts& facts = job.topology.facts;
  const std::string what = job.plan.launcher == Launcher::none ? job.plan.argv.front() : "torchrun";
  if (!job.topology.idle_role.empty() || job.topology.platform == "none")
    return log::info("starting {}", what);
  if (job.topology.granularity == platform::Granularity::process) {
    return log::info("rank {} of {} on {}, master {}:{}; starting {}", facts.text(Fact::rank),
                     facts.text(Fact::world_size), job.topology.platform, facts.text(Fact::master_addr),
                     facts.text(Fact::master_port), what);
  }
  const std::string_view workers = facts.text(Fact::nproc_per_node);
  const std::string_view noun = workers == "1" ? "worker" : "workers";
  if (job.topology.alone && workers.empty()) return log::info("one node; starting {}", what);
  if (job.topology.alone) return log::info("one node, {} {}; starting {}", workers, noun, what);
  const auto& rank = facts[Fact::node_rank];
  log::info("{} of {} nodes on {}, {} {}, master {}:{}; starting {}",
            rank ? fmt::format("node {} ({})", rank->text, rank->source()) : "one", facts.text(Fact::nnodes),
            job.topology.platform, workers, noun, facts.text(Fact::master_addr),
            facts.text(Fact::master_port), what);
}

}  // namespace

int run_job(const Invocation& invocation, const Node& node) {
  const Settings& settings = invocation.settings;
  const ExitMap exit_map = ExitMap::parse(settings.text(Option::exit_map)).value_or(ExitMap{});
  const bool program = invocation.subcommand == Subcommand::run && !is_script(invocation.arguments);
  auto resolved = resolve_job(settings, invocation.arguments, node, program);
  if (const auto* faults = std::get_if<Faults>(&resolved)) {
    for (const Fault& fault : *faults) log::error("{}", to_line(fault));
    return exit_map.apply(Cause::config, exit_code::configuration);
  }
  Job& job = std::get<Job>(resolved);
  for (const std::string& warning : job.topology.warnings) log::warn("{}", warning);
  for (const std::string& warning : job.plan.warnings) log::warn("{}", warning);

  boost::asio::io_context io;
  supervise::SignalQueue signals(io);
  std::optional<std::string> address;  // the master's
  if (job.plan.wait != wait::Until::none) {
    wait::Reached reached;
    if (const auto code = wait_for_master(io, signals, job, settings, exit_map, reached)) return *code;
    if (invocation.subcommand == Subcommand::wait) return exit_code::ok;
    if (!reached.addresses.empty()) address = reached.addresses.front();
    if (job.topology.elastic) {  // who hosts, and by which address peers reach us, shows only now
      if (!job.topology.host) job.topology.host = reached.mine;
      auto plan = plan_launch(job.topology, settings, invocation.arguments, node, address);
      if (auto* known = std::get_if<LaunchPlan>(&plan)) job.plan = std::move(*known);
    }
  }
  if (invocation.subcommand == Subcommand::wait) return exit_code::ok;
  name_interface(job.plan, job.topology, settings, node, address);
  announce(job);

  supervise::Policy policy;
  policy.scope = job.plan.scope;
  policy.grace = settings.time(Option::grace);
  policy.leftover_grace = *settings.time(Option::leftover_grace);
  policy.agent = job.plan.launcher != Launcher::none;
  const LogFolder log_folder(job.plan, node);
  policy.log_folder = log_folder.path();
  policy.workers = job.topology.number(Fact::nproc_per_node);
  const supervise::Command command{job.plan.argv, job.plan.environment.apply(node.environment()).entries()};
  const Verdict verdict = judge(supervise::supervise(io, signals, command, policy), job.plan);
  if (verdict.failed) {
    log::error("{}", verdict.sentence);
  } else {
    log::info("{}", verdict.sentence);
  }
  if (log::dropped() != 0)
    log::warn("{} lines of ours were lost because stderr could not take them", log::dropped());
  return exit_map.apply(verdict.cause, verdict.code);
}

}  // namespace rankshim
