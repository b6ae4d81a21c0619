#include "run/run.h"

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <string>

#include "base/duration.h"
#include "base/fault.h"
#include "base/log.h"
#include "report/exit_report.h"
#include "report/files.h"
#include "report/wording.h"
#include "run/hooks.h"
#include "supervise/spawn.h"

namespace rankshim::run {

using boost::asio::awaitable;
using report::PhaseName;
using settings::Option;

namespace {

void say_verdict(const report::Verdict& verdict) {
  if (log::dropped() != 0)
    log::warn("{} lines of rankshim were lost because stderr could not take them", log::dropped());
  for (const Fault& fault : verdict.faults) log::error("{}", to_line(fault));
  if (!verdict.faults.empty()) return;
  const std::string message = report::wording::message(verdict);
  const bool is_doubtful = verdict.root || verdict.lone_training;  // a success, says the command
  if (verdict.failed())
    log::error("{}", message);
  else if (is_doubtful)
    log::warn("{}", message);
  else
    log::info("{}", message);
}

/// Runs the post-stop hook, which gets a report even if none was requested or could be written. `path` is the
/// report's, if there is one. Returns whether a signal stopped the hook.
awaitable<bool> run_post_stop(const Run& run, const std::string& report, const std::string& path) {
  run.monitor.enter(PhaseName::post_stop);
  std::string file = path;
  if (file.empty())
    file = report::new_file(std::string(run.host.environment().get("TMPDIR").value_or("/tmp")), report);
  supervise::close_what_was_passed_on();  // they are for the command, not for the hook
  node::Environment environment = run.host.environment();
  environment.set("RANKSHIM_REPORT", file);
  const auto limit = *run.settings.time(Option::post_stop_timeout);
  const std::string command(run.settings.text(Option::post_stop));
  const supervise::ExitRecord record = co_await run_hook(run, command, environment, limit);
  if (exit_code_of_hook(record) != 0)
    log::warn("the post-stop hook {}", report::wording::hook_end(record, limit));
  if (path.empty() && !file.empty()) unlink(file.c_str());
  co_return stop_signal_of(record).has_value();
}

/// Keeps a failed container for a while. No process of the job is left by then. Programs that a user starts
/// in the container end as orphans of PID 1, and the kernel reaps them if SIGCHLD is ignored.
awaitable<void> hold(const Run& run, std::chrono::milliseconds time) {
  if (signal(SIGCHLD, SIG_IGN) == SIG_ERR) log::debug("SIGCHLD cannot be ignored");
  run.monitor.held();
  log::info("the container is kept for {} for debugging; a TERM ends it", format_time(time));
  co_await run.signals.next_terminating(std::chrono::steady_clock::now() + time);
}

}  // namespace

awaitable<int> conclude(const Run& run, report::Verdict verdict, const launchers::Job* job,
                        const supervise::ExitRecord* record, const report::Details& details) {
  const settings::Settings& settings = run.settings;
  const int code = report::exit_code_of(verdict, settings);
  if (code != verdict.code) verdict.notes.emplace_back(report::note::ExitMapped{code});
  run.monitor.set_exit(code, verdict.cause);
  log::context().exit_code = code;
  log::context().cause = settings::word_of_exit_map(verdict.cause);
  const std::string path(settings.text(Option::report));
  const bool hook = !run.only_wait && settings[Option::post_stop].has_value();
  const bool tells = !path.empty() || hook || verdict.code != 0;
  if (!tells) {  // the usual end: nothing to write, at most a provisional line to remove
    run.monitor.termination_log().finish({});
    say_verdict(verdict);
    co_return code;
  }
  const bool has_run = record != nullptr && record->kind != supervise::ExitRecord::Kind::not_started;
  report::ExitReport report{.verdict = &verdict,
                            .exit_code = code,
                            .topology = job != nullptr ? &job->topology : nullptr,
                            .record = has_run ? record : nullptr,
                            .details = &details,
                            .host = run.host.host_name()};
  run.monitor.add_to(report);
  // Before the report, whose file server may be dead.
  run.monitor.termination_log().finish(report::termination_message(report));
  const std::string json = path.empty() && !hook ? std::string() : report::as_json(report);
  const bool written = !path.empty() && report::replace_file(path, json);
  say_verdict(verdict);  // warnings about what could not be written come before it
  // Whoever stops a node, at whatever time, does not want to inspect it, and a victim has nothing to show.
  bool stopped = verdict.stopped_for_culprit || verdict.stopped_by;
  if (hook) {
    const std::string there = written ? path : std::string();
    stopped |= co_await run_post_stop(run, json, there);
  }
  const auto time = settings.time(Option::hold_on_failure);
  if (time && !run.only_wait && verdict.failed() && code != 0 && !stopped) co_await hold(run, *time);
  co_return code;
}

}  // namespace rankshim::run
