#include "report/verdict.h"

#include <fmt/format.h>

#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/duration.h"
#include "base/fault.h"
#include "base/signals.h"
#include "base/text.h"
#include "launchers/torchrun/error_file.h"
#include "settings/settings.h"

namespace rankshim {
namespace {

using supervise::Ending;

/// A file that is there and cannot be executed because what has to read or load it is not.
std::string without_interpreter(const Ending& ending) {
  const std::string& missing = ending.interpreter;
  if (missing.empty())
    return fmt::format(
        "{} cannot be executed: it exists, but not the interpreter that its first line names, or its dynamic "
        "loader",
        ending.failure.path);
  const std::string_view hint = missing.ends_with('\r')
                                    ? "; the file has Windows line ends: remove them (dos2unix)"
                                : missing.find("/ld-") != std::string::npos
                                    ? "; that is its dynamic loader: it was built for another distribution"
                                    : "";
  return fmt::format("{} cannot be executed: its interpreter {} was not found{}", ending.failure.path,
                     in_quotes(missing), hint);
}

Verdict judge_failed_start(const Ending& ending, const std::string& program) {
  Verdict verdict;
  verdict.failed = true;
  verdict.code = exit_code_of(ending);
  const char* reason = std::strerror(ending.number);
  if (ending.failure.call != "execve") {
    verdict.anchor = Anchor::system;
    verdict.sentence =
        fmt::format("the system refused to start {}: {}: {}", program, ending.failure.call, reason);
  } else if (verdict.code == exit_code::not_found) {
    verdict.sentence = ending.failure.interpreter ? without_interpreter(ending) : not_found(program);
  } else if (verdict.code == exit_code::system) {
    verdict.anchor = Anchor::system;
    verdict.sentence = fmt::format("the system refused to start {}: {}", program, reason);
  } else if (ending.number == ENOEXEC) {
    verdict.sentence = fmt::format(
        "{} cannot be executed: this machine does not know its format; check the architecture that it was "
        "built for",
        ending.failure.path);
  } else {
    verdict.sentence = fmt::format("{} cannot be executed: {}", program, reason);
  }
  return verdict;
}

Verdict withheld(const Ending& ending, const std::string& program) {
  Verdict verdict;
  verdict.failed = true;
  verdict.code = exit_code_of(ending);
  verdict.anchor = Anchor::system;
  verdict.sentence = fmt::format("{} has ended, and the system does not report how: wait4: {}", program,
                                 std::strerror(ending.number));
  return verdict;
}

/// The message of a Python process whose child was killed because memory ran out: torch's DataLoader
/// (torch/utils/data/_utils/signal_handling.py).
constexpr std::string_view loader_killed = "killed by signal: Killed";

void add_error(const PythonError* error, RootCause& root) {
  if (error != nullptr && !error->message.empty()) root.error = error;
}

/// Whether the kernel's counter of out-of-memory kills explains this end.
bool out_of_memory(const RootCause& root, const Details& details) {
  if (!details.memory.known || details.memory.oom_kills == 0) return false;
  if (root.code == exit_code::signal_base + SIGKILL) return true;
  return root.error != nullptr && root.error->message.find(loader_killed) != std::string::npos;
}

/// Whether the launcher failed by itself and ended its workers, as it does when its rendezvous' store is
/// gone. It then writes an exception that is not a copy of a worker's
/// (torch/distributed/elastic/multiprocessing/ errors, record). If it could not write one, the sign is that
/// all workers ended by a TERM that rankshim did not send.
bool launcher_failed(const Ending& ending, const Details& details) {
  const std::string& message = details.agent.message;
  if (!message.empty()) {
    return std::ranges::none_of(details.workers,
                                [&message](const PythonError& worker) { return worker.message == message; });
  }
  if (details.agent_writes_error || ending.workers.ends.empty()) return false;
  return ending.workers.ends.size() == ending.workers.states.size() &&
         std::ranges::all_of(ending.workers.ends, [](const supervise::WorkerEnd& worker) {
           return worker.status_known && WIFSIGNALED(worker.status) && WTERMSIG(worker.status) == SIGTERM;
         });
}

/// Whether it ended like a worker that the launcher stops: by TERM, or by KILL 30 s later.
bool ended_by_launcher(const RootCause& root) {
  return root.error == nullptr && !root.out_of_memory &&
         (root.code == exit_code::signal_base + SIGTERM || root.code == exit_code::signal_base + SIGKILL);
}

RootCause of_worker(unsigned local_rank, std::optional<unsigned> rank, pid_t pid, const Details& details) {
  RootCause root;
  root.who = "worker";
  root.local_rank = local_rank;
  root.rank = rank;
  root.pid = pid;
  if (local_rank < details.workers.size()) add_error(&details.workers[local_rank], root);
  return root;
}

/// A worker whose end the kernel has not shown, as torchrun tells it.
RootCause told(const FailedWorker& worker, const Details& details) {
  RootCause root = of_worker(worker.local_rank, worker.rank, worker.pid, details);
  root.source = "torchrun";
  root.code = worker.exitcode < 0 ? exit_code::signal_base - worker.exitcode : worker.exitcode;
  if (worker.exitcode < 0) root.signal = -worker.exitcode;
  root.out_of_memory = out_of_memory(root, details);
  return root;
}

/// The first worker of the last set that failed by itself. Workers that the agent then ended, that a stop
/// ended or that ended because their agent was gone are not considered.
std::optional<RootCause> failed_worker(const Ending& ending, const Details& details) {
  if (ending.kind == Ending::Kind::exited && ending.number == 0) return std::nullopt;
  const bool launcher_first = launcher_failed(ending, details);
  for (const supervise::WorkerEnd& worker : ending.workers.ends) {
    if (ending.stopped_at && worker.when >= *ending.stopped_at) return std::nullopt;
    if (ending.ended_at && worker.when > *ending.ended_at) return std::nullopt;
    RootCause root = of_worker(worker.local_rank, worker.rank, worker.pid, details);
    root.when = worker.when;
    if (worker.status_known) {
      if (worker.status == 0) continue;
      root.source = "kernel";
      root.code = supervise::exit_code_of_status(worker.status);
      if (WIFSIGNALED(worker.status)) root.signal = WTERMSIG(worker.status);
    } else if (details.told_by_torchrun && details.told_by_torchrun->local_rank == worker.local_rank) {
      return told(*details.told_by_torchrun, details);
    } else {
      if (root.error == nullptr) continue;
      root.source = "error file";
      root.code = 1;  // Python's code for an uncaught exception
    }
    root.out_of_memory = out_of_memory(root, details);
    if (launcher_first && ended_by_launcher(root)) continue;
    return root;
  }
  if (ending.workers.ends.empty() && !ending.stop_signal && details.told_by_torchrun)
    return told(*details.told_by_torchrun, details);  // the kernel shows no ends
  return std::nullopt;
}

/// The command itself as the cause of its end.
RootCause failed_command(const Ending& ending, const Verdict& verdict, bool launcher,
                         const Details& details) {
  RootCause root;
  root.who = launcher ? "launcher" : "program";
  root.pid = ending.pid;
  root.code = verdict.code;
  root.when = ending.ended_at;
  root.source = "kernel";
  if (ending.kind == Ending::Kind::signalled) root.signal = ending.number;
  add_error(&details.agent, root);
  root.out_of_memory = !ending.killed_by_us && out_of_memory(root, details);
  return root;
}

/// What a reader needs besides the exit code or signal: " (ValueError: boom)".
std::string explanation(const RootCause& root, const Details& details) {
  constexpr std::size_t longest = 300;
  std::string text;
  const std::uint64_t kills = details.memory.known ? details.memory.oom_kills : 0;
  if (root.out_of_memory) {
    text = "out of memory";
  } else if (kills != 0) {  // only the program knows whose they were, and whether they are the reason
    text = "the kernel killed " + (kills == 1 ? "a process" : std::to_string(kills) + " processes") +
           " because the memory limit was reached";
  }
  if (!text.empty()) {
    if (details.memory.limit) text += ": the limit is " + mebibytes(*details.memory.limit);
    if (details.memory.peak) text += ", the peak was " + mebibytes(*details.memory.peak);
  }
  const std::string error = root.error == nullptr ? std::string() : in_plain_words(root.error->message);
  const std::string_view shown = cut(error, longest);
  if (!shown.empty() && !root.signal) text += (text.empty() ? "" : "; ") + std::string(shown);
  const auto says = [&error](std::string_view words) { return error.find(words) != std::string::npos; };
  const bool shm = root.signal == SIGBUS || says("Bus error") || says("unable to allocate shared memory");
  if (shm && !details.shm.empty()) text += (text.empty() ? "" : "; ") + details.shm;
  if (!text.empty()) text = " (" + text + ")";
  if (!shown.empty() && root.signal) text += ", after " + std::string(shown);
  return text;
}

bool all_workers_succeeded(const Ending& ending) {
  return !ending.workers.states.empty() && ending.workers.ends.size() == ending.workers.states.size() &&
         std::all_of(ending.workers.ends.begin(), ending.workers.ends.end(),
                     [](const auto& worker) { return worker.status_known && worker.status == 0; });
}

/// Whether the training was over when the stop came, while the launcher waited for the other nodes' ends.
bool were_done_before_stop(const Ending& ending) {
  return all_workers_succeeded(ending) && ending.stopped_at &&
         ending.workers.ends.back().when < *ending.stopped_at;
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

/// Whether the cause is probably on another node: the exception shows it, or the worker ended by ABRT, as
/// NCCL's watchdog ends a worker whose collective does not finish
/// (torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp, TORCH_NCCL_ASYNC_ERROR_HANDLING).
bool lost_peer(const RootCause& root, const std::optional<supervise::NodeNumbers>& numbers) {
  if (!numbers || numbers->nodes < 2) return false;
  return root.signal == SIGABRT || (root.error != nullptr && is_error_of_lost_peer(root.error->message));
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

/// " on node 1 of 2"
std::string on_node(const std::optional<supervise::NodeNumbers>& numbers) {
  if (!numbers || numbers->nodes < 2) return {};
  return fmt::format(" on node {} of {}", numbers->node_rank, numbers->nodes);
}

/// Whether torchrun could not start its workers again because the node that hosts the rendezvous is gone.
bool lost_host(const Ending& ending, const Details& details) {
  return is_error_of_lost_host(details.agent.message) && launcher_failed(ending, details);
}

/// Whether torchrun gave up its rendezvous before its first worker, or lost the node that hosted it, which
/// may have given up first.
bool never_met(const Ending& ending, const RootCause& root) {
  if (ending.workers.attempts != 0 || root.error == nullptr) return false;
  const std::string& message = root.error->message;
  return is_error_of_lost_peer(message) || is_error_of_no_meeting(message);
}

/// Judges by torchrun's workers, because torchrun's exit code says nothing about them.
void judge_workers(const Ending& ending, const Details& details,
                   const std::optional<supervise::NodeNumbers>& numbers, bool by_torchrun, Verdict& verdict) {
  if (verdict.code == 0 && !ending.stop_signal) return;
  verdict.root = failed_worker(ending, details);
  if (verdict.root) {
    RootCause& root = *verdict.root;
    const bool host_is_lost = lost_host(ending, details);
    root.lost_peer = host_is_lost || lost_peer(root, numbers);
    verdict.code = root.code;
    const std::string end = end_of(root);
    const std::string point = point_of_victim(root, host_is_lost);
    const std::string after = " after " + hours_and_minutes(ending.ran);
    const std::string first = fmt::format("{} failed first{}: it {}", name_of(root), on_node(numbers), end);
    const std::string why = explanation(root, details);
    if (!point.empty()) {
      verdict.sentence = point + name_of(root) + on_node(numbers) + " " + end + after + why;
    } else if (by_torchrun) {
      verdict.sentence = first + why + "; " + verdict.sentence;
    } else {  // its end is the end of all
      verdict.sentence = first + after + why;
    }
    if ((!point.empty() || !by_torchrun) && !ending.did_not_stop.empty())
      verdict.sentence += "; " + ending.did_not_stop;
  } else if (ending.stop_signal && were_done_before_stop(ending)) {
    verdict.code = 0;
    verdict.cause = Cause::none;
    if (by_torchrun) verdict.sentence = "all workers had already ended with code 0; " + verdict.sentence;
  } else if (ending.stop_signal) {
    verdict.code = exit_code::signal_base + *ending.stop_signal;
    if (by_torchrun && all_workers_succeeded(ending))
      verdict.sentence = "all workers then ended with code 0; " + verdict.sentence;
  }
}

/// The command itself, with no worker to name, is the cause of its end.
void judge_command(const Ending& ending, const Details& details,
                   const std::optional<supervise::NodeNumbers>& numbers, bool launcher, Verdict& verdict) {
  RootCause& root = verdict.root.emplace(failed_command(ending, verdict, launcher, details));
  root.lost_peer = lost_peer(root, numbers);
  verdict.sentence = point_of_victim(root, false) + verdict.sentence + explanation(root, details);
  if (launcher && !ending.workers.ends.empty() && launcher_failed(ending, details))
    verdict.sentence += "; it ended its workers itself";
}

/// A command that ended with 0 hides the failure of a torchrun in it.
void tell_hidden(const Details& details, bool strict, Verdict& verdict) {
  verdict.root = told(*details.told_by_torchrun, details);
  verdict.sentence +=
      fmt::format(", although {} of a torchrun in it had failed: it {}{}", name_of(*verdict.root),
                  end_of(*verdict.root), strict ? "; --strict makes that the exit code" : "");
  if (strict) verdict.code = verdict.root->code;
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
  if (ending.killed_by_us && !remains) {
    text += ending.number == SIGABRT ? ", by which rankshim asked for stacks, because of what had not stopped"
            : ending.workers.never_met ? ", killed by rankshim"
            : several                  ? ", killed by rankshim because they had not stopped"
                                       : ", killed by rankshim because it had not stopped";
  }
  if (ending.stop_signal)
    text += "; " + supervise::signal_name(*ending.stop_signal) + " had asked " + (several ? "them" : "it") +
            " to stop";
  return text;
}

/// "; 2 of 3 processes that it left behind had to be killed"
std::string leftovers_in_words(const Ending& ending) {
  const bool killed = ending.leftovers_killed != 0, one = ending.leftovers == 1;
  if (!killed && ending.leftovers == 0) return {};
  if (one)
    return fmt::format("; a process that it left behind {}", killed ? "had to be killed" : "was stopped");
  if (killed)
    return fmt::format("; {} of {} processes that it left behind had to be killed", ending.leftovers_killed,
                       ending.leftovers);
  return fmt::format("; {} processes that it left behind were stopped", ending.leftovers);
}

/// The run ended for a reason that only rankshim knows.
void give_reason(Verdict& verdict, int code, Cause cause, Anchor anchor, const std::string& reason) {
  verdict.code = code;
  verdict.cause = cause;
  verdict.anchor = anchor;
  verdict.failed = true;
  verdict.sentence = reason + verdict.sentence;
}

void give_reason_that_they_never_met(Verdict& verdict) {
  give_reason(verdict, exit_code::unreachable, Cause::wait, Anchor::rendezvous,
              "the other nodes did not join in time; ");
}

}  // namespace

Verdict judge(const Ending& ending, const LaunchChoice& choice, const LaunchPlan& plan,
              const Details& details, const std::optional<supervise::NodeNumbers>& numbers, bool strict) {
  const std::string& program = plan.argv.front();
  if (ending.kind == Ending::Kind::not_started) return judge_failed_start(ending, program);
  if (ending.kind == Ending::Kind::withheld) return withheld(ending, program);

  const bool launcher = choice.launches(), by_torchrun = choice.by_torchrun();
  const std::string name = by_torchrun ? std::string(plan.agent_name) : launcher ? "the workers" : program;
  const int own_code = exit_code_of(ending);
  Verdict verdict;
  verdict.code = own_code;
  verdict.sentence = end_in_words(ending, name, launcher && !by_torchrun);
  if (ending.stop_signal) verdict.cause = Cause::stopped;
  if (ending.workers.never_met) {
    give_reason_that_they_never_met(verdict);
    return verdict;
  }
  if (!ending.did_not_stop.empty()) verdict.sentence += "; " + ending.did_not_stop;
  if (launcher) judge_workers(ending, details, numbers, by_torchrun, verdict);
  if (!verdict.root && !ending.stop_signal) {
    if (own_code != 0)
      judge_command(ending, details, numbers, launcher, verdict);
    else if (!launcher && details.told_by_torchrun)
      tell_hidden(details, strict, verdict);
  }
  if (verdict.root) {
    verdict.cause = verdict.root->out_of_memory ? Cause::oom
                    : verdict.root->lost_peer   ? Cause::peer
                                                : Cause::none;
  }
  verdict.failed = verdict.code != 0 && verdict.root.has_value();
  if (verdict.root && launcher && never_met(ending, *verdict.root)) give_reason_that_they_never_met(verdict);
  verdict.sentence += leftovers_in_words(ending);
  if (ending.workers.ended_for_it)
    give_reason(verdict, exit_code::configuration, Cause::config, Anchor::trains_alone,
                ending.workers.trains_alone + ", and --strict does not allow that; ");
  if (!ending.left_behind.empty())
    verdict.sentence += "; SIGKILL did not end " + ending.left_behind + ", which waits in the kernel";
  return verdict;
}

int exit_code_of(const Verdict& verdict, const Settings& settings) {
  const auto map = settings.get<ExitMap>(Option::exit_map);
  return map ? map->apply(verdict.cause, verdict.code) : verdict.code;
}

}  // namespace rankshim
