#include <unistd.h>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/io_context.hpp>
#include <string>
#include <variant>
#include <vector>

#include "exit_code.h"
#include "explain/explain.h"
#include "fault.h"
#include "install.h"
#include "launch/launch.h"
#include "launch/log_folder.h"
#include "licenses.h"
#include "log/log.h"
#include "node/node.h"
#include "platform/recognise.h"
#include "platform/user_profiles.h"
#include "report/verdict.h"
#include "settings/exit_map.h"
#include "settings/settings.h"
#include "supervise/signals.h"
#include "supervise/supervise.h"
#include "topology/topology.h"
#include "wait/wait.h"

namespace rankshim {
namespace {

/// Writes all of `text` to stdout; what cannot be written is lost (nobody is left to read it).
void print(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(STDOUT_FILENO, text.data(), text.size());
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

void set_log_level(const Settings& settings) {
  const std::string_view level = settings.text(Option::log_level);
  log::set_level(level == "debug"   ? log::Level::debug
                 : level == "warn"  ? log::Level::warn
                 : level == "error" ? log::Level::error
                                    : log::Level::info);
}

/// One line per fault on stderr; what a program reads of it on stdout.
void report(const Faults& faults, bool json) {
  for (const Fault& fault : faults) log::error("{}", to_line(fault));
  if (json) print(explain::as_json(faults));
}

/// What this node is to do: everything up to, and not including, the first thing that touches the world.
struct Job {
  Topology topology;
  LaunchPlan plan;
};

Outcome<Job> resolve(const Settings& settings, const std::vector<std::string>& command, const Node& node) {
  auto set = platform::read_profiles(settings.text(Option::profile), node);
  if (auto* faults = std::get_if<Faults>(&set)) return std::move(*faults);
  const auto& known = std::get<platform::ProfileSet>(set);
  const auto profiles = known.profiles();
  auto platform = platform::recognise(profiles, settings.text(Option::platform), node, known.own());
  if (auto* faults = std::get_if<Faults>(&platform)) return std::move(*faults);

  auto topology = resolve_topology(settings, std::get<platform::Platform>(platform),
                                   platform::find(profiles, "generic"), node);
  if (auto* faults = std::get_if<Faults>(&topology)) return std::move(*faults);

  auto plan = plan_launch(std::get<Topology>(topology), settings, command, node, std::nullopt);
  if (auto* faults = std::get_if<Faults>(&plan)) return std::move(*faults);
  return Job{std::move(std::get<Topology>(topology)), std::move(std::get<LaunchPlan>(plan))};
}

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

/// Resolves the job once what the platform has yet to write is there. The exit code where that never comes.
std::variant<Job, int> resolve_when_ready(boost::asio::io_context& io, supervise::SignalQueue& signals,
                                          const Invocation& invocation, const Node& node,
                                          const ExitMap& exit_map) {
  std::optional<int> code;
  boost::asio::cancellation_signal enough;
  bool waiting = false;
  const auto limit = *invocation.settings.time(Option::wait_timeout);
  const auto end = std::chrono::steady_clock::now() + limit;
  auto resolved = resolve(invocation.settings, invocation.arguments, node);
  for (auto* faults = std::get_if<Faults>(&resolved); faults != nullptr;
       faults = std::get_if<Faults>(&resolved)) {
    if (!faults->front().passes) {
      report(*faults, false);
      return exit_map.apply(Cause::config, exit_code::configuration);
    }
    if (!waiting) {
      waiting = true;
      log::info("waiting at most {}: {}", format_time(limit), faults->front().what);
      boost::asio::co_spawn(
          io, signals.next_ending(),
          boost::asio::bind_cancellation_slot(
              enough.slot(), [&](const std::exception_ptr& error, supervise::Received signal) {
                if (error) return;  // cancelled: it is enough
                log::info("{} while waiting for the platform; nothing was started",
                          supervise::signal_name(signal.number));
                code = exit_map.apply(Cause::stopped, exit_code::signal_base + signal.number);
              }));
    }
    if (std::chrono::steady_clock::now() >= end) {
      log::error("{}", faults->front().what);
      code = exit_map.apply(Cause::wait, exit_code::unreachable);
    }
    if (code) return *code;
    io.run_for(std::chrono::seconds(1));  // nothing tells when a file of a ConfigMap is written anew
    if (code) return *code;
    resolved = resolve(invocation.settings, invocation.arguments, node);
  }
  if (waiting) {
    enough.emit(boost::asio::cancellation_type::terminal);
    io.run();
    io.restart();
    if (code) return *code;
  }
  return std::move(std::get<Job>(resolved));
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
  if (job.topology.alone) return log::info("one node, {} {}; starting {}", workers, noun, what);
  const auto& rank = facts[Fact::node_rank];
  log::info("{} of {} nodes on {}, {} {}, master {}:{}; starting {}",
            rank ? fmt::format("node {} ({})", rank->text, rank->source()) : "one", facts.text(Fact::nnodes),
            job.topology.platform, workers, noun, facts.text(Fact::master_addr),
            facts.text(Fact::master_port), what);
}

/// The whole way: wait, launch, supervise, say how it ended.
int run(const Invocation& invocation, const Node& node) {
  const Settings& settings = invocation.settings;
  const ExitMap exit_map = ExitMap::parse(settings.text(Option::exit_map)).value_or(ExitMap{});
  boost::asio::io_context io;
  supervise::SignalQueue signals(io);
  auto resolved = resolve_when_ready(io, signals, invocation, node, exit_map);
  if (const auto* code = std::get_if<int>(&resolved)) return *code;
  Job& job = std::get<Job>(resolved);
  for (const std::string& warning : job.topology.warnings) log::warn("{}", warning);
  for (const std::string& warning : job.plan.warnings) log::warn("{}", warning);

  if (job.plan.wait != wait::Until::none) {
    wait::Reached reached;
    if (const auto code = wait_for_master(io, signals, job, settings, exit_map, reached)) return *code;
    if (invocation.subcommand == Subcommand::wait) return exit_code::ok;
    if (job.topology.elastic) {  // who hosts, and by which address peers reach us, shows only now
      if (!job.topology.host) job.topology.host = reached.mine;
      const auto address =
          reached.addresses.empty() ? std::nullopt : std::optional(reached.addresses.front());
      auto plan = plan_launch(job.topology, settings, invocation.arguments, node, address);
      if (auto* known = std::get_if<LaunchPlan>(&plan)) job.plan = std::move(*known);
    }
  }
  if (invocation.subcommand == Subcommand::wait) return exit_code::ok;
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

int explain_job(const Invocation& invocation, const Node& node) {
  const bool json = invocation.settings.text(Option::format) == "json";
  const auto resolved = resolve(invocation.settings, invocation.arguments, node);
  if (const auto* faults = std::get_if<Faults>(&resolved)) {
    report(*faults, json);
    return exit_code::configuration;
  }
  const Job& job = std::get<Job>(resolved);
  if (json) {
    print(explain::as_json(job.topology, job.plan));
    return exit_code::ok;
  }
  print(explain::as_text(job.topology, job.plan, invocation.settings));
  for (const std::string& warning : job.topology.warnings) log::warn("{}", warning);
  for (const std::string& warning : job.plan.warnings) log::warn("{}", warning);
  return exit_code::ok;
}

/// eval "$(…)" swallows our exit code, so the failure has to be in what the shell reads.
int fail_in_shell(const Settings& settings, int code) {
  if (settings.text(Option::format) == "sh") print(fmt::format("exit {}\n", code));
  return code;
}

int print_environment(const Invocation& invocation, const Node& node) {
  const auto resolved = resolve(invocation.settings, {}, node);
  const std::string_view format = invocation.settings.text(Option::format);
  if (const auto* faults = std::get_if<Faults>(&resolved)) {
    report(*faults, format == "json");
    return fail_in_shell(invocation.settings, exit_code::configuration);
  }
  const Topology& topology = std::get<Job>(resolved).topology;
  for (const std::string& warning : topology.warnings) log::warn("{}", warning);
  print(explain::environment(environment_change(topology, invocation.settings, node), format));
  return exit_code::ok;
}

int print_platforms(const Invocation& invocation, const Node& node) {
  const auto& arguments = invocation.arguments;
  if (!arguments.empty() && arguments[0] == "check") {
    const Faults faults = platform::check_profile(arguments[1], node);
    report(faults, false);
    if (!faults.empty()) return exit_code::configuration;
    print(fmt::format("{} is a profile\n", arguments[1]));
    return exit_code::ok;
  }
  const auto read = platform::read_profiles(invocation.settings.text(Option::profile), node);
  if (const auto* faults = std::get_if<Faults>(&read)) {
    report(*faults, false);
    return exit_code::configuration;
  }
  const auto& set = std::get<platform::ProfileSet>(read);
  if (arguments.empty()) {
    print(explain::profile_list(set.profiles()));
    return exit_code::ok;
  }
  const std::string document = set.document(arguments[0]);
  if (document.empty()) {
    log::error("no profile is named {}; rankshim platforms lists them", arguments[0]);
    return exit_code::usage;
  }
  print(document);
  return exit_code::ok;
}

int install_binary(const std::string& folder) {
  const std::string what = install(folder);
  if (what.empty()) return exit_code::ok;
  log::error("{}", what);
  return exit_code::system;
}

int main(int argc, char** argv) {
  const RealNode node(Environment::from(environ));
  const std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
  auto read = read_settings(arguments, node);
  if (const auto* rejected = std::get_if<Rejected>(&read)) {
    report(rejected->faults, rejected->json);
    if (!arguments.empty() && arguments[0] == "env") print(fmt::format("exit {}\n", rejected->exit_code));
    return rejected->exit_code;
  }
  const Invocation& invocation = std::get<Invocation>(read);
  set_log_level(invocation.settings);
  switch (invocation.subcommand) {
    case Subcommand::run:
    case Subcommand::wait:
      return run(invocation, node);
    case Subcommand::explain:
      return explain_job(invocation, node);
    case Subcommand::env:
      return print_environment(invocation, node);
    case Subcommand::platforms:
      return print_platforms(invocation, node);
    case Subcommand::install:
      return install_binary(invocation.arguments.front());
    case Subcommand::help:
      print(help_text());
      return exit_code::ok;
    case Subcommand::version:
      print("rankshim " RANKSHIM_VERSION "\n");
      return exit_code::ok;
    case Subcommand::licenses:
      print(licenses());
      return exit_code::ok;
  }
  return exit_code::usage;
}

}  // namespace
}  // namespace rankshim

int main(int argc, char** argv) {
  try {
    return rankshim::main(argc, argv);
  } catch (const std::exception&) {  // memory, or a loop that cannot be made; nothing runs yet
    rankshim::log::error("the system refused memory or descriptors before anything was started");
    return rankshim::exit_code::system;
  }
}
