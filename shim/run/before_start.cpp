#include "run/before_start.h"

#include <algorithm>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <chrono>
#include <utility>

#include "base/duration.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/text.h"
#include "run/hooks.h"
#include "run/plan.h"
#include "supervise/supervise.h"

namespace rankshim::run {

using boost::asio::awaitable;
using outcome::Cause;
using report::PhaseName;
using settings::Option;
namespace reason = report::reason;
using Stage = reason::Stopped::Stage;

namespace {

/// Whether the master is another node, as far as names show before they are looked up.
bool is_elsewhere(const topology::Topology& topology, const node::Host& host) {
  const std::string& master = topology.master()->host;
  return !topology.hosts_master().value_or(false) && topology.nodes() != 1U &&
         !topology::is_loopback(master) && !topology::same_host(master, host.host_name());
}

/// Sets what is wrong if the master's name leads to this node, and what if it does not.
void set_mismatch_texts(wait::MasterTarget& master, const topology::Topology& topology) {
  const Facts& facts = topology.facts;
  const auto* elastic = topology.as<topology::ElasticNode>();
  const bool own_service = elastic != nullptr && elastic->backend != "c10d";  // etcd may be anywhere
  const auto hosts_master = topology.hosts_master();
  if (!hosts_master || topology.is_alone() || own_service || topology::is_loopback(master.host)) return;
  const bool created = topology.is<topology::CreatedProcess>();
  const Fact number = created ? Fact::rank : Fact::node_rank;
  if (!facts.has(number)) return;
  const std::string what =
      fmt::format("{} {} ({})", created ? "rank" : "node", facts.text(number), facts[number]->source());
  if (*hosts_master) {
    master.wrong_if_not_mine = fmt::format(
        "though this is {}: the master ({}) or the rank is wrong, or two have this rank; may be right "
        "if that address leads here, as a Service's does",
        what, facts[Fact::master_addr]->source());
  } else if (!created) {  // a process may be on the same node as rank 0
    master.wrong_if_mine = fmt::format(
        "though this is {}: the master ({}) must be node 0's address; may be right if all nodes are on one "
        "machine",
        what, facts[Fact::master_addr]->source());
  }
}

unsigned how_many_wait(const topology::Topology& topology) {
  if (const auto* elastic = topology.as<topology::ElasticNode>()) return elastic->most;
  const auto* process = topology.as<topology::CreatedProcess>();
  return process != nullptr ? process->world_size : topology.nodes().value_or(1);
}

/// The exit codes of look_for_torch: there is no torch; torch has torch.distributed.launch but no torchrun;
/// torchrun does not know option I (first_unknown + I).
constexpr int no_torch = 100;
constexpr int no_torchrun = 101;
constexpr int first_unknown = 102;

/// Looks for torch, and for the options in its arguments, without importing torch. It searches torchrun's own
/// source for the options, because there are too many versions for a table.
constexpr const char* look_for_torch = R"(
import importlib.util,os,sys
t=importlib.util.find_spec('torch') or sys.exit(100)
d=os.path.dirname(t.origin or '')+'/distributed/'
if os.path.exists(d+'run.py'):
 if sys.argv[1:]:
  t=open(d+'run.py',encoding='utf8').read().replace('_','-')
  for i,a in enumerate(sys.argv[1:]):
   if '"'+a.split('=')[0].replace('_','-')+'"' not in t:sys.exit(102+i)
elif os.path.exists(d+'launch.py'):sys.exit(101)
)";

/// Runs the interpreter with look_for_torch.
awaitable<supervise::ExitRecord> ask_for_torch(const Run& run, const std::vector<std::string>& python,
                                               const std::vector<std::string>& torchrun_args) {
  supervise::Command command{python, run.host.environment().entries()};
  command.argv.insert(command.argv.end(), {"-c", look_for_torch});
  command.argv.insert(command.argv.end(), torchrun_args.begin(), torchrun_args.end());
  return run_helper(run, std::move(command),
                    std::min<std::chrono::milliseconds>(std::chrono::seconds(20),
                                                        *run.settings.time(Option::wait_timeout)));
}

/// Logs these faults, and returns the early end for them.
EarlyEnd configuration_error(const Faults& faults) {
  log::context().exit_code = exit_code::configuration;
  log::context().cause = settings::word_of_exit_map(Cause::configuration);
  EarlyEnd end = early_end(exit_code::configuration, Cause::configuration, ErrorCode::none,
                           reason::Faulty{faults.front()});
  end.verdict.faults = faults;
  return end;
}

EarlyEnd python_error(report::Reason reason) {
  return early_end(exit_code::configuration, Cause::configuration, ErrorCode::python, std::move(reason));
}

}  // namespace

EarlyEnd early_end(int code, Cause cause, ErrorCode error_code, report::Reason reason) {
  return {{.code = code, .cause = cause, .error_code = error_code, .reason = std::move(reason)}};
}

EarlyEnd stopped_early(int signal, Stage stage) {
  EarlyEnd end = early_end(exit_code::signal_base + signal, Cause::stop_requested, ErrorCode::none,
                           reason::Stopped{signal, stage});
  end.verdict.stopped_by = signal;
  return end;
}

awaitable<supervise::Signal> next_end(const Run& run, supervise::SignalQueue::Deadline deadline) {
  if (!run.monitor.past_attempts().empty()) co_return co_await next_stop(run, deadline);
  co_return co_await run.signals.next_terminating(deadline);
}

awaitable<supervise::Signal> next_stop(const Run& run, supervise::SignalQueue::Deadline deadline) {
  while (true) {
    const supervise::Signal signal = co_await run.signals.next_terminating(deadline);
    if (signal.number == 0 || supervise::is_stop_signal(signal.number)) co_return signal;
    run.signals.drop();
  }
}

awaitable<void> run_pre_start(const Run& run) {
  const std::string command(run.settings.text(Option::pre_start));
  if (command.empty()) co_return;
  run.monitor.enter(PhaseName::pre_start);
  run.monitor.begin();
  const auto limit = *run.settings.time(Option::pre_start_timeout);
  const supervise::ExitRecord hook = co_await run_hook(run, command, run.host.environment(), limit);
  if (const auto signal = stop_signal_of(hook)) throw stopped_early(*signal, Stage::pre_start);
  if (hook.leftovers != 0)
    log::warn("the processes that the pre-start hook left running were stopped: start them from the command");
  if (const int code = exit_code_of_hook(hook); code != 0)
    throw early_end(code, Cause::exited, ErrorCode::none, reason::HookFailed{hook, limit});
}

awaitable<launchers::Job> resolve_when_ready(const Run& run, const std::vector<std::string>& command) {
  const auto limit = *run.settings.time(Option::wait_timeout);
  const auto end = std::chrono::steady_clock::now() + limit;
  for (bool waits = false;;) {
    auto resolved = resolve_job(run.settings, command, run.host);
    if (auto* job = std::get_if<launchers::Job>(&resolved)) co_return std::move(*job);
    const auto& faults = std::get<Faults>(resolved);
    const Fault& first = faults.front();
    if (!first.transient) throw configuration_error(faults);
    if (!std::exchange(waits, true)) {
      log::info("waiting up to {}: {}", format_time(limit), first.what);
      run.monitor.enter(PhaseName::wait, first.what);
    }
    const auto now = std::chrono::steady_clock::now();
    if (now >= end)
      throw early_end(exit_code::unreachable, Cause::unreachable, first.error_code,
                      reason::StillWrong{first});
    // No event shows that a file of a ConfigMap was written.
    const supervise::Signal signal = co_await run.signals.next_terminating(now + std::chrono::seconds(1));
    if (signal.number == 0) continue;
    run.signals.drop();
    throw stopped_early(signal.number, Stage::platform);
  }
}

awaitable<launchers::FoundTorch> check_python(const Run& run, const launchers::Job& job) {
  const launchers::LaunchChoice& choice = job.choice;
  launchers::FoundTorch found;
  if (choice.python.empty()) co_return found;
  const std::string python = run.host.find_program(choice.python.front()).value_or(choice.python.front());
  std::vector<std::string> wanted = choice.launcher->torchrun_args();
  for (;;) {
    const supervise::ExitRecord asked = co_await ask_for_torch(run, choice.python, wanted);
    if (const auto signal = stop_signal_of(asked)) throw stopped_early(*signal, Stage::interpreter);
    const int code = asked.kind == supervise::ExitRecord::Kind::exited ? asked.number : 0;
    const auto unknown = static_cast<std::size_t>(code - first_unknown);
    if (code >= first_unknown && unknown < wanted.size()) {
      const auto option = wanted.begin() + static_cast<std::ptrdiff_t>(unknown);
      log::warn("the torchrun of {} does not know {}, so it is dropped", python, *option);
      found.rejected.push_back(std::move(*option));
      wanted.erase(option);
      continue;
    }
    if (code == no_torch) throw python_error(reason::NoTorch{python});
    if (code == no_torchrun) {
      found.has_only_launch = true;
      log::info("torch in {} has no torchrun: torch.distributed.launch starts the workers", python);
      for (std::string& option : wanted) {
        log::warn("torch.distributed.launch does not know {}, so it is dropped", option);
        found.rejected.push_back(std::move(option));
      }
      if (job.topology.is<topology::ElasticNode>() || job.topology.max_restarts() != 0)
        throw python_error(reason::OldTorch{python});
    }
    co_return found;
  }
}

awaitable<void> wait_for_master(const Run& run, topology::Topology& topology, wait::Until until,
                                wait::Reached& reached) {
  using namespace boost::asio::experimental::awaitable_operators;
  if (until == wait::Until::none) co_return;
  const topology::Master& known = *topology.master();
  run.monitor.enter(PhaseName::wait,
                    until == wait::Until::name ? "the name " + known.host : known.text() + " to answer");
  wait::MasterTarget master{known.host, known.port, until, !topology.hosts_master(),
                            is_elsewhere(topology, run.host)};
  set_mismatch_texts(master, topology);
  wait::Limits limits;
  limits.timeout = *run.settings.time(Option::wait_timeout);
  limits.nodes = how_many_wait(topology);
  limits.spread = !topology.hosts_master().value_or(false);

  const auto first = co_await (wait::wait_for(std::move(master), std::move(limits)) || next_end(run));
  const auto* signal = std::get_if<supervise::Signal>(&first);
  if (signal != nullptr) {
    run.signals.drop();
    throw stopped_early(signal->number, Stage::master);
  }
  if (const auto* unreachable = std::get_if<wait::Unreachable>(&first))
    throw early_end(exit_code::unreachable, Cause::unreachable, unreachable->error_code,
                    reason::NoMaster{*unreachable});
  reached = std::get<wait::Reached>(first);
  // Only now is it known which node hosts an elastic job without ranks.
  auto* elastic = std::get_if<topology::ElasticNode>(&topology.part);
  if (elastic != nullptr && !elastic->hosts_master) elastic->hosts_master = reached.mine;
}

}  // namespace rankshim::run
