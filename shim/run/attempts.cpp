#include "run/attempts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/duration.h"
#include "base/text.h"
#include "node/addresses.h"

namespace rankshim::run {

using link::Stop;
using outcome::NotRestarted;
using settings::Option;
using Why = NotRestarted::Why;

namespace {

constexpr std::chrono::minutes short_attempt{1};  // an attempt that ends sooner failed at its start
constexpr std::chrono::seconds first_pause{2};    // doubled each time

/// The text with "#" in place of whatever may differ although the failure is the same: addresses, words that
/// contain digits (pids, sizes, CUDA's figures), and the names of temporary files.
std::string without_particulars(std::string_view text) {
  constexpr auto units = std::to_array<std::string_view>(
      {"bytes", "B", "kB", "KB", "KiB", "MB", "MiB", "GB", "GiB", "TB", "TiB", "s", "ms"});
  const auto is_of_word = [](char c) { return is_letter_or_digit(c) || c == '_'; };
  const std::string plain = node::with_names(text, [](const std::string&) { return "#"; });
  std::string masked;
  for (auto at = plain.begin(); at != plain.end();) {
    const bool in_folder = masked.ends_with("/tmp/") || masked.ends_with("/shm/");
    const auto end = std::find_if_not(
        at, plain.end(), [&](char c) { return is_of_word(c) || (in_folder && (c == '-' || c == '.')); });
    if (end == at) {
      masked += *at++;
      continue;
    }
    const std::string_view word(at, end);
    constexpr std::size_t of_tempfile = 11;  // "tmp" and 8 characters (Python's tempfile)
    const bool is_temporary = in_folder || (word.size() == of_tempfile && word.starts_with("tmp"));
    if (is_temporary || std::ranges::any_of(word, is_digit))
      masked += '#';
    else if (masked.ends_with("# ") && contains(units, word))
      masked.pop_back();
    else
      masked += word;
    for (const std::string_view parts : {"#.#", "#-#", "#:#"})  // parts of one number
      if (masked.ends_with(parts)) masked.resize(masked.size() - 2);
    at = end;
  }
  return masked;
}

/// A text that is the same whenever the same line of code fails in the same way. It includes the line number,
/// but not the temporary folder of the file.
std::string signature_of(const outcome::Culprit& failure) {
  const std::size_t line = std::min(failure.frame.find("\", line "), failure.frame.size());
  return without_particulars(failure.text) + '\n' + without_particulars(failure.frame.substr(0, line)) +
         failure.frame.substr(line);
}

}  // namespace

Attempts::Attempts(const settings::Settings& settings, const launchers::Job& job)
    : limit_(*settings.get<settings::RestartLimit>(Option::job_restarts)),
      of_the_job_(allowed()),
      permanent_(*settings.get<settings::ExitPattern>(Option::permanent)),
      longest_pause_(
          std::min(*settings.time(Option::restart_pause), *settings.time(Option::wait_timeout) / 2)) {
  if (!of_the_job_ && job.choice.launcher->starts_each_worker()) limit_.most = job.topology.max_restarts();
}

Attempts::~Attempts() {
  boost::system::error_code ignored;
  if (succession) succession->listener.close(ignored);
}

void Attempts::begin(unsigned number, unsigned uncounted, Time now) {
  number_ = number;
  uncounted_ = uncounted;
  began_ = now;
}

void Attempts::next(Time now, bool is_counted) {
  ++number_;
  if (!is_counted) {
    ++uncounted_;
    pause_ = next_pause_ = {};
    earliest_ = now;
    return;
  }
  restarts_.push_back(now);
  pause_ = std::min(longest_pause_, next_pause_);
  next_pause_ = std::min<std::chrono::milliseconds>(
      longest_pause_, std::max<std::chrono::milliseconds>(first_pause, 2 * next_pause_));
  if (now - began_ >= short_attempt) pause_ = next_pause_ = {};
  earliest_ = now + pause_;
}

void Attempts::decide(Stop& stop, Time now) {
  if (stop.drained() || !allowed()) return;
  stop.not_restarted = why_not(stop, now);
  stop.again = !stop.not_restarted;
  last_failure_ = lasting_failure(stop, now);
}

/// Identifies a failure that is not tried a third time, because each attempt would end the same way: an
/// exception soon after the start, or a hang at the same collective and line. The rank is not part of it: if
/// every rank raises, a different one may be first each time. Empty if the next attempt may succeed. (If a
/// spare takes over from the node that failed, another machine shows whether the node was at fault.)
std::string Attempts::lasting_failure(const Stop& stop, Time now) const {
  const outcome::Culprit& culprit = stop.culprit;
  if (culprit.cause == outcome::Cause::exception && now - began_ < short_attempt)
    return signature_of(culprit);
  if (culprit.cause == outcome::Cause::hang && culprit.hang && culprit.hang->number != 0)
    return fmt::format("{} of {} at {}:{} and {}:{}", culprit.hang->number, culprit.hang->group,
                       culprit.hang->place.line.file, culprit.hang->place.line.line,
                       culprit.hang->waits_at.line.file, culprit.hang->waits_at.line.line);
  return "";
}

std::optional<NotRestarted> Attempts::why_not(const Stop& stop, Time now) const {
  const int code = stop.culprit.code;
  const auto counts = [&](Time restart) { return now - restart < *limit_.within; };
  const auto used =
      limit_.within ? static_cast<unsigned>(std::ranges::count_if(restarts_, counts)) : counted();
  const NotRestarted all_used{.why = Why::all_used,
                              .used = used,
                              .most = limit_.most,
                              .within = limit_.within,
                              .of_the_job = of_the_job_};
  const bool is_left = used < limit_.most;
  if (!of_the_job_) return is_left ? std::nullopt : std::optional(all_used);
  if (permanent_.has_code(code)) return NotRestarted{.why = Why::permanent, .code = code};
  if (permanent_.has_cause(stop.culprit.cause))
    return NotRestarted{.why = Why::permanent, .cause = stop.culprit.cause};
  const bool on_another_node = members && members->has_replacement(stop.culprit.node);
  if (const std::string failure = lasting_failure(stop, now);
      !failure.empty() && failure == last_failure_ && !on_another_node)
    return NotRestarted{.why =
                            stop.culprit.cause == outcome::Cause::hang ? Why::hung_again : Why::raised_again};
  return is_left ? std::nullopt : std::optional(all_used);
}

std::string Attempts::progress() const {
  const std::string most =
      limit_.within ? fmt::format(" (at most {} within {})", limit_.most, format_time(*limit_.within))
                    : fmt::format(" of {}", limit_.most);
  const bool waits = pause_ != std::chrono::milliseconds::zero();
  return fmt::format("restart {}{}{}", counted(), most,
                     waits ? fmt::format(", after a pause of {}", seconds(pause_)) : "");
}

}  // namespace rankshim::run
