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
#include "run/hooks.h"
#include "supervise/spawn.h"

namespace rankshim {

using boost::asio::awaitable;

namespace {

void say_verdict(const Verdict& verdict) {
  if (log::dropped() != 0)
    log::warn("{} lines of rankshim were lost because stderr could not take them", log::dropped());
  for (const std::string& line : verdict.lines) log::error("{}", line);
  if (!verdict.lines.empty()) return;
  if (verdict.failed) {
    log::error("{}", verdict.sentence);
  } else if (verdict.root || verdict.is_doubtful) {  // which the command has hidden
    log::warn("{}", verdict.sentence);
  } else {
    log::info("{}", verdict.sentence);
  }
}

bool was_asked_to_stop(const supervise::Ending& ending) {
  return ending.stop_signal || (ending.late_signal && supervise::asks_to_stop(*ending.late_signal));
}

/// The hook gets a report even if none was requested or could be written. `path` is the report's, if there is
/// one. Returns whether a signal asked to stop.
awaitable<bool> run_post_stop(const Run& run, const std::string& report, const std::string& path) {
  run.monitor.enter("post-stop");
  std::string file = path;
  if (file.empty())
    file = new_file(std::string(run.node.environment().get("TMPDIR").value_or("/tmp")), report);
  supervise::close_what_was_passed_on();  // they are for the command, not for the hook
  Environment environment = run.node.environment();
  environment.set("RANKSHIM_REPORT", file);
  const auto limit = *run.settings.time(Option::post_stop_timeout);
  const std::string command(run.settings.text(Option::post_stop));
  const supervise::Ending ending = co_await run_hook(run, command, environment, limit);
  if (exit_code_of_hook(ending) != 0) log::warn("the post-stop hook {}", describe(ending, limit));
  if (path.empty() && !file.empty()) unlink(file.c_str());
  co_return was_asked_to_stop(ending);
}

/// No process of the job runs any more. Programs that a user starts in the container end as orphans of PID 1,
/// and the kernel reaps them if SIGCHLD is ignored.
awaitable<void> hold(const Run& run, std::chrono::milliseconds time) {
  if (signal(SIGCHLD, SIG_IGN) == SIG_ERR) log::debug("SIGCHLD cannot be ignored");
  run.monitor.held();
  log::info("the container is kept for {} for debugging; a TERM ends it", format_time(time));
  co_await run.signals.next_ending(std::chrono::steady_clock::now() + time);
}

}  // namespace

awaitable<int> conclude(const Run& run, Verdict verdict, const Job* job, const supervise::Ending* ending,
                        const Details& details, bool stopped) {
  const Settings& settings = run.settings;
  const int code = exit_code_of(verdict, settings);
  if (code != verdict.code) verdict.sentence += "; --exit-map makes the exit code " + std::to_string(code);
  verdict.sentence += reference(verdict.anchor);
  log::context().exit_code = code;
  log::context().cause = word(verdict.cause);
  const std::string path(settings.text(Option::report));
  const bool hook = !run.only_wait && settings[Option::post_stop].has_value();
  const bool tells = !path.empty() || hook || verdict.code != 0 || verdict.failed;
  if (!tells) {  // the usual end: there is nothing to write, at most a provisional line to remove
    run.monitor.termination_log().finish({});
    say_verdict(verdict);
    co_return code;
  }
  const bool has_run = ending != nullptr && ending->kind != supervise::Ending::Kind::not_started;
  ExitReport report{.verdict = &verdict,
                    .exit_code = code,
                    .topology = job != nullptr ? &job->topology : nullptr,
                    .ending = has_run ? ending : nullptr,
                    .details = &details,
                    .host = run.node.host_name()};
  run.monitor.add_to(report);
  const std::string json = path.empty() && !hook ? std::string() : as_json(report);
  const bool written = !path.empty() && replace_file(path, json);
  run.monitor.termination_log().finish(termination_message(report));
  say_verdict(verdict);  // what could not be written is said before it
  // A user who asked to stop, at whatever moment, does not want to inspect the container.
  stopped |= ending != nullptr && was_asked_to_stop(*ending);
  if (hook) {
    const std::string there = written ? path : std::string();
    stopped |= co_await run_post_stop(run, json, there);
  }
  const auto time = settings.time(Option::hold_on_failure);
  if (time && !run.only_wait && verdict.failed && code != 0 && !stopped) co_await hold(run, *time);
  co_return code;
}

}  // namespace rankshim
