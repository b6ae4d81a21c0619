#include "run/conclude.h"

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/exit_code.h"
#include "base/log.h"
#include "init/spawn.h"
#include "report/exit_report.h"
#include "report/files.h"
#include "run/hooks.h"
#include "run/pause.h"
#include "settings/exit_map.h"
#include "wait/loop_failed.h"

namespace rankshim {
namespace {

void say_verdict(const Verdict& verdict) {
  if (verdict.failed) {
    log::error("{}", verdict.sentence);
  } else {
    log::info("{}", verdict.sentence);
  }
}

/// The verdict's code, after --exit-map.
int exit_code_of(const Verdict& verdict, const Settings& settings) {
  const auto map = ExitMap::parse(settings.text(Option::exit_map)).value_or(ExitMap{});
  return map.apply(verdict.cause, verdict.code);
}

/// What every report says, of settings that were refused too. It keeps pointers to what it is given.
ExitReport put_together(const Verdict& verdict, int code, const Details& details, const Node& node) {
  ExitReport report;
  report.verdict = &verdict;
  report.exit_code = code;
  report.details = &details;
  report.host = node.host_name();
  report.end = std::chrono::steady_clock::now();
  return report;
}

bool was_asked_to_stop(const supervise::Ending& ending) {
  return ending.stop_signal || (ending.late_signal && supervise::asks_to_stop(*ending.late_signal));
}

}  // namespace

int Conclusion::reach(const Verdict& verdict, Saying saying) {
  return conclude(verdict, nullptr, Details{}, saying);
}

int Conclusion::reach(const Verdict& verdict, const supervise::Ending& ending, const Details& details) {
  return conclude(verdict, &ending, details, say);
}

int Conclusion::conclude(Verdict verdict, const supervise::Ending* ending, const Details& details,
                         Saying saying) {
  const int code = exit_code_of(verdict, settings_);
  if (code != verdict.code) verdict.sentence += "; --exit-map makes the exit code " + std::to_string(code);
  if (saying == say) say_verdict(verdict);
  if (log::dropped() != 0)
    log::warn("{} lines of ours were lost because stderr could not take them", log::dropped());

  const std::string path(settings_.text(Option::report));
  const bool hook = whole_ && settings_[Option::post_stop].has_value();
  const bool tells = !path.empty() || hook || verdict.code != 0 || verdict.failed;
  if (!tells) {  // the usual end: nothing to write, at most a provisional word to take back
    monitor_.termination_log().finish({});
    return code;
  }
  ExitReport report = put_together(verdict, code, details, node_);
  report.job = job_;
  report.ending = ending;
  report.phases = monitor_.phases();
  const std::string json = path.empty() && !hook ? std::string() : as_json(report);
  const bool written = !path.empty() && replace_file(path, json);
  monitor_.termination_log().finish(termination_message(report));
  // Who asked to stop, at whatever moment, does not want to look into it.
  bool stopped = ending != nullptr && was_asked_to_stop(*ending);
  if (hook) stopped |= run_post_stop(json, written ? path : std::string());
  if (const auto time = settings_.time(Option::hold_on_failure);
      time && whole_ && verdict.failed && code != 0 && !stopped)
    hold(*time);
  return code;
}

int conclude_rejected(const Rejected& rejected, const Node& node) {
  const Settings& settings = rejected.invocation.settings;
  Verdict verdict;
  verdict.code = rejected.exit_code;
  verdict.cause = verdict.code == exit_code::configuration ? Cause::config : Cause::none;
  verdict.sentence = to_line(rejected.faults.front());
  verdict.failed = true;
  const Details details;
  const ExitReport report = put_together(verdict, exit_code_of(verdict, settings), details, node);
  if (const std::string path(settings.text(Option::report)); !path.empty())
    replace_file(path, as_json(report));
  TerminationLog(std::string(settings.text(Option::termination_log))).finish(termination_message(report));
  return report.exit_code;
}

/// It finds a report even where none was asked for, or could be written. Returns whether a signal asked to
/// stop.
bool Conclusion::run_post_stop(const std::string& report, const std::string& path) {
  monitor_.enter("post-stop");
  std::string file = path;
  if (file.empty()) {
    file = new_file(std::string(node_.environment().get("TMPDIR").value_or("/tmp")), report);
  }
  supervise::close_what_was_passed_on();  // to the command, not to the hook
  Environment environment = node_.environment();
  environment.set("RANKSHIM_REPORT", file);
  const auto limit = *settings_.time(Option::post_stop_timeout);
  const std::string command(settings_.text(Option::post_stop));
  const supervise::Ending ending = run_hook(io_, signals_, settings_, command, environment, limit);
  if (code_of(ending) != 0) log::warn("the post-stop hook {}", describe(ending, limit));
  if (path.empty() && !file.empty()) unlink(file.c_str());
  return was_asked_to_stop(ending);
}

/// Nothing of the job runs any more; what a person starts in the container ends as an orphan of ours, which
/// the kernel reaps where SIGCHLD is ignored.
void Conclusion::hold(std::chrono::milliseconds time) {
  if (signal(SIGCHLD, SIG_IGN) == SIG_ERR) log::debug("SIGCHLD cannot be ignored");
  monitor_.held();
  log::info("the container is kept for {}, to look into it; a TERM ends it", format_time(time));
  try {
    pause(io_, signals_, time);
  } catch (const LoopFailed&) {  // the verdict stands; only the time to look into it is lost
    log::warn("the system refuses to wait for events: the container is kept no longer");
  }
}

}  // namespace rankshim
