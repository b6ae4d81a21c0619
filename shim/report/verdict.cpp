#include "report/verdict.h"

#include <fmt/format.h>

#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/duration.h"
#include "base/fault.h"
#include "base/signals.h"
#include "base/text.h"
#include "launchers/torchrun/error_file.h"
#include "settings/not_found.h"
#include "settings/settings.h"

namespace rankshim {
namespace {

using supervise::Ending;

constexpr std::size_t longest_error = 300;

/// A file that is there and cannot be executed because what has to read or load it is not.
std::string without_interpreter(const Ending& ending) {
  const std::string& missing = ending.interpreter;  // empty: not known
  if (const std::string where = where_not_found(missing); where.starts_with(':'))
    return fmt::format("{} cannot be executed: its interpreter {} was not found{}; correct the link",
                       ending.failure.path, in_quotes(missing), where);
  const char* const hint = missing.ends_with('\r')
                               ? "; the file has Windows line ends: remove them (dos2unix)"
                           : missing.find("/ld-") != std::string::npos
                               ? "; that is its dynamic loader: it was built for another distribution"
                               : "";
  return fmt::format("{} cannot be executed: its interpreter {} was not found{}", ending.failure.path,
                     missing.empty() ? "or dynamic loader" : in_quotes(missing), hint);
}

/// The command was not started, or the system does not report how it ended.
Verdict judge_unseen_end(const Ending& ending, const std::string& program) {
  Verdict verdict{.code = exit_code_of(ending), .failed = true};
  const char* reason = std::strerror(ending.number);
  if (ending.kind == Ending::Kind::withheld)
    verdict.sentence =
        fmt::format("{} has ended, and the system does not report how: wait4: {}", program, reason);
  else if (verdict.code == exit_code::system)
    verdict.sentence =
        fmt::format("the system refused to start {}: {}: {}", program, ending.failure.call, reason);
  else if (ending.failure.interpreter)
    verdict.sentence = without_interpreter(ending);
  else if (verdict.code == exit_code::not_found)
    verdict.sentence = not_found(program);
  else if (ending.number == ENOEXEC)
    verdict.sentence = fmt::format(
        "{} cannot be executed: this machine does not know its format; check the architecture that it was "
        "built for",
        ending.failure.path);
  else
    verdict.sentence = fmt::format("{} cannot be executed: {}", program, reason);
  if (verdict.code == exit_code::system) verdict.anchor = Anchor::system;
  return verdict;
}

/// Whether a KILL of its child is why it ended: a shell's code, or the exception.
bool says_child_was_killed(const RootCause& root) {
  constexpr auto texts = std::to_array<std::string_view>({
      "killed by signal: Killed",           // torch/utils/data/_utils/signal_handling.py
      "died with <Signals.SIGKILL: 9>",     // CPython's Lib/subprocess.py, CalledProcessError
      "returned non-zero exit status 137",  // the same, of a shell
      "was terminated abruptly while",      // Lib/concurrent/futures/process.py, BrokenProcessPool
      "terminated with signal SIGKILL",     // torch/multiprocessing/spawn.py, ProcessExitedException
  });
  const std::string_view message = root.error == nullptr ? std::string_view() : root.error->message;
  return root.code == exit_code::signal_base + SIGKILL ||
         std::ranges::any_of(texts, [&](auto text) { return message.find(text) != message.npos; });
}

/// Whether this is how it ended: a script may have caught a sys.exit, and ended otherwise.
bool explains(const PythonError& error, const RootCause& root) {
  if (!is_exit(error.message)) return !error.message.empty();
  const auto code = code_of_exit(error.message);
  return code && !root.signal && (*code & 0xFF) == root.code;  // exit(3) keeps 8 bits
}

/// Adds the exception that it left, and whether a kill at the memory limit explains its end, or a lost peer:
/// the exception shows that, or an end by ABRT, as NCCL's watchdog ends a worker whose collective does not
/// finish (torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp, TORCH_NCCL_ASYNC_ERROR_HANDLING). Without
/// accelerators there is no NCCL: gloo has no watchdog.
void add_evidence(RootCause& root, const PythonError* error, const Details& details) {
  if (error != nullptr && explains(*error, root)) root.error = error;
  if (const auto oom = details.oom.find(root.pid); oom != details.oom.end())
    root.out_of_memory =
        root.signal == SIGKILL ? oom->second.own : oom->second.of_child && says_child_was_killed(root);
  root.lost_peer = (root.signal == SIGABRT && details.has_accelerators) ||
                   (root.error != nullptr && is_error_of_lost_peer(root.error->message));
  root.timed_out = root.lost_peer && root.error != nullptr && is_error_of_timeout(root.error->message);
}

/// Whether the launcher failed by itself and ended its workers, as it does when its rendezvous' store is
/// gone. It then writes an exception that is not a copy of a worker's
/// (torch/distributed/elastic/multiprocessing/ errors, record). If it could not write one, the sign is that
/// all workers ended by a TERM that rankshim did not send.
bool launcher_failed(const Ending& ending, const Details& details) {
  const std::string& message = details.agent.message;
  if (message.empty() || is_exit(message))
    return !details.agent_writes_error && ending.workers.all_ended_with(SIGTERM);
  return std::ranges::none_of(details.workers,
                              [&](const auto& worker) { return worker.second.message == message; });
}

/// Whether it ended like a worker that the launcher stops: by TERM, or by KILL 30 s later.
bool ended_by_launcher(const RootCause& root) {
  return root.error == nullptr && !root.out_of_memory &&
         (root.code == exit_code::signal_base + SIGTERM || root.code == exit_code::signal_base + SIGKILL);
}

/// What is known of a worker's end; nothing if it ended well, as far as that is known.
std::optional<RootCause> failure_of(supervise::WorkerEnd worker, const Details& details) {
  const auto& by_torchrun = details.told_by_torchrun;
  if (worker.status_known) {
    if (worker.status == 0) return std::nullopt;
    return cause_of(worker, "kernel", details);
  }
  if (by_torchrun && by_torchrun->local_rank == worker.local_rank)
    return cause_of(*by_torchrun, "torchrun", details);
  const auto error = details.workers.find(worker.local_rank);
  if (error == details.workers.end()) return std::nullopt;
  // An uncaught exception gives Python's code 1.
  const auto code = static_cast<int>(code_of_exit(error->second.message).value_or(1) & 0xFF);
  worker.status = code << 8;
  const RootCause root = cause_of(worker, "error file", details);
  return root.error == nullptr || code == 0 ? std::nullopt : std::optional(root);
}

/// The first worker of the last set that failed by itself. Workers that the agent then ended, that a stop
/// ended or that ended because their agent was gone are not considered.
std::optional<RootCause> failed_worker(const Ending& ending, const Details& details) {
  if (ending.kind == Ending::Kind::exited && ending.number == 0) return std::nullopt;
  if (ending.workers.ends.empty() && !ending.stop_signal && details.told_by_torchrun)
    return cause_of(*details.told_by_torchrun, "torchrun", details);  // the kernel shows no ends
  const bool launcher_first = launcher_failed(ending, details);
  for (const supervise::WorkerEnd& worker : ending.workers.ends) {
    if (ending.stopped_at && worker.when >= *ending.stopped_at) break;
    if (ending.ended_at && worker.when > *ending.ended_at) break;
    std::optional<RootCause> root = failure_of(worker, details);
    if (!root || (launcher_first && ended_by_launcher(*root))) continue;
    root->when = worker.when;
    return root;
  }
  return std::nullopt;
}

/// The command itself, with no worker to name, as the cause of its end; nothing if it ended well or was
/// stopped.
std::optional<RootCause> failed_command(const Ending& ending, const Details& details, bool launches) {
  const int code = exit_code_of(ending);
  if (code == 0 || ending.stop_signal) return std::nullopt;
  RootCause root{.who = launches ? "launcher" : "program",
                 .pid = ending.pid,
                 .code = code,
                 .source = "kernel",
                 .when = ending.ended_at};
  if (ending.kind == Ending::Kind::signalled) root.signal = ending.number;
  add_evidence(root, &details.agent, details);
  root.out_of_memory = root.out_of_memory && !ending.killed_by_us;
  return root;
}

/// Whether a shell whose exit code is 128 + this number tells of a process that such a signal killed.
bool is_fatal(int signal) {
  constexpr std::array fatal = {SIGILL, SIGABRT, SIGBUS, SIGFPE, SIGKILL, SIGSEGV};
  return contains(fatal, signal);
}

/// What a reader needs besides the exit code or signal: " (ValueError: boom)".
std::string explanation(const RootCause& root, const Details& details) {
  const MemoryReading& memory = details.memory;
  std::vector<std::string> reasons;
  if (root.out_of_memory || memory.oom_kills != 0) {
    // If it is no root cause, only the program knows whose they were, and whether they are the reason.
    std::string& what = reasons.emplace_back("out of memory");
    if (!root.out_of_memory)
      what = fmt::format("{}the kernel killed {} because the memory limit was reached",
                         root.signal == SIGKILL ? "earlier, " : "",
                         memory.oom_kills == 1 ? "a process" : fmt::format("{} processes", memory.oom_kills));
    if (memory.limit) what += ": the limit is " + mebibytes(*memory.limit);
    if (memory.peak) what += ", the peak was " + mebibytes(*memory.peak);
  }
  const std::string error = root.error == nullptr ? std::string() : in_plain_words(root.error->message);
  const std::string shown(cut(error, longest_error));
  if (!shown.empty() && !root.signal) reasons.push_back(shown);
  const auto says = [&error](std::string_view words) { return error.find(words) != std::string::npos; };
  const bool shm = root.signal == SIGBUS || says("Bus error") || says("unable to allocate shared memory") ||
                   says("No space left on device");
  if (shm && !details.shm.empty()) reasons.push_back(details.shm);
  if (!details.port_holder.empty() && is_error_of_busy_port(error)) reasons.push_back(details.port_holder);
  if (const int signal = root.code - exit_code::signal_base;
      reasons.empty() && !root.signal && is_fatal(signal))
    reasons.push_back(fmt::format("128 + {}: {} killed a process in it{}", signal,
                                  supervise::signal_name(signal),
                                  signal == SIGKILL ? "; check its memory limit" : ""));
  const std::string text = reasons.empty() ? "" : " (" + joined(reasons, "; ") + ")";
  return shown.empty() || !root.signal ? text : text + ", after " + shown;
}

/// "worker 1 (rank 9, pid 17)"
std::string name_of(const RootCause& root) {
  std::string name = "worker " + std::to_string(*root.local_rank) + " (";
  if (root.rank) name += "rank " + std::to_string(*root.rank) + ", ";
  return name + "pid " + std::to_string(root.pid) + ")";
}

/// "ended with code 3", "was ended by SIGKILL"
std::string end_of(const RootCause& root) {
  return root.signal ? "was ended by " + supervise::signal_name(*root.signal)
                     : "ended with code " + std::to_string(root.code);
}

/// How the line of a node begins that another one has taken along: where the reader has to look.
std::string point_of_victim(const RootCause& root, bool host_is_lost) {
  if (!root.lost_peer || root.out_of_memory) return {};
  if (host_is_lost) return "lost the node that hosts the rendezvous; see its report: ";
  if (root.error == nullptr)
    return "aborted, by itself or by NCCL's watchdog because another node failed; see the other nodes' "
           "reports: ";
  const std::string_view peer = peer_in(root.error->message);
  return peer.empty() ? "lost another node; see the other nodes' reports: "
                      : fmt::format("lost its peer {}; see that node's report: ", printable(peer));
}

/// Whether torchrun gave up its rendezvous before its first worker, or lost the node that hosted it, which
/// may have given up first.
bool never_met(const Ending& ending, const RootCause& root) {
  if (ending.workers.attempts != 0 || root.error == nullptr) return false;
  const std::string& message = root.error->message;
  return is_error_of_lost_peer(message) || is_error_of_no_meeting(message);
}

/// Begins the sentence about the command's end with what failed first, and says why.
void tell_root(const Ending& ending, const Details& details,
               const std::optional<supervise::NodeNumbers>& numbers, bool by_torchrun, Verdict& verdict) {
  RootCause& root = *verdict.root;
  const bool several = numbers && numbers->nodes > 1;
  const bool is_worker = root.local_rank.has_value();
  // torchrun could not start its workers again, because the node that hosts the rendezvous is gone.
  const bool host_is_lost =
      is_worker && is_error_of_lost_host(details.agent.message) && launcher_failed(ending, details);
  root.lost_peer = host_is_lost || (several && root.lost_peer);
  verdict.code = root.code;
  const std::string point = verdict.point = point_of_victim(root, host_is_lost);
  const std::string why = explanation(root, details);
  if (!is_worker) {
    verdict.sentence = point + verdict.sentence + why;
    if (root.who == "launcher" && !ending.workers.ends.empty() && launcher_failed(ending, details))
      verdict.sentence += "; it ended its workers itself";
    return;
  }
  const bool first = point.empty();
  const std::string on_node =
      several ? fmt::format(" on node {} of {}", numbers->node_rank, numbers->nodes) : "";
  const std::string worker = fmt::format("{}{}{}{} {}", name_of(root), first ? " failed first" : "", on_node,
                                         first ? ": it" : "", end_of(root));
  if (first && by_torchrun)
    verdict.sentence = worker + why + "; " + verdict.sentence;
  else  // the command's end adds nothing
    verdict.sentence = point + worker + " after " + hours_and_minutes(ending.ran) + why;
}

/// The workers were stopped: the job is not done, however they ended then. But it was over if all of them
/// had ended with 0 before, and the launcher was waiting for the other nodes' ends.
void judge_stop(const Ending& ending, bool by_torchrun, Verdict& verdict) {
  const bool done = ending.workers.all_ended_with(0);
  const bool was_over = done && ending.stopped_at && ending.workers.ends.back().when < *ending.stopped_at;
  verdict.code = was_over ? 0 : exit_code::signal_base + *ending.stop_signal;
  if (was_over) verdict.cause = Cause::none;
  if (done && by_torchrun)
    verdict.sentence = fmt::format("all workers {} ended with code 0; {}", was_over ? "had already" : "then",
                                   verdict.sentence);
}

/// A torchrun in the command has failed. The command's own code counts; one that ended with 0 hides that.
void tell_inner(const Details& details, bool several, bool strict, Verdict& verdict) {
  RootCause& root = verdict.root.emplace(cause_of(*details.told_by_torchrun, "torchrun", details));
  // A copy of that worker's, or of what started the torchrun.
  if (!is_error_of_child(details.agent.message)) add_evidence(root, &details.agent, details);
  root.lost_peer = root.lost_peer && several;
  const bool hides = verdict.code == 0, counts = hides && strict;
  verdict.sentence = fmt::format(
      "{}{}{} {} of a torchrun in it {}: it {}{}{}", point_of_victim(root, false), verdict.sentence,
      hides ? ", although" : ";", name_of(root), hides ? "had failed" : "failed first", end_of(root),
      explanation(root, details), counts ? "; --strict makes that the exit code" : "");
  if (counts) verdict.code = root.code;
}

/// "torchrun ended with code 1 after 3 s; SIGTERM had asked it to stop"
std::string end_in_words(const Ending& ending, const std::string& name, bool several) {
  std::string text = name;
  const bool remains = !ending.ended_at && !ending.left_behind.empty();
  if (remains)
    text += " did not end even on SIGKILL,";
  else if (ending.kind == Ending::Kind::signalled)
    text += (several ? " were ended by " : " was ended by ") + supervise::signal_name(ending.number);
  else
    text += " ended with code " + std::to_string(ending.number);
  text += " after " + hours_and_minutes(ending.ran);
  if (ending.killed_by_us && !remains)
    text += ending.number == SIGABRT ? ", by which rankshim asked for stacks, because of what had not stopped"
            : ending.workers.never_met
                ? ", killed by rankshim"
                : fmt::format(", killed by rankshim because {} had not stopped", several ? "they" : "it");
  if (ending.stop_signal)
    text += fmt::format("; {} had asked {} to stop", supervise::signal_name(*ending.stop_signal),
                        several ? "them" : "it");
  return text;
}

/// "; 2 of 3 processes that it left behind had to be killed"
std::string leftovers_in_words(const Ending& ending) {
  const unsigned found = ending.leftovers, killed = ending.leftovers_killed;
  if (found == 0) return {};
  const std::string which = found == 1    ? "a process"
                            : killed == 0 ? fmt::format("{} processes", found)
                                          : fmt::format("{} of {} processes", killed, found);
  const char* end = killed != 0 ? "had to be killed" : found == 1 ? "was stopped" : "were stopped";
  return fmt::format("; {} that it left behind {}", which, end);
}

/// The run ended for a reason that only rankshim knows.
void give_reason(Verdict& verdict, int code, Cause cause, Anchor anchor, const std::string& reason) {
  verdict.code = code;
  verdict.cause = cause;
  verdict.anchor = anchor;
  verdict.failed = true;
  verdict.sentence = reason + "; " + verdict.sentence;
}

/// Where a traceback ends: "File "/app/train.py", line 7, in main"; empty if it has no frame.
std::string last_frame(std::string_view traceback) {
  std::string_view last;
  while (!traceback.empty())
    if (const std::string_view line = trimmed(take_line(traceback)); line.starts_with("File \"")) last = line;
  return std::string(last);
}

/// Whether the worker ended by an exception of its own.
bool is_raised(const RootCause& root) {
  const std::string error = root.error == nullptr ? std::string() : in_plain_words(root.error->message);
  return !error.empty() && !is_error_of_child(error) && !is_exit(error);
}

/// The address of the peer that it has lost; empty if its exception names none.
std::string lost_address(const RootCause& root) {
  if (!root.lost_peer || root.error == nullptr) return {};
  const std::string_view peer = peer_in(root.error->message);
  const std::string_view host = split_host_port(peer).first;
  return std::string(host.empty() ? peer : host);
}

}  // namespace

RootCause cause_of(const supervise::WorkerEnd& worker, std::string_view source, const Details& details) {
  RootCause root{.who = "worker",
                 .local_rank = worker.local_rank,
                 .rank = worker.rank,
                 .pid = worker.pid,
                 .code = supervise::exit_code_of_status(worker.status),
                 .source = source};
  if (WIFSIGNALED(worker.status)) root.signal = WTERMSIG(worker.status);
  const auto error = details.workers.find(worker.local_rank);
  add_evidence(root, error == details.workers.end() ? nullptr : &error->second, details);
  return root;
}

outcome::Cause cause_of(const RootCause& root) {
  using outcome::Cause;
  if (root.out_of_memory) return Cause::out_of_memory;
  if (root.lost_peer) return root.timed_out ? Cause::timed_out : Cause::peer_lost;
  if (is_raised(root)) return Cause::exception;
  return root.signal ? Cause::signalled : Cause::exited;
}

outcome::Culprit as_failure(const RootCause& root) {
  const std::string error = root.error == nullptr ? std::string() : in_plain_words(root.error->message);
  const std::string why(root.out_of_memory ? "out of memory" : cut(error, longest_error));
  const bool raised = is_raised(root);
  return {.rank = root.rank,
          .cause = cause_of(root),
          .code = root.code,
          .text = end_of(root) + (why.empty() ? "" : " (" + why + ")"),
          .frame = raised ? last_frame(root.error->traceback) : "",
          .peer = lost_address(root)};
}

Verdict judge(const Ending& ending, const LaunchChoice& choice, const LaunchPlan& plan,
              const Details& details, const std::optional<supervise::NodeNumbers>& numbers, bool strict) {
  const std::string& program = plan.argv.front();
  if (ending.kind == Ending::Kind::not_started || ending.kind == Ending::Kind::withheld)
    return judge_unseen_end(ending, program);

  const Launcher& launcher = *choice.launcher;
  const bool launches = launcher.launches(), by_torchrun = launcher.has_agent();
  const bool several = launcher.starts_each_worker();
  const std::string_view command = launcher.is_agent() ? plan.agent_name : program;
  const std::string name(several ? "the workers" : command);
  Verdict verdict{.code = exit_code_of(ending),
                  .cause = ending.stop_signal ? Cause::stopped : Cause::none,
                  .sentence = end_in_words(ending, name, several)};
  if (launches) verdict.root = failed_worker(ending, details);
  if (!verdict.root) verdict.root = failed_command(ending, details, launches);
  if (!launches && !ending.stop_signal && details.told_by_torchrun)
    tell_inner(details, numbers && numbers->nodes > 1, strict, verdict);
  else if (verdict.root)
    tell_root(ending, details, numbers, by_torchrun, verdict);
  else if (launches && ending.stop_signal)
    judge_stop(ending, by_torchrun, verdict);
  if (verdict.root && verdict.code != 0) {
    verdict.cause = verdict.root->out_of_memory ? Cause::oom
                    : verdict.root->lost_peer   ? Cause::peer
                                                : Cause::none;
    verdict.failed = true;
  }
  if (!ending.workers.unreached.empty())
    give_reason(verdict, exit_code::unreachable, Cause::wait, Anchor::port_closed, ending.workers.unreached);
  else if (ending.workers.never_met || (launches && verdict.root && never_met(ending, *verdict.root)))
    give_reason(verdict, exit_code::unreachable, Cause::wait, Anchor::rendezvous,
                "the other nodes did not join in time");
  if (const std::string& alone = ending.workers.trained_alone; !alone.empty()) {
    verdict.is_doubtful = true;
    verdict.sentence += (verdict.code == 0 ? ", but " : "; it ") + alone;
  }
  if (!ending.did_not_stop.empty()) verdict.sentence += "; " + ending.did_not_stop;
  verdict.sentence += leftovers_in_words(ending);
  if (ending.workers.ended_for_it)
    give_reason(verdict, exit_code::configuration, Cause::config, Anchor::trains_alone,
                ending.workers.trains_alone + ", and --strict does not allow that");
  if (!ending.left_behind.empty())
    verdict.sentence += "; SIGKILL did not end " + ending.left_behind + ", which waits in the kernel";
  return verdict;
}

int exit_code_of(const Verdict& verdict, const Settings& settings) {
  const auto map = settings.get<ExitMap>(Option::exit_map);
  return map ? map->apply(verdict.cause, verdict.code) : verdict.code;
}

}  // namespace rankshim
