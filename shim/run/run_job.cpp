#include "run/run_job.h"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "base/exit_code.h"
#include "base/log.h"
#include "base/signal_text.h"
#include "base/text.h"
#include "init/event_loop.h"
#include "init/signal_queue.h"
#include "init/supervise.h"
#include "init/working_directory.h"
#include "launch/network_interface.h"
#include "report/redact.h"
#include "report/verdict.h"
#include "run/conclude.h"
#include "run/hooks.h"
#include "run/monitor.h"
#include "run/pause.h"
#include "run/plan.h"
#include "run/policy.h"
#include "run/resolve.h"
#include "settings/exit_map.h"
#include "torchrun/agent.h"
#include "torchrun/program.h"
#include "torchrun/temporary_folder.h"
#include "wait/wait.h"

namespace rankshim {
namespace {

/// An end before the command was started.
Verdict ended_before_start(int code, Cause cause, std::string sentence, bool failed = true) {
  Verdict verdict;
  verdict.code = code;
  verdict.cause = cause;
  verdict.sentence = std::move(sentence);
  verdict.failed = failed;
  return verdict;
}

std::string what_is_awaited(const Job& job) {
  const Facts& facts = job.topology.facts;
  if (job.plan.wait == Until::name) return "the name " + std::string(facts.text(Fact::master_addr));
  return host_port(facts.text(Fact::master_addr), facts.text(Fact::master_port)) + " to answer";
}

/// Whether the master is another node, as far as names tell before they are looked up.
bool is_elsewhere(const Topology& topology, const Node& node) {
  const std::string_view master = topology.facts.text(Fact::master_addr);
  return !topology.host.value_or(false) && topology.facts.text(Fact::nnodes) != "1" && !is_loopback(master) &&
         !same_host(master, node.host_name());
}

/// Waits for the master. Returns how it ended where that ends us: the master never came, or a signal did.
std::optional<Verdict> wait_for_master(boost::asio::io_context& io, supervise::SignalQueue& signals,
                                       const Job& job, const Settings& settings, const Node& node,
                                       wait::Reached& reached) {
  using namespace boost::asio::experimental::awaitable_operators;
  const Facts& facts = job.topology.facts;
  wait::Master master{std::string(facts.text(Fact::master_addr)),
                      static_cast<std::uint16_t>(job.topology.number(Fact::master_port)), job.plan.wait,
                      !job.topology.host.has_value(), is_elsewhere(job.topology, node)};
  wait::Limits limits;
  limits.timeout = *settings.time(Option::wait_timeout);

  bool over = false;
  std::optional<Verdict> end;
  boost::asio::co_spawn(io, wait::wait_for(std::move(master), std::move(limits)) || signals.next_ending(),
                        [&](const std::exception_ptr& error,
                            std::variant<wait::Reached, wait::Unreachable, supervise::Received> first) {
                          over = true;
                          if (error) {  // out of memory or descriptors
                            end = ended_before_start(exit_code::system, Cause::none,
                                                     "the system refused to wait for the master");
                          } else if (const auto* signal = std::get_if<supervise::Received>(&first)) {
                            signals.drop();
                            end = ended_before_start(exit_code::signal_base + signal->number, Cause::stopped,
                                                     supervise::signal_name(signal->number) +
                                                         " while waiting for the master; nothing was started",
                                                     false);
                          } else if (const auto* unreachable = std::get_if<wait::Unreachable>(&first)) {
                            end = ended_before_start(exit_code::unreachable, Cause::wait, unreachable->what);
                          } else {
                            reached = std::move(std::get<wait::Reached>(first));
                          }
                        });
  run_until(io, over);
  return end;
}

/// Resolves the job once what the platform has yet to write is there, or how it ended where that never comes.
std::variant<Job, Faults, Verdict> resolve_when_ready(boost::asio::io_context& io,
                                                      supervise::SignalQueue& signals,
                                                      const Invocation& invocation, const Node& node,
                                                      Monitor& monitor) {
  const Settings& settings = invocation.settings;
  const auto limit = *settings.time(Option::wait_timeout);
  const auto end = std::chrono::steady_clock::now() + limit;
  for (bool waits = false;;) {
    auto resolved = resolve_job(settings, invocation.arguments, node);
    if (auto* job = std::get_if<Job>(&resolved)) return std::move(*job);
    auto& faults = std::get<Faults>(resolved);
    if (!faults.front().transient) return std::move(faults);
    if (!waits) {
      waits = true;
      log::info("waiting at most {}: {}", format_time(limit), faults.front().what);
      monitor.enter("wait", faults.front().what);
      monitor.begin();
    }
    if (std::chrono::steady_clock::now() >= end)
      return ended_before_start(exit_code::unreachable, Cause::wait, faults.front().what);
    // Nothing tells when a file of a ConfigMap is written anew.
    if (const auto signal = pause(io, signals, std::chrono::seconds(1))) {
      return ended_before_start(
          exit_code::signal_base + signal->number, Cause::stopped,
          supervise::signal_name(signal->number) + " while waiting for the platform; nothing was started",
          false);
    }
  }
}

/// Asks the interpreter of a launcher whether it finds torch, which without importing it takes it
/// milliseconds: who waits for others would learn too late that it cannot take part, and a node alone ends
/// with Python's own 1. Returns how it ended where that ends us; an interpreter that does not answer ends
/// nothing.
std::optional<Verdict> check_python(boost::asio::io_context& io, supervise::SignalQueue& signals,
                                    const Job& job, const Settings& settings, const Node& node) {
  if (job.plan.python.empty()) return std::nullopt;
  constexpr int absent = 100;
  std::vector<std::string> argv = job.plan.python;
  argv.insert(argv.end(),
              {"-c", "import importlib.util,sys; sys.exit(0 if importlib.util.find_spec('torch') else 100)"});
  supervise::Policy policy = plan_supervision(settings);
  policy.hook = true;
  policy.limit =
      std::min<std::chrono::milliseconds>(std::chrono::seconds(20), *settings.time(Option::wait_timeout));
  const supervise::Command command{argv, node.environment().entries()};
  const supervise::Ending asked =
      supervise::run_to_end(io, signals, supervise::supervise(io, signals, command, policy));
  if (const auto signal = asked_to_stop(asked)) {
    return ended_before_start(
        exit_code::signal_base + *signal, Cause::stopped,
        supervise::signal_name(*signal) + " while the interpreter was looked at; nothing was started", false);
  }
  if (asked.kind != supervise::Ending::Kind::exited || asked.number != absent) return std::nullopt;
  return ended_before_start(
      exit_code::configuration, Cause::config,
      fmt::format("no torch in {}: install it there, or name the interpreter that has it by --python "
                  "(RANKSHIM_PYTHON)",
                  node.find_program(argv.front()).value_or(argv.front())));
}

void announce(const Job& job, const std::vector<std::string>& command) {
  const Facts& facts = job.topology.facts;
  const std::string& program = job.plan.interpreter.empty() ? command.front() : job.plan.interpreter;
  const std::string what = job.plan.launches() ? "torchrun" : program;
  if (!job.topology.idle_role.empty() || job.topology.platform == "none")
    return log::info("starting {}", what);
  if (job.topology.granularity == platform::Granularity::process) {
    return log::info("rank {} of {} on {}, master {}; starting {}", facts.text(Fact::rank),
                     facts.text(Fact::world_size), job.topology.platform,
                     host_port(facts.text(Fact::master_addr), facts.text(Fact::master_port)), what);
  }
  const std::string_view workers = facts.text(Fact::nproc_per_node);
  const std::string_view noun = workers == "1" ? "worker" : "workers";
  if (job.topology.alone && !job.plan.launches()) return log::info("one node; starting {}", what);
  if (job.topology.alone) return log::info("one node, {} {}; starting {}", workers, noun, what);
  const auto& rank = facts[Fact::node_rank];
  const std::string master =
      facts.has(Fact::master_addr)
          ? "master " + host_port(facts.text(Fact::master_addr), facts.text(Fact::master_port))
          : std::string("a master that it finds itself");
  log::info("{} of {} nodes on {}, {} {}, {}; starting {}",
            rank ? fmt::format("node {} ({})", rank->text, rank->source()) : "one", facts.text(Fact::nnodes),
            job.topology.platform, workers, noun, master, what);
}

/// The hook that comes before anything is read. Returns how it ended where that ends us.
std::optional<Verdict> run_pre_start(boost::asio::io_context& io, supervise::SignalQueue& signals,
                                     const Settings& settings, const Node& node, Monitor& monitor) {
  const std::string command(settings.text(Option::pre_start));
  if (command.empty()) return std::nullopt;
  monitor.enter("pre-start");
  monitor.begin();
  const auto limit = *settings.time(Option::pre_start_timeout);
  const supervise::Ending hook = run_hook(io, signals, settings, command, node.environment(), limit);
  if (const auto signal = asked_to_stop(hook)) {
    return ended_before_start(
        exit_code::signal_base + *signal, Cause::stopped,
        supervise::signal_name(*signal) + " during the pre-start hook; nothing was started", false);
  }
  if (hook.leftovers != 0)
    log::warn("what the pre-start hook left running was stopped: start it from the command");
  if (code_of(hook) == 0) return std::nullopt;
  return ended_before_start(code_of(hook), Cause::none,
                            "the pre-start hook " + describe(hook, limit) + "; nothing was started");
}

/// What a look at the processes is to find; nothing where each worker has its own rankshim, or none trains
/// here.
torchrun::JobSize size_of(const Topology& topology) {
  if (topology.alone || topology.granularity != platform::Granularity::node || !topology.idle_role.empty())
    return {};
  const std::string_view nodes = topology.facts.text(Fact::nnodes);
  return {.nodes = parse_count(nodes.substr(0, nodes.find(':'))).value_or(0),
          .workers = topology.number(Fact::nproc_per_node),
          .on_loopback = is_loopback(topology.facts.text(Fact::master_addr))};
}

/// Where the launcher itself is to say why it failed; empty: nowhere.
std::string agents_file(const Job& job, const Node& node, const OwnFolder& folder) {
  if (!job.plan.launches() && !folder.has_site) return {};
  std::string path(node.environment().get(agent_error_variable).value_or(""));
  for (const auto& [name, value] : job.plan.environment.set) {
    if (name == agent_error_variable) path = value;
  }
  if (path.empty() && folder.has_site) path = agent_error_file(folder.path);  // of a program's torchrun
  return path;
}

/// What the workers, the agent and the kernel have left to say of a failure. `before` is how the agent's file
/// looked before the start: where the user named it, an earlier run may have left one.
Details gather(const supervise::Ending& ending, const Job& job, const Node& node, const Settings& settings,
               const Monitor& monitor, const std::string& agents, const FileState& before) {
  Details details;
  details.memory = monitor.memory();
  if (ending.kind == supervise::Ending::Kind::exited && ending.number == 0) return details;
  Redactor redactor(node.environment(), settings.text(Option::redact));
  const auto read = [&](const std::string& path) {
    const PythonError error = read_error_file(node, path);
    return PythonError{redactor.message(error.message), redactor.traceback(error.traceback)};
  };
  if (!ending.workers.error_folder.empty()) {
    for (unsigned worker = 0; worker < job.topology.number(Fact::nproc_per_node); ++worker)
      details.workers.push_back(
          read(ending.workers.error_folder + "/" + std::to_string(worker) + "/error.json"));
  }
  if (!agents.empty() && !ending.stop_signal) {
    details.agent_tells = job.plan.launcher == LauncherKind::torchrun;
    if (state_of(agents) != before) details.agent = read(agents);
  }
  details.shm = describe_shm();
  return details;
}

/// Where this node stands among the job's: by its last workers' own word, for an elastic job's nodes come and
/// go, else by the topology. Nothing of a node alone.
std::optional<supervise::Place> place_of(const supervise::Ending& ending, const Job& job) {
  const Topology& topology = job.topology;
  if (topology.alone) return std::nullopt;
  const std::optional<supervise::Place>& last = ending.workers.place;
  if (last || topology.elastic || !topology.facts.has(Fact::node_rank)) return last;
  return supervise::Place{topology.number(Fact::node_rank), topology.number(Fact::nnodes)};
}

/// While the command runs our working directory is another one (init/working_directory.h).
Invocation with_absolute_paths(Invocation invocation) {
  for (const Option option : {Option::report, Option::termination_log, Option::run_dir}) {
    std::optional<Value>& path = invocation.settings[option];
    if (path && path->text != "none") path->text = supervise::absolute_path(std::move(path->text));
  }
  return invocation;
}

/// What torchrun waits for before its first worker; nothing on a node that is the whole job.
std::optional<torchrun::MeetingPlan> plan_meeting(const Job& job, const Settings& settings) {
  const Topology& topology = job.topology;
  if (!job.plan.launches() || (!topology.elastic && topology.number(Fact::nnodes) < 2)) return std::nullopt;
  torchrun::MeetingPlan meeting;
  meeting.port = static_cast<std::uint16_t>(topology.number(Fact::master_port));
  if (!topology.elastic) meeting.limit = settings.time(Option::wait_timeout);
  return meeting;
}

/// By what the supervisor asks about the command's workers.
std::unique_ptr<supervise::Launcher> make_launcher(const Job& job, const Settings& settings,
                                                   const std::string& log_folder) {
  const torchrun::JobSize size = size_of(job.topology);
  const bool strict = settings.flag(Option::strict);
  if (!job.plan.launches()) return std::make_unique<torchrun::Program>(size, strict);
  torchrun::AgentPlan plan;
  plan.log_folder = log_folder;
  plan.workers = job.topology.number(Fact::nproc_per_node);
  plan.worker_signals = supervise::parse_signals(settings.text(Option::worker_signals)).value_or(0);
  plan.meeting = plan_meeting(job, settings);
  return std::make_unique<torchrun::Agent>(std::move(plan), size, strict);
}

}  // namespace

int run_job(const Invocation& given, const Node& node) {
  const Invocation invocation = with_absolute_paths(given);
  const Settings& settings = invocation.settings;
  const bool only_wait = invocation.subcommand == Subcommand::wait;
  boost::asio::io_context io;
  supervise::SignalQueue signals(io);
  if (const auto signal = supervise::parse_signal(settings.text(Option::parent_death_signal)))
    supervise::end_with_parent(*signal);
  Monitor monitor(io, settings, node);
  Conclusion conclusion(io, signals, settings, node, monitor, !only_wait);

  if (!only_wait) {
    if (const auto end = run_pre_start(io, signals, settings, node, monitor)) return conclusion.reach(*end);
  }
  monitor.enter("resolve");
  auto resolved = resolve_when_ready(io, signals, invocation, node, monitor);
  if (const auto* verdict = std::get_if<Verdict>(&resolved)) return conclusion.reach(*verdict);
  if (const auto* faults = std::get_if<Faults>(&resolved)) {
    for (const Fault& fault : *faults) log::error("{}", to_line(fault));
    return conclusion.reach(
        ended_before_start(exit_code::configuration, Cause::config, to_line(faults->front())),
        Conclusion::said);
  }
  Job& job = std::get<Job>(resolved);
  monitor.set_job(job);
  conclusion.set_job(job);
  for (const std::string& warning : job.topology.warnings) log::warn("{}", warning);
  for (const std::string& warning : job.plan.warnings) log::warn("{}", warning);

  if (!only_wait) {
    if (!job.plan.missing.empty())
      return conclusion.reach(ended_before_start(exit_code::not_found, Cause::none, job.plan.missing));
    if (const auto end = check_python(io, signals, job, settings, node)) return conclusion.reach(*end);
  }
  std::optional<std::string> address;  // the master's
  if (job.plan.wait != Until::none) {
    monitor.enter("wait", what_is_awaited(job));
    monitor.begin();
    wait::Reached reached;
    if (const auto end = wait_for_master(io, signals, job, settings, node, reached))
      return conclusion.reach(*end);
    if (!reached.addresses.empty()) address = reached.addresses.front();
    // Who hosts an elastic job without ranks shows only now.
    if (job.topology.elastic && !job.topology.host) job.topology.host = reached.mine;
  }
  if (only_wait) {
    monitor.termination_log().finish({});
    return exit_code::ok;
  }
  announce(job, invocation.arguments);
  monitor.enter(job.plan.launches() ? "launch" : "run");

  const LaunchInput input{job.topology, settings, invocation.arguments, node};
  const TemporaryFolder folder(job.plan, plan_site(job.plan, input, address), node);
  write_command(job.plan, input, address, folder.own());
  name_interface(job.plan, job.topology, settings, node, address);
  supervise::Policy policy = plan_supervision(job.plan, settings);
  const auto launcher = make_launcher(job, settings, folder.log_folder());
  policy.launcher = launcher.get();
  policy.observer = &monitor;
  monitor.set_launcher(launcher.get());
  const supervise::Command command{job.plan.argv, job.plan.environment.apply(node.environment()).entries()};
  const std::string agents = agents_file(job, node, folder.own());
  // In our own folder, which is new, there is none.
  const bool ours = !folder.own().path.empty() && agents == agent_error_file(folder.own().path);
  const FileState agents_before = ours ? FileState{} : state_of(agents);
  const supervise::Ending ending =
      supervise::run_to_end(io, signals, supervise::supervise(io, signals, command, policy));
  monitor.set_launcher(nullptr);
  const Details details = gather(ending, job, node, settings, monitor, agents, agents_before);
  const bool launcher_code = settings.text(Option::exit_code) == "launcher";
  return conclusion.reach(judge(ending, job.plan, details, place_of(ending, job), launcher_code), ending,
                          details);
}

}  // namespace rankshim
