#include "run/attempts.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/duration.h"

namespace rankshim {

using link::Stop;

Attempts::Attempts(const Settings& settings, const Job& job)
    : limit_(*settings.get<RestartLimit>(Option::job_restarts)),
      of_the_job_(allowed()),
      permanent_(*settings.get<Ends>(Option::permanent)) {
  if (!of_the_job_ && job.choice.natively()) limit_.most = job.topology.max_restarts();
}

void Attempts::begin(unsigned number, Time now) {
  number_ = number;
  began_ = now;
}

void Attempts::decide(Stop& stop, Time now) {
  if (stop.drained() || !allowed()) return;
  stop.note = why_not(stop, now);
  exception_ = quick_exception(stop, now);
  stop.again = stop.note.empty();
}

/// If every rank raises it, another one may be the first each time: the rank does not count.
std::string Attempts::quick_exception(const Stop& stop, Time now) const {
  const bool quick = stop.culprit.cause == "exception" && now - began_ < std::chrono::minutes(1);
  return quick ? stop.culprit.text : std::string();
}

std::string Attempts::why_not(const Stop& stop, Time now) const {
  const auto& [rank, cause, code, text, node, host] = stop.culprit;
  const auto counts = [&](Time restart) { return now - restart < *limit_.within; };
  const auto used = limit_.within ? static_cast<unsigned>(std::ranges::count_if(restarts_, counts)) : number_;
  if (!of_the_job_) return used < limit_.most ? "" : "all restarts are used (--max-restarts)";
  const bool by_code = permanent_.has_code(code);
  if (by_code || permanent_.has_cause(cause))
    return fmt::format("an end by {} is not tried again (--permanent)",
                       by_code ? "code " + std::to_string(code) : cause);
  if (const std::string quick = quick_exception(stop, now); !quick.empty() && quick == exception_)
    return "the same exception has ended it twice in a row, each time within a minute of its start";
  if (used < limit_.most) return "";
  return fmt::format("{} of {} restarts{} are used (--job-restarts)", used, limit_.most,
                     limit_.within ? " within " + format_time(*limit_.within) : "");
}

std::string Attempts::progress() const {
  if (limit_.within)
    return fmt::format("restart {} (at most {} within {})", number_, limit_.most,
                       format_time(*limit_.within));
  return fmt::format("restart {} of {}", number_, limit_.most);
}

Stop stop_of(const Verdict& verdict) {
  Stop stop{{.cause = verdict.cause == Cause::stopped ? "stopped" : "exit", .text = verdict.sentence}};
  if (!stop.drained() && verdict.root) {
    stop.culprit = as_failure(*verdict.root);
    const bool has_text = verdict.root->local_rank || verdict.root->error != nullptr;
    if (!has_text) stop.culprit.text = verdict.sentence;
  }
  stop.culprit.code = verdict.code;
  return stop;
}

}  // namespace rankshim
