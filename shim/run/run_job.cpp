#include "run/run.h"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "base/fault.h"
#include "base/log.h"
#include "base/signals.h"
#include "base/text.h"
#include "launchers/choose.h"
#include "launchers/launcher.h"
#include "launchers/temporary_folder.h"
#include "loop/loop.h"
#include "node/process.h"
#include "node/shared_memory.h"
#include "report/wording.h"
#include "run/attempt.h"
#include "run/before_start.h"
#include "run/launch.h"
#include "run/plan.h"
#include "run/warm.h"
#include "run/whole_job.h"
#include "supervise/supervise.h"

namespace rankshim::run {
namespace {

using boost::asio::awaitable;
using launchers::Job;
using outcome::Cause;
using outcome::NotRestarted;
using report::PhaseName;
using settings::Invocation;
using settings::Option;
using settings::Settings;
using settings::Subcommand;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
namespace reason = report::reason;

void announce(const Job& job, const launchers::FoundTorch& torch, const std::vector<std::string>& command) {
  const Facts& facts = job.topology.facts;
  const std::string& program = job.choice.interpreter.empty() ? command.front() : job.choice.interpreter;
  const std::string_view agent = job.choice.launcher->agent_name(torch);
  const std::string what = agent.empty() ? program : std::string(agent);
  if (job.topology.is<topology::Idle>() || job.topology.platform.is_off())
    return log::info("starting {}", what);
  if (const auto* process = job.topology.as<topology::CreatedProcess>())
    return log::info("rank {} of {} on {}, master {}; starting {}", process->rank, process->world_size,
                     job.topology.platform.name(), job.topology.master()->text(), what);
  const std::string workers = counted(facts.text(Fact::nproc_per_node), "worker");
  if (job.topology.is<topology::LoneNode>() && !job.choice.launcher->launches())
    return log::info("one node; starting {}", what);
  if (job.topology.is<topology::LoneNode>()) return log::info("one node, {}; starting {}", workers, what);
  const auto& rank = facts[Fact::node_rank];
  const auto* node = job.topology.as<topology::StaticNode>();
  std::string place = rank ? fmt::format("node {} ({})", rank->text, rank->source()) : "one";
  if (node != nullptr && node->member)
    place = fmt::format("node {} with rank {}", node->member->index, node->rank);
  const topology::Master* known = job.topology.master();
  const std::string master = known != nullptr ? "master " + known->text() : "a master that it finds itself";
  const bool by_platform = job.topology.platform.is_recognised();  // else by options or the command's flags
  log::info("{} of {} nodes{}, {}, {}; starting {}", place, facts.text(Fact::nnodes),
            by_platform ? " on " + job.topology.platform.name() : "", workers, master, what);
}

/// Adapts the settings to what a run needs.
void prepare(Invocation& invocation) {
  Settings& settings = invocation.settings;
  // While the command runs, rankshim's working directory is a different one.
  std::error_code unknown;
  for (const Option option :
       {Option::report, Option::termination_log, Option::run_dir, Option::hang_dumps, Option::metrics_file}) {
    auto& path = settings[option];
    if (!path || path->text.empty() || path->text == "none") continue;
    if (const auto full = absolute(std::filesystem::path(path->text), unknown); !unknown) path->text = full;
  }
  if (invocation.subcommand != Subcommand::run) settings[Option::metrics_file].reset();
  if (invocation.subcommand != Subcommand::preflight) return;
  // The check is a program that runs on each node, exactly once, whatever the job's settings say.
  invocation.arguments = {"/bin/sh", "-c", std::string(settings.text(Option::check))};
  // In a job with spares, a new pod may come while the others train, and the job can do without a node whose
  // check fails; so each node is checked by itself.
  const bool is_alone = launchers::number_of_spares(settings) != 0;
  const auto set = [&](Option option, std::string_view text) {
    settings[option] = settings::builtin_setting(option, text);
  };
  set(Option::launcher, "none");
  set(Option::job_restarts, "0");
  set(Option::link, is_alone ? "off" : "on");
  if (is_alone) set(Option::wait, "none");
  set(Option::spares, "0");
  for (const Option option : {Option::log_dir, Option::tee, Option::prefix, Option::post_stop})
    settings[option].reset();
}

/// Waits until the workers' last output is written. A signal ends the wait, and is left for the next step.
awaitable<void> write_last_output(const Run& run, const supervise::Workers& launcher) {
  constexpr std::chrono::seconds patience{5};
  constexpr milliseconds between_looks{20};
  const auto end = steady_clock::now() + patience;
  while (launcher.has_output() && steady_clock::now() < end) {
    if ((co_await run.signals.next_terminating(steady_clock::now() + between_looks)).number != 0) break;
  }
  if (launcher.has_output())
    log::warn("the workers' last lines are lost, because nothing read stdout or stderr in time");
}

/// Creates the folder for torch's dumps, which torch itself does not create.
void make_folder(std::string_view path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error)
    log::warn("torch's dumps of a hang cannot be kept: --hang-dumps={} cannot be made: {}", in_quotes(path),
              error.message());
}

/// Whether everything is restarted after this end. A node that was stopped, or could not end its processes,
/// takes no further part.
bool is_tried_again(Attempts& attempts, const WholeJob* whole, report::Verdict& verdict,
                    const supervise::ExitRecord& record) {
  if (!attempts.allowed() || verdict.code == 0) return false;
  std::optional<link::Stop> stop;
  if (whole != nullptr) {
    stop = whole->stop();
  } else {
    stop = link::Stop{.culprit = report::culprit_of(verdict)};
    attempts.decide(*stop, steady_clock::now());
  }
  if (stop && attempts.of_the_job() && stop->not_restarted) verdict.notes.emplace_back(*stop->not_restarted);
  if (!stop || !stop->again) return false;
  if (verdict.stopped_by)
    verdict.notes.emplace_back(NotRestarted{.why = NotRestarted::Why::stopped});
  else if (!record.left_behind.empty())
    verdict.notes.emplace_back(NotRestarted{.why = NotRestarted::Why::left_processes});
  return !verdict.stopped_by && record.left_behind.empty();
}

/// Waits until no process of this container holds an accelerator any more, because only then is its memory
/// free. The command's own processes are gone, but maybe not what was started beside them.
awaitable<void> wait_for_accelerators(const Run& run) {
  constexpr std::chrono::seconds patience{10};
  constexpr milliseconds between_looks{100};
  auto left = node::holders_of_accelerators(true);
  if (left.empty()) co_return;
  run.monitor.enter(PhaseName::restart, "the accelerators to be free");
  log::info("waiting up to {} s for the accelerators, which are in use ({})", patience.count(), joined(left));
  const auto end = steady_clock::now() + patience;
  for (; !left.empty() && steady_clock::now() < end; left = node::holders_of_accelerators(true))
    if ((co_await next_end(run, steady_clock::now() + between_looks)).number != 0) co_return;
  if (!left.empty())
    log::warn("{}: the accelerators are still in use; the next attempt may lack memory", joined(left));
}

/// Removes what the last attempt's processes left in /dev/shm, which would otherwise stay for good, and fill
/// it.
void free_shared_memory(const node::SharedMemory& memory) {
  const auto left = memory.remove_leftovers(node::may_share_memory_with_host());
  if (!left.removed.names.empty())
    log::info("removed what the last attempt left: {}", left.removed.in_words());
  if (!left.kept.names.empty())
    log::warn(
        "the last attempt may have left {}; they stay there, because other jobs of the machine may use them",
        left.kept.in_words());
}

/// Counts the next attempt, and waits until the machine is free for it.
awaitable<void> prepare_next(const Run& run, RunState& state, bool is_replaced,
                             const report::Verdict& verdict, const supervise::ExitRecord& record) {
  state.attempts.next(steady_clock::now(), !is_replaced);
  log::warn("{}; next: {}", report::wording::sentence(verdict),
            is_replaced ? "a spare takes its place" : state.attempts.progress());
  run.monitor.end_attempt(verdict, record);
  if (state.memory) free_shared_memory(*state.memory);
  co_await wait_for_accelerators(run);
}

/// Starts the command and follows it to its end. `whole` is null if the nodes are not linked. Returns the
/// exit code once the end is reported; nullopt if all nodes start again.
awaitable<std::optional<int>> run_attempt(const Run& run, const Job& job, RunState& state, WholeJob* whole) {
  announce(job, state.torch, state.arguments);
  // All nodes begin this phase at the same moment, by which rankshim-review aligns their clocks.
  run.monitor.enter(job.choice.launcher->launches() ? PhaseName::launch : PhaseName::run, {},
                    whole != nullptr ? whole->link().launched_at() : link::now());
  if (const std::string_view dumps = run.settings.text(Option::hang_dumps); !dumps.empty())
    make_folder(dumps);
  Attempt attempt(run, job, state, whole);
  if (!job.choice.note.empty()) log::info("{}", job.choice.note);
  attempt.watch();
  std::optional<int> code;  // the command's, once it has ended; valid whatever fails after that
  try {
    const supervise::ExitRecord record = co_await attempt.run_command();
    code = supervise::exit_code_of(record);
    co_await write_last_output(run, attempt.workers());
    attempt.end_watch();
    const report::Details details = attempt.gather(record);
    report::Verdict verdict = attempt.judge(record, details);
    // The others may take their time to end, and then all meet.
    if (verdict.code != 0 && state.attempts.may_go_on() && !verdict.stopped_by)
      state.warm.before_meeting(state.attempts.number() + 1, false);
    if (whole != nullptr) co_await whole->wait_for_job(run, verdict, record, attempt.ends(record, verdict));
    if (!is_tried_again(state.attempts, whole, verdict, record)) {
      state.warm.drop();
      co_return co_await conclude(run, verdict, &job, &record, details);
    }
    state.previous = attempt.take_launch();
    co_await prepare_next(run, state, whole != nullptr && whole->stop()->drained(), verdict, record);
    co_return std::nullopt;
  } catch (const std::exception& error) {
    if (!code) throw;
    log::error("{}; only the exit code is reported", loop::reason(error));
  }
  co_return *code;
}

/// Runs one attempt. The other nodes learn what the system refuses before the command is there.
awaitable<std::optional<int>> run_linked(const Run& run, const Job& job, RunState& state,
                                         std::unique_ptr<WholeJob> whole) {
  std::exception_ptr refused;
  std::string why;
  try {
    co_return co_await run_attempt(run, job, state, whole.get());
  } catch (const std::exception& error) {
    if (!whole) throw;
    refused = std::current_exception();
    why = loop::reason(error);
  }
  co_await whole->report_refusal(reason::Refused{.needs = reason::Refused::Needs::command, .error = why});
  std::rethrow_exception(refused);
}

/// What the other nodes need to know about this one if it ends before all have met: the job, if it is known,
/// or if only the number of workers is wrong.
std::optional<Job> resolve_for_others(const Run& run, const std::vector<std::string>& arguments) {
  Settings settings = run.settings;
  for (const bool one_worker : {false, true}) {
    if (one_worker) settings[Option::nproc_per_node] = settings::builtin_setting(Option::nproc_per_node, "1");
    auto resolved = resolve_job(settings, arguments, run.host);
    if (auto* job = std::get_if<Job>(&resolved)) return std::move(*job);
  }
  return std::nullopt;
}

/// Whether this node ended by its own fault, so that the others would wait for it. A node that was stopped
/// can be replaced by another.
bool is_own_fault(const report::Verdict& verdict) {
  return verdict.cause == Cause::configuration || verdict.cause == Cause::system ||
         verdict.cause == Cause::exited;
}

/// Runs all stages. Sets `job` once it is known, and `meets` once the search for the other nodes begins.
awaitable<int> run_stages(const Run& run, const std::vector<std::string>& arguments, std::optional<Job>& job,
                          bool& meets) {
  if (!run.only_wait && !run.preflight) co_await run_pre_start(run);
  run.monitor.enter(PhaseName::resolve);
  job = co_await resolve_when_ready(run, arguments);
  run.monitor.set_job(*job);
  for (const auto* warnings : {&job->topology.warnings, &job->choice.warnings})
    for (const std::string& warning : *warnings) log::warn("{}", warning);
  launchers::FoundTorch torch;
  if (!run.only_wait) {
    if (!job->choice.missing.empty())
      throw early_end(exit_code::not_found, Cause::system, ErrorCode::none,
                      reason::Missing{job->choice.missing});
    torch = co_await check_python(run, *job);
  }
  std::optional<std::string> kept_logs;
  const AttemptInput input{run, *job, arguments, torch, kept_logs};
  RunState state{.arguments = arguments,
                 .torch = torch,
                 .input = input,
                 .step = node::SlurmStep(run.host.environment()),
                 .attempts = Attempts(run.settings, *job),
                 .warm = Warm(input),
                 .previous = {},
                 .reached = {},
                 .memory = {}};
  if (state.attempts.allowed()) state.memory.emplace();
  std::optional<int> code;
  meets = true;
  while (!code) {
    std::unique_ptr<WholeJob> whole;
    state.warm.before_meeting(state.attempts.number(), state.attempts.earliest() > steady_clock::now());
    try {
      whole = co_await join_job(run, *job, state.attempts, state.reached);
    } catch (EarlyEnd& end) {
      if (const auto& past = run.monitor.past_attempts(); !past.empty())
        end.verdict.notes.emplace_back(
            report::note::LastAttempt{state.attempts.progress(), past.back().sentence});
      throw;
    }
    if (run.only_wait) {
      run.monitor.termination_log().finish({});
      co_return exit_code::ok;
    }
    if (whole && whole->is_spare()) {
      state.warm.prepare_spare(state.attempts.number() + 1);
      auto verdict = co_await wait_as_spare(run, state.attempts, *whole);
      if (!verdict) continue;
      state.warm.drop();
      code = co_await conclude(run, *verdict, &*job, nullptr, {});
    } else {
      code = co_await run_linked(run, *job, state, std::move(whole));
    }
  }
  co_return *code;
}

/// Runs all stages, and turns what a step or Asio throws before the command runs into a verdict. (Refused
/// memory is left to main(), because a report would need more of it.)
awaitable<int> run_whole(const Run& run, const std::vector<std::string>& arguments) {
  std::optional<Job> job;
  bool meets = false;
  EarlyEnd end;
  try {
    const int code = co_await run_stages(run, arguments, job, meets);
    run.monitor.finish();
    co_return code;
  } catch (EarlyEnd& thrown) {
    end = std::move(thrown);
  } catch (const boost::system::system_error& error) {
    end = early_end(exit_code::system, Cause::system, ErrorCode::system,
                    reason::Refused{.needs = reason::Refused::Needs::supervising,
                                    .error = std::string(loop::reason(error))});
  }
  if (!meets && !run.only_wait && is_own_fault(end.verdict)) {
    if (const auto known = job ? job : resolve_for_others(run, arguments))
      co_await tell_early_end(run, *known, end.verdict);
  }
  const int code = co_await conclude(run, end.verdict, job ? &*job : nullptr, nullptr, {});
  run.monitor.finish();
  co_return code;
}

/// The caller writes this node's own last line.
awaitable<int> tell_rejection_of(const Run& run, const std::vector<std::string>& arguments,
                                 report::Verdict verdict) {
  if (const auto known = resolve_for_others(run, arguments)) co_await tell_early_end(run, *known, verdict);
  co_return verdict.code;
}

}  // namespace

void tell_rejection(const settings::Rejected& rejected, const node::Host& host) {
  Invocation invocation = rejected.invocation;
  const bool is_preflight = invocation.subcommand == Subcommand::preflight;
  if (invocation.subcommand == Subcommand::wait || (invocation.arguments.empty() && !is_preflight)) return;
  prepare(invocation);
  try {
    boost::asio::io_context io;
    supervise::SignalQueue signals(io);
    Monitor monitor(io, invocation.settings, host);
    const Run run{.io = io,
                  .signals = signals,
                  .settings = invocation.settings,
                  .host = host,
                  .monitor = monitor,
                  .preflight = is_preflight};
    loop::block_on(io, tell_rejection_of(run, invocation.arguments,
                                         early_end(rejected.exit_code, Cause::configuration, ErrorCode::none,
                                                   reason::Faulty{rejected.faults.front()})
                                             .verdict));
  } catch (const boost::system::system_error& error) {
    log::warn("cannot notify the other nodes: {}", loop::reason(error));
  }
}

int run_job(Invocation&& invocation, const node::Host& host) {
  prepare(invocation);
  const Settings& settings = invocation.settings;
  boost::asio::io_context io;
  supervise::SignalQueue signals(io);
  if (const auto signal = settings.get<int>(Option::parent_death_signal)) supervise::end_with_parent(*signal);
  Monitor monitor(io, settings, host);
  const Run run{.io = io,
                .signals = signals,
                .settings = settings,
                .host = host,
                .monitor = monitor,
                .only_wait = invocation.subcommand == Subcommand::wait,
                .preflight = invocation.subcommand == Subcommand::preflight};
  return loop::block_on(io, run_whole(run, invocation.arguments));
}

}  // namespace rankshim::run
