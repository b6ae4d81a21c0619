#include "run/before_start.h"

#include <algorithm>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <chrono>
#include <cstdint>
#include <exception>
#include <utility>

#include "base/exit_code.h"
#include "base/log.h"
#include "base/signal_text.h"
#include "base/text.h"
#include "init/supervise.h"
#include "run/hooks.h"
#include "run/policy.h"
#include "run/resolve.h"
#include "wait/wait.h"

namespace rankshim {

using boost::asio::awaitable;

namespace {

/// The verdict for an end by this signal; `meanwhile` is "while waiting for the master".
Verdict stopped_before_start(int signal, std::string_view meanwhile) {
  return ended_before_start(
      exit_code::signal_base + signal, Cause::stopped,
      fmt::format("{} {}; nothing was started", supervise::signal_name(signal), meanwhile), false);
}

std::string what_is_awaited(const Job& job) {
  const Facts& facts = job.topology.facts;
  if (job.plan.wait == Until::name) return "the name " + std::string(facts.text(Fact::master_addr));
  return host_port(facts.text(Fact::master_addr), facts.text(Fact::master_port)) + " to answer";
}

/// Whether the master is another node, as far as names show it before they are looked up.
bool is_elsewhere(const Topology& topology, const Node& node) {
  const std::string_view master = topology.facts.text(Fact::master_addr);
  return !topology.host.value_or(false) && topology.facts.text(Fact::nnodes) != "1" && !is_loopback(master) &&
         !same_host(master, node.host_name());
}

constexpr int no_torch = 100;

/// A command that ends with that code if the interpreter does not find torch.
supervise::Command ask_for_torch(const std::vector<std::string>& python, const Environment& environment) {
  supervise::Command command{python, environment.entries()};
  command.argv.insert(
      command.argv.end(),
      {"-c", "import importlib.util,sys; sys.exit(0 if importlib.util.find_spec('torch') else 100)"});
  return command;
}

}  // namespace

Verdict ended_before_start(int code, Cause cause, std::string sentence, bool failed) {
  Verdict verdict;
  verdict.code = code;
  verdict.cause = cause;
  verdict.sentence = std::move(sentence);
  verdict.failed = failed;
  return verdict;
}

awaitable<std::optional<Verdict>> run_pre_start(const Run& run) {
  const std::string command(run.settings.text(Option::pre_start));
  if (command.empty()) co_return std::nullopt;
  run.monitor.enter("pre-start");
  run.monitor.begin();
  const auto limit = *run.settings.time(Option::pre_start_timeout);
  const supervise::Ending hook = co_await run_hook(run, command, run.node.environment(), limit);
  if (const auto signal = asked_to_stop(hook))
    co_return stopped_before_start(*signal, "during the pre-start hook");
  if (hook.leftovers != 0)
    log::warn("the processes that the pre-start hook left running were stopped: start them from the command");
  if (code_of(hook) == 0) co_return std::nullopt;
  co_return ended_before_start(code_of(hook), Cause::none,
                               "the pre-start hook " + describe(hook, limit) + "; nothing was started");
}

awaitable<std::variant<Job, Faults, Verdict>> resolve_when_ready(const Run& run,
                                                                 const std::vector<std::string>& command) {
  const auto limit = *run.settings.time(Option::wait_timeout);
  const auto end = std::chrono::steady_clock::now() + limit;
  for (bool waits = false;;) {
    auto resolved = resolve_job(run.settings, command, run.node);
    if (auto* job = std::get_if<Job>(&resolved)) co_return std::move(*job);
    auto& faults = std::get<Faults>(resolved);
    if (!faults.front().transient) co_return std::move(faults);
    if (!std::exchange(waits, true)) {
      log::info("waiting at most {}: {}", format_time(limit), faults.front().what);
      run.monitor.enter("wait", faults.front().what);
      run.monitor.begin();
    }
    const auto now = std::chrono::steady_clock::now();
    if (now >= end) co_return ended_before_start(exit_code::unreachable, Cause::wait, faults.front().what);
    // No event shows that a file of a ConfigMap was written.
    const supervise::Received signal = co_await run.signals.next_ending(now + std::chrono::seconds(1));
    if (signal.number == 0) continue;
    run.signals.drop();
    co_return stopped_before_start(signal.number, "while waiting for the platform");
  }
}

awaitable<std::optional<Verdict>> check_python(const Run& run, const Job& job) {
  if (job.plan.python.empty()) co_return std::nullopt;
  const supervise::Command command = ask_for_torch(job.plan.python, run.node.environment());
  supervise::Policy policy = plan_supervision(run.settings);
  policy.hook = true;
  policy.time_limit =
      std::min<std::chrono::milliseconds>(std::chrono::seconds(20), *run.settings.time(Option::wait_timeout));
  const supervise::Ending asked = co_await supervise::supervise(run.io, run.signals, command, policy);
  if (const auto signal = asked_to_stop(asked))
    co_return stopped_before_start(*signal, "while the interpreter was checked");
  if (asked.kind != supervise::Ending::Kind::exited || asked.number != no_torch) co_return std::nullopt;
  const std::string& python = command.argv.front();
  co_return ended_before_start(
      exit_code::configuration, Cause::config,
      fmt::format("no torch in {}: install it there, or name the interpreter that has it with --python "
                  "(RANKSHIM_PYTHON)",
                  run.node.find_program(python).value_or(python)));
}

awaitable<std::optional<Verdict>> wait_for_master(const Run& run, Job& job,
                                                  std::optional<std::string>& address) {
  using namespace boost::asio::experimental::awaitable_operators;
  if (job.plan.wait == Until::none) co_return std::nullopt;
  run.monitor.enter("wait", what_is_awaited(job));
  run.monitor.begin();
  const Facts& facts = job.topology.facts;
  wait::Master master{std::string(facts.text(Fact::master_addr)),
                      static_cast<std::uint16_t>(job.topology.number(Fact::master_port)), job.plan.wait,
                      !job.topology.host.has_value(), is_elsewhere(job.topology, run.node)};
  wait::Limits limits;
  limits.timeout = *run.settings.time(Option::wait_timeout);

  std::variant<wait::Reached, wait::Unreachable, supervise::Received> first;
  try {
    first = co_await (wait::wait_for(std::move(master), std::move(limits)) || run.signals.next_ending());
  } catch (const std::exception&) {  // out of memory or descriptors
    first = supervise::Received{};
  }
  if (const auto* signal = std::get_if<supervise::Received>(&first)) {
    if (signal->number == 0)
      co_return ended_before_start(exit_code::system, Cause::none,
                                   "the system refused to wait for the master");
    run.signals.drop();
    co_return stopped_before_start(signal->number, "while waiting for the master");
  }
  if (const auto* unreachable = std::get_if<wait::Unreachable>(&first))
    co_return ended_before_start(exit_code::unreachable, Cause::wait, unreachable->what);
  const auto& reached = std::get<wait::Reached>(first);
  if (!reached.addresses.empty()) address = reached.addresses.front();
  // Only now it is known which node hosts an elastic job without ranks.
  if (job.topology.elastic && !job.topology.host) job.topology.host = reached.mine;
  co_return std::nullopt;
}

}  // namespace rankshim
