#include "report/wording.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>
#include <variant>
#include <vector>

#include "base/duration.h"
#include "base/fact.h"
#include "base/fault.h"
#include "base/json.h"
#include "base/signals.h"
#include "base/text.h"
#include "launchers/python_error.h"
#include "link/wording.h"
#include "outcome/wording.h"
#include "settings/not_found.h"
#include "settings/settings.h"
#include "supervise/tree.h"

namespace rankshim::report::wording {
namespace {

using outcome::Cause;
using supervise::ExitRecord;

constexpr std::size_t longest_error = 300;

/// The sentence about a file that exists, but whose interpreter or dynamic loader does not.
std::string without_interpreter(const ExitRecord& record) {
  const std::string& missing = record.interpreter;  // empty if unknown
  if (const std::string where = settings::where_not_found(missing); where.starts_with(':'))
    return fmt::format("{} cannot be executed: its interpreter {} was not found{}; correct the link",
                       record.failure.path, in_quotes(missing), where);
  const bool has_dos_ends = missing.ends_with('\r');
  const bool is_loader = missing.find("/ld-") != std::string::npos;
  std::string_view hint;
  if (has_dos_ends)
    hint = "; the file has Windows line endings: remove them (dos2unix)";
  else if (is_loader)
    hint = "; that is the dynamic loader: the program was built for another distribution";
  return fmt::format("{} cannot be executed: its interpreter {} was not found{}", record.failure.path,
                     missing.empty() ? "or dynamic loader" : in_quotes(missing), hint);
}

/// Whether an exit code of 128 + this number, as a shell reports it, means that the signal killed a process.
bool is_fatal(int signal) {
  constexpr std::array fatal = {SIGILL, SIGABRT, SIGBUS, SIGFPE, SIGKILL, SIGSEGV};
  return contains(fatal, signal);
}

/// "out of memory: the limit is 512 MiB, the peak was 512 MiB"; empty if no process was killed at the limit.
std::string memory_in_words(const RootCause& root, const node::MemoryUsage& memory) {
  const bool is_why = root.culprit.cause == Cause::out_of_memory;
  if (!is_why && memory.oom_kills == 0) return {};
  std::string text = "out of memory";
  // If that is not the cause, only the program knows what was killed and whether it matters.
  if (!is_why)
    text = fmt::format("{}the kernel killed {} because the memory limit was reached",
                       root.culprit.signal == SIGKILL ? "earlier, " : "",
                       memory.oom_kills == 1 ? "a process" : fmt::format("{} processes", memory.oom_kills));
  if (memory.limit) text += ": the limit is " + node::mebibytes(*memory.limit);
  if (memory.peak) text += ", the peak was " + node::mebibytes(*memory.peak);
  return text;
}

/// "torchrun exited with code 1 after 3 s", "the workers were killed by SIGKILL after 3 s, by rankshim
/// because they had not stopped".
std::string in_words(const CommandEnd& command) {
  const bool several = command.name.empty();
  std::string text = several ? "the workers" : command.name;
  if (command.remains)
    text += " survived SIGKILL,";
  else if (command.signal)
    text += fmt::format(" {} killed by {}", several ? "were" : "was", signal_name(*command.signal));
  else
    text += fmt::format(" exited with code {}", command.code);
  text += " after " + hours_and_minutes(command.ran);
  if (command.stopped_for_stacks)
    return text + ", when rankshim asked the processes that had not stopped for their stacks";
  if (!command.killed_by_us) return text;
  return text + fmt::format(", by rankshim because {} had not stopped", several ? "they" : "it");
}

/// How a stopped command ended.
std::string stopped_in_words(const CommandEnd& command) {
  if (command.workers_succeeded_before)
    return fmt::format("all workers had exited with code 0 before {} stopped {}", signal_name(*command.stop),
                       command.name.empty() ? "this node" : command.name);
  const std::string workers = command.workers_succeeded ? "all workers then exited with code 0; " : "";
  return fmt::format("stopped ({}): {}{}", signal_name(*command.stop), workers, in_words(command));
}

/// The culprit, with its node if there are others.
std::string in_words(const outcome::Culprit& culprit, const Verdict& verdict) {
  return verdict.of_several ? outcome::in_words(culprit) : what_happened(culprit);
}

/// What failed here, and where else to look if this is only a consequence.
std::string in_words(const RootCause& root, const Verdict& verdict) {
  const outcome::Culprit& culprit = root.culprit;
  std::string text = in_words(culprit, verdict);
  if (verdict.of_several && !verdict.is_linked && is_victim(culprit.cause))
    text += culprit.peer.empty() ? "; see the other nodes' reports" : "; see that node's report";
  if (root.is_inner && verdict.command->code != culprit.code) text += "; " + in_words(*verdict.command);
  return text;
}

std::string culprit_in_words(const Verdict& verdict) {
  const outcome::Culprit& culprit = *verdict.culprit;
  std::string text = verdict.stopped_for_culprit ? "stopped: " : "";
  text += in_words(culprit, verdict);
  if (verdict.unreached) text += ": " + link::in_words(*verdict.unreached);
  for (const outcome::Culprit& other : verdict.others) text += "; " + outcome::in_words(other);
  if (!verdict.stopped_for_culprit && verdict.is_linked && is_victim(culprit.cause))
    text += "; no other node had failed before";
  return text;
}

// ---- why rankshim ended a run ----

/// What was going on when a signal ended the run before its command.
std::string_view meanwhile(reason::Stopped::Stage stage) {
  using Stage = reason::Stopped::Stage;
  switch (stage) {
    case Stage::pre_start:
      return "during the pre-start hook";
    case Stage::platform:
      return "while waiting for the platform";
    case Stage::interpreter:
      return "while the interpreter was checked";
    case Stage::master:
      return "while waiting for the master";
    case Stage::nodes:
      return "while waiting for the other nodes";
    case Stage::spare:
      return "while it waited as a spare";
    case Stage::pause:
      break;
  }
  return "before the next attempt";
}

std::string words_of(const reason::Faulty& faulty) { return to_line(faulty.fault); }
std::string words_of(const reason::StillWrong& wrong) { return wrong.fault.what; }
std::string words_of(const reason::NoMaster& unmet) { return wait::in_words(unmet.master); }
std::string words_of(const reason::Missing& missing) { return missing.what; }

std::string words_of(const reason::Stopped& stopped) {
  return fmt::format("{} {}; nothing was started", signal_name(stopped.signal), meanwhile(stopped.stage));
}

std::string words_of(const reason::HookFailed& failed) {
  return fmt::format("the pre-start hook {}; nothing was started", hook_end(failed.hook, failed.limit));
}

std::string words_of(const reason::NoTorch& lacks) {
  return fmt::format(
      "no torch in {}: install it there, or name the interpreter that has it with --python (RANKSHIM_PYTHON)",
      lacks.python);
}

std::string words_of(const reason::OldTorch& old) {
  return fmt::format("torch in {} is older than torchrun (1.9), which elastic jobs and restarts need",
                     old.python);
}

std::string words_of(const reason::Refused& refused) {
  using Needs = reason::Refused::Needs;
  std::string needs;
  if (refused.needs == Needs::supervising) needs = "supervising a process needs";
  if (refused.needs == Needs::command) needs = "starting the command needs";
  if (refused.needs == Needs::link)
    needs = fmt::format("the link needs, and {} requires the link", refused.required_by);
  return fmt::format("the system refused a resource that {}: {}", needs, refused.error);
}

std::string words_of(const reason::TooManyNodes& many) {
  return fmt::format("{}, and at most {} nodes can be linked: correct it, or set RANKSHIM_LINK=off",
                     rankshim::in_words(Fact::nnodes, many.nnodes), many.most);
}

std::string words_of(const reason::NoLink& none) {
  return fmt::format("the nodes cannot be linked, and {} requires it: {}", none.required_by,
                     link::in_words(none.why));
}

std::string words_of(const reason::NotMet& unmet) {
  const std::string at = unmet.master.empty() ? "" : " at " + unmet.master;
  const std::string where = unmet.waited ? fmt::format("; waited {}{}", format_time(*unmet.waited), at) : "";
  const std::string own =
      unmet.own.empty()
          ? ""
          : fmt::format(" (this node has {}: compare rankshim explain on all nodes)", joined(unmet.own));
  return link::in_words(unmet.why) + where + own;
}

std::string words_of(const reason::SpareNotNeeded&) {
  return "the job has succeeded while this node waited as a spare";
}

std::string words_of(const reason::Unseen& unseen) {
  const auto& [record, program] = unseen;
  const int code = exit_code_of(record);
  const char* reason = std::strerror(record.number);
  if (record.kind == ExitRecord::Kind::withheld)
    return fmt::format("{} exited, but its exit status is unknown: wait4: {}", program, reason);
  if (code == exit_code::system)
    return fmt::format("the system refused to start {}: {}: {}", program, name(record.failure.call), reason);
  if (record.failure.interpreter) return without_interpreter(record);
  if (code == exit_code::not_found) return settings::not_found(program);
  if (record.number == ENOEXEC)
    return fmt::format(
        "{} cannot be executed: unknown executable format; check the architecture it was built "
        "for",
        record.failure.path);
  return fmt::format("{} cannot be executed: {}", program, reason);
}

std::string words_of(const reason::NobodyJoined& nobody) {
  return nobody.unreached ? outcome::in_words(*nobody.unreached) : "the other nodes did not join in time";
}

std::string words_of(const reason::TrainsAlone& alone) {
  return outcome::in_words(alone.training) + ", and --strict does not allow that";
}

// ---- the notes ----

std::string words_of(note::Remark remark) {
  switch (remark) {
    case note::Remark::rendezvous_host_gone:
      return "the node that hosts the rendezvous is gone";
    case note::Remark::other_rank_to_blame:
      return "another rank is to blame: run rankshim once per node to learn which";
    case note::Remark::launcher_stopped_workers:
      return "it stopped its workers itself";
    case note::Remark::strict_code:
      break;
  }
  return "with --strict that is the exit code";
}

std::string words_of(const supervise::NotStopped& hung) {
  return fmt::format("{} did not stop in {}", supervise::in_words(hung.processes),
                     hours_and_minutes(hung.after));
}

std::string words_of(const note::Leftovers& leftovers) {
  const auto& [found, killed] = leftovers;
  const bool one = found == 1;
  if (killed == 0)
    return one ? "a leftover process was stopped" : fmt::format("{} leftover processes were stopped", found);
  return one ? "a leftover process had to be killed"
             : fmt::format("{} of {} leftover processes had to be killed", killed, found);
}

std::string words_of(const note::LeftBehind& left) {
  return "SIGKILL did not end " + supervise::in_words(left.processes) + ", which waits in the kernel";
}

std::string words_of(const outcome::NotRestarted& refusal) {
  return "not restarted: " + wording::in_words(refusal);
}

std::string words_of(const note::LastAttempt& last) {
  return fmt::format("this was {}; the attempt before: {}", last.progress, last.before);
}

std::string words_of(const note::SignalWhileWaiting& late) {
  return signal_name(late.signal) + " arrived while this node waited for the others";
}

std::string words_of(const note::ExitMapped& mapped) {
  return fmt::format("--exit-map changes the exit code to {}", mapped.code);
}

/// Which node has left since the restart was decided: "node 3 (h), a spare, was lost".
std::string gone_in_words(const outcome::NotRestarted& refusal) {
  const outcome::Culprit gone = refusal.gone.value_or(outcome::Culprit());
  if (!refusal.was_spare) return outcome::in_words(gone);
  return fmt::format("{}, a spare, {}", outcome::node_name(gone.node, gone.host),
                     gone.cause == Cause::stop_requested ? "was stopped" : "was lost");
}

/// Why the run ended, without the notes.
std::string head(const Verdict& verdict) {
  if (verdict.culprit) return culprit_in_words(verdict);
  if (verdict.reason) return wording::in_words(*verdict.reason);
  if (verdict.root && verdict.code != 0) return in_words(*verdict.root, verdict);
  if (verdict.root)
    return fmt::format("{}, although {}", in_words(*verdict.command), what_happened(verdict.root->culprit));
  return verdict.command->stop ? stopped_in_words(*verdict.command) : in_words(*verdict.command);
}

}  // namespace

std::string sentence(const Verdict& verdict) {
  std::string text = head(verdict);
  if (verdict.lone_training)
    text += (verdict.code == 0 ? ", but " : "; it ") + in_the_past(*verdict.lone_training);
  for (const Note& note : verdict.notes)
    text += "; " + std::visit([](const auto& one) { return words_of(one); }, note);
  return text;
}

std::string message(const Verdict& verdict) { return sentence(verdict) + reference(verdict.error_code); }

std::string why(const RootCause& root, const Details& details) {
  const std::optional<int>& signal = root.culprit.signal;
  std::vector<std::string> reasons;
  if (std::string memory = memory_in_words(root, details.memory); !memory.empty())
    reasons.push_back(std::move(memory));
  const std::string error =
      root.error == nullptr ? std::string() : launchers::in_plain_words(root.error->message);
  const std::string shown(cut(error, longest_error));
  if (!shown.empty()) reasons.push_back(signal ? "it had raised " + shown : shown);
  const auto says = [&error](std::string_view words) { return error.find(words) != std::string::npos; };
  const bool shm = signal == SIGBUS || says("Bus error") || says("unable to allocate shared memory") ||
                   says("No space left on device");
  if (shm && !details.shm.empty()) reasons.push_back(details.shm);
  if (!details.port_holder.empty() && launchers::is_error_of_busy_port(error))
    reasons.push_back(details.port_holder);
  if (root.culprit.cause == Cause::peer_lost && signal == SIGABRT && shown.empty())
    reasons.emplace_back("it aborted itself, or NCCL's watchdog did because another node failed");
  if (const int told = root.culprit.code - exit_code::signal_base;
      reasons.empty() && !signal && is_fatal(told))
    reasons.push_back(fmt::format("128 + {}: {} killed one of its processes{}", told, signal_name(told),
                                  told == SIGKILL ? "; check its memory limit" : ""));
  return joined(reasons, "; ");
}

std::string notice(const outcome::Culprit& culprit) {
  const auto stalled = std::chrono::milliseconds(culprit.hang->stalled.value_or(0));
  return fmt::format("no collective has completed for {}: {}{}", hours_and_minutes(stalled),
                     present_hang_in_words(culprit), reference(error_code_of(culprit)));
}

std::string resumed(std::chrono::milliseconds stalled) {
  return "collectives continue after " + hours_and_minutes(stalled);
}

std::string hook_end(const ExitRecord& hook, std::chrono::milliseconds limit) {
  if (hook.kind == ExitRecord::Kind::not_started)
    return fmt::format("cannot be started: {}: {}", name(hook.failure.call), std::strerror(hook.number));
  if (hook.kind == ExitRecord::Kind::withheld)
    return fmt::format("ended, and the system does not report how: wait4: {}", std::strerror(hook.number));
  const auto signal = hook.kind == ExitRecord::Kind::signalled ? std::optional(hook.number) : std::nullopt;
  const bool too_long = signal && hook.killed_by_us && !hook.stop;
  return outcome::end_in_words(hook.number, signal) +
         (too_long ? " because it took longer than " + format_time(limit) : "");
}

std::string in_words(const Reason& reason) {
  return std::visit([](const auto& one) { return words_of(one); }, reason);
}

std::string in_words(const outcome::NotRestarted& refusal) {
  using Why = outcome::NotRestarted::Why;
  switch (refusal.why) {
    case Why::permanent:
      return fmt::format("{} is permanent (--permanent)",
                         refusal.code ? fmt::format("exit code {}", *refusal.code)
                                      : std::string(settings::word_of_permanent(refusal.cause)));
    case Why::hung_again:
      return "it has hung twice in a row at the same lines and the same collective";
    case Why::raised_again:
      return "the same exception has ended it twice in a row, each time within a minute of its start";
    case Why::stopped:
      return "this node was stopped";
    case Why::left_processes:
      return "SIGKILL did not end all of its processes";
    case Why::no_spare:
      return "no spare can take over";
    case Why::node_gone:
      return gone_in_words(refusal);
    case Why::all_used:
      break;
  }
  if (!refusal.of_the_job) return "all restarts are used (--max-restarts)";
  return fmt::format("{} of {} restarts{} are used (--job-restarts)", refusal.used, refusal.most,
                     refusal.within ? " within " + format_time(*refusal.within) : "");
}

std::string in_words(const KillRisk& risk) {
  switch (risk.kind) {
    case KillRisk::Kind::limit_reached:
      return risk.limit + " was reached";
    case KillRisk::Kind::kills_all:
      return "memory.oom.group is set: a process over " + risk.limit + " ends the whole container";
    case KillRisk::Kind::stopping:
      break;
  }
  return signal_name(risk.signal) + " came, and the job was stopping";
}

std::string provisional(const KillRisk& risk, std::chrono::system_clock::time_point now) {
  return fmt::format(
      "rankshim, at {}Z: {}; if nothing follows, the container was killed before rankshim could write more",
      json::moment(now).substr(0, 19), in_words(risk));
}

}  // namespace rankshim::report::wording
