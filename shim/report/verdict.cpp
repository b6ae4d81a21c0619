#include "report/verdict.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <ranges>

#include "base/fault.h"
#include "base/text.h"
#include "launchers/python_error.h"
#include "outcome/hang.h"
#include "outcome/judge.h"
#include "report/wording.h"
#include "settings/settings.h"

namespace rankshim::report {
namespace {

using outcome::Cause;
using outcome::Culprit;
using supervise::ExitRecord;

// ---- one process ----

/// Whether the process ended because its child was killed: a shell's exit code shows it, or the exception.
bool says_child_was_killed(const RootCause& root) {
  constexpr auto texts = std::to_array<std::string_view>({
      "killed by signal: Killed",           // torch/utils/data/_utils/signal_handling.py
      "died with <Signals.SIGKILL: 9>",     // CPython's Lib/subprocess.py, CalledProcessError
      "returned non-zero exit status 137",  // the same, for a shell
      "was terminated abruptly while",      // Lib/concurrent/futures/process.py, BrokenProcessPool
      "terminated with signal SIGKILL",     // torch/multiprocessing/spawn.py, ProcessExitedException
  });
  const std::string_view message = root.error == nullptr ? std::string_view() : root.error->message;
  return root.culprit.code == exit_code::signal_base + SIGKILL ||
         std::ranges::any_of(texts, [&](auto text) { return message.find(text) != message.npos; });
}

/// Whether the error explains the end: a script may have caught a sys.exit, and ended in some other way.
bool explains(const launchers::PythonError& error, const Culprit& culprit) {
  if (!launchers::is_exit(error.message)) return !error.message.empty();
  const auto code = launchers::code_of_exit(error.message);
  return code && !culprit.signal && (*code & 0xFF) == culprit.code;  // exit(3) keeps 8 bits
}

/// Whether the kernel killed the process, or a child of it, at the memory limit.
bool is_out_of_memory(const RootCause& root, const Details& details) {
  const auto evidence = details.oom.find(root.pid);
  if (evidence == details.oom.end()) return false;
  if (root.culprit.signal == SIGKILL) return evidence->second.own;
  return evidence->second.of_child && says_child_was_killed(root);
}

/// Whether it ended like a worker that lost its peer. Its exception shows that, or SIGABRT, with which NCCL's
/// watchdog aborts a worker whose collective does not finish
/// (torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp, TORCH_NCCL_ASYNC_ERROR_HANDLING). Without accelerators
/// there is no NCCL, and gloo has no watchdog.
bool has_lost_peer(const RootCause& root, const Details& details) {
  return (root.culprit.signal == SIGABRT && details.has_accelerators) ||
         (root.error != nullptr && launchers::is_error_of_lost_peer(root.error->message));
}

/// Why a process ended, if not because of a peer elsewhere.
Cause own_cause(const RootCause& root) {
  const std::string error =
      root.error == nullptr ? std::string() : launchers::in_plain_words(root.error->message);
  if (!error.empty() && !launchers::is_error_of_child(error) && !launchers::is_exit(error))
    return Cause::exception;
  return root.culprit.signal ? Cause::signalled : Cause::exited;
}

Cause find_cause(const RootCause& root, const Details& details) {
  if (is_out_of_memory(root, details)) return Cause::out_of_memory;
  if (!has_lost_peer(root, details)) return own_cause(root);
  const bool timed_out = root.error != nullptr && launchers::is_error_of_timeout(root.error->message);
  return timed_out ? Cause::timed_out : Cause::peer_lost;
}

/// The last frame of a traceback: "File "/app/train.py", line 7, in main"; empty if it has none.
std::string last_frame(std::string_view traceback) {
  std::string_view last;
  while (!traceback.empty())
    if (const std::string_view line = trimmed(next_line(traceback)); line.starts_with("File \"")) last = line;
  return std::string(last);
}

/// The address of the peer that the process's exception names.
std::string peer_address(const RootCause& root) {
  if (root.error == nullptr) return {};
  const std::string_view peer = launchers::peer_in(root.error->message);
  const std::string_view host = split_host_port(peer).first;
  return printable(host.empty() ? peer : host);
}

/// The timeout of the process group in milliseconds, if the exception gives it: gloo's "Timed out waiting
/// 1800000ms for recv operation", NCCL's "Timeout(ms)=600000".
std::optional<std::uint32_t> timeout_in(std::string_view exception) {
  for (const std::string_view words : {"Timed out waiting ", "Timeout(ms)="})
    if (const std::size_t at = exception.find(words); at != exception.npos)
      return first_number<std::uint32_t>(exception.substr(at + words.size()));
  return std::nullopt;
}

/// The Python function for an operation, from its name in torch's C++
/// (pytorch:torch/csrc/distributed/c10d/ProcessGroup.cpp, opTypeToString()).
std::string function_of(std::string_view type) {
  constexpr auto functions = std::to_array<std::pair<std::string_view, std::string_view>>({
      {"ALLREDUCE", "all_reduce"},
      {"ALLGATHER", "all_gather"},
      {"_ALLGATHER_BASE", "all_gather_into_tensor"},
      {"_REDUCE_SCATTER_BASE", "reduce_scatter_tensor"},
      {"ALLTOALL", "all_to_all"},
      {"ALLTOALL_BASE", "all_to_all_single"},
  });
  const auto found = std::ranges::find(functions, type, [](const auto& one) { return one.first; });
  return found != functions.end() ? std::string(found->second) : lower_case(printable(type));
}

/// Adds the collective that NCCL's watchdog names: "WorkNCCL(SeqNum=26, OpType=ALLREDUCE, NumelIn=1, …",
/// before torch 1.11 "WorkNCCL(OpType=ALLREDUCE, …"
/// (pytorch:torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp, operator<< of WorkNCCL).
void add_collective(outcome::Hang& hang, std::string_view exception) {
  if (split_next(exception, "WorkNCCL("); exception.empty()) return;
  const std::string_view work = split_next(exception, ")");  // of "Timeout(ms)"
  hang.number = first_number<std::uint64_t>(text_after(work, "SeqNum=", ", ")).value_or(0);
  hang.operation = function_of(text_after(work, "OpType=", ", "));
}

/// Where a victim waited, according to its traceback.
std::optional<outcome::Hang> wait_of(const RootCause& root) {
  if (root.error == nullptr) return std::nullopt;
  const auto stack = outcome::frames_of_traceback(launchers::traceback_of_loss(root.error->traceback));
  if (stack.empty()) return std::nullopt;
  outcome::Hang hang;
  hang.waits_at = outcome::place_of({.stack = stack});
  hang.timeout = timeout_in(root.error->message);
  add_collective(hang, root.error->message);
  return hang;
}

/// The rank whose collective differs from this worker's, according to torch. Empty unless the numbers are the
/// job's, as far as this worker's own shows.
std::vector<outcome::RankRange> rank_that_differs(const RootCause& root) {
  const auto ranks = root.error == nullptr ? std::nullopt : launchers::ranks_that_differ(root.error->message);
  if (!ranks || ranks->first != root.culprit.rank) return {};
  return {{ranks->second, ranks->second}};
}

void set_cause(RootCause& root, Cause cause, const Details& details) {
  Culprit& culprit = root.culprit;
  culprit.cause = cause;
  culprit.peer = is_victim(cause) ? peer_address(root) : "";
  culprit.hang = is_victim(cause) ? wait_of(root) : std::nullopt;
  culprit.ranks = cause == Cause::exception ? rank_that_differs(root) : std::vector<outcome::RankRange>();
  culprit.frame = cause == Cause::exception ? last_frame(root.error->traceback) : "";
  culprit.text = wording::why(root, details);
}

/// Adds the exception that the process left, and determines why it ended.
void add_evidence(RootCause& root, const launchers::PythonError* error, const Details& details) {
  if (error != nullptr && explains(*error, root.culprit)) root.error = error;
  set_cause(root, find_cause(root, details), details);
}

// ---- this node ----

/// Whether the launcher itself failed and ended its workers, as it does when its rendezvous' store is gone.
/// It then writes an exception that is not a copy of a worker's (torch/distributed/elastic/multiprocessing/
/// errors, record). If it could not write one, the sign is that all workers were killed by a TERM that
/// rankshim did not send.
bool launcher_failed(const ExitRecord& record, const Details& details) {
  const std::string& message = details.agent.message;
  if (message.empty() || launchers::is_exit(message))
    return !details.agent_writes_error && record.workers.all_ended_with(SIGTERM);
  return std::ranges::none_of(details.workers,
                              [&](const auto& worker) { return worker.second.message == message; });
}

/// Whether it ended like a worker that the launcher stopped: by TERM, or by KILL 30 s later.
bool ended_by_launcher(const RootCause& root) {
  const int code = root.culprit.code;
  return root.error == nullptr && root.culprit.cause != Cause::out_of_memory &&
         (code == exit_code::signal_base + SIGTERM || code == exit_code::signal_base + SIGKILL);
}

/// What is known of a worker's failure; nullopt if it succeeded, as far as is known.
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
  const auto code = static_cast<int>(launchers::code_of_exit(error->second.message).value_or(1) & 0xFF);
  worker.status = code << 8;
  const RootCause root = cause_of(worker, "error file", details);
  return root.error == nullptr || code == 0 ? std::nullopt : std::optional(root);
}

/// The first worker of the last set that failed on its own; a victim only if no other worker did, because a
/// victim may end before its culprit. Ignores workers that the agent or a stop ended, or that ended because
/// their agent was gone.
std::optional<RootCause> failed_worker(const ExitRecord& record, const Details& details) {
  if (record.kind == ExitRecord::Kind::exited && record.number == 0) return std::nullopt;
  if (record.workers.ends.empty() && !record.stop && details.told_by_torchrun)
    return cause_of(*details.told_by_torchrun, "torchrun", details);  // the kernel shows no ends
  const bool launcher_first = launcher_failed(record, details);
  std::optional<RootCause> victim;
  bool has_succeeded = false;  // a worker, before that: its end may have caused more than lost connections
  for (const supervise::WorkerEnd& worker : record.workers.ends) {
    if (record.stop && worker.when >= record.stop->when) break;
    if (record.ended_at && worker.when > *record.ended_at) break;
    std::optional<RootCause> root = failure_of(worker, details);
    has_succeeded = has_succeeded || (!victim && worker.status_known && worker.status == 0);
    if (!root || (launcher_first && ended_by_launcher(*root))) continue;
    root->when = worker.when;
    if (is_victim(root->culprit.cause)) {
      if (!victim) victim = std::move(root);
    } else if (!victim || (!has_succeeded && ended_by_itself(root->culprit))) {
      return root;
    }
  }
  return victim;
}

/// The command itself as the cause of its end, if there is no worker to name; nullopt if it succeeded or was
/// stopped.
std::optional<RootCause> failed_command(const ExitRecord& record, const Details& details, bool launches,
                                        const std::string& name) {
  const int code = exit_code_of(record);
  if (code == 0 || record.stop) return std::nullopt;
  RootCause root{.culprit = {.program = name.empty() ? "the workers" : name,
                             .code = code,
                             .after = static_cast<std::uint32_t>(record.ran.count())},
                 .who = launches ? RootCause::Who::launcher : RootCause::Who::program,
                 .pid = record.pid,
                 .source = "kernel",
                 .when = record.ended_at};
  if (record.kind == ExitRecord::Kind::signalled) root.culprit.signal = record.number;
  add_evidence(root, &details.agent, details);
  if (root.culprit.cause == Cause::out_of_memory && record.killed_by_us)
    set_cause(root, own_cause(root), details);
  return root;
}

/// The first failed worker of a torchrun inside the command. The command's own code counts.
RootCause failed_inner_worker(const Details& details) {
  RootCause root = cause_of(*details.told_by_torchrun, "torchrun", details);
  root.is_inner = true;
  // The error file has a copy of that worker's error, or the error of whatever started the torchrun.
  if (!launchers::is_error_of_child(details.agent.message)) add_evidence(root, &details.agent, details);
  return root;
}

/// How the command itself ended. `name` is empty if rankshim started the workers itself.
CommandEnd command_end(const ExitRecord& record, std::string name) {
  const bool all = record.workers.all_ended_with(0);
  CommandEnd command{.name = std::move(name),
                     .code = exit_code_of(record),
                     .ran = record.ran,
                     .stop = record.stop ? std::optional(record.stop->signal) : std::nullopt,
                     .remains = !record.ended_at && !record.left_behind.empty()};
  if (record.kind == ExitRecord::Kind::signalled) command.signal = record.number;
  command.stopped_for_stacks = record.killed_by_us && record.number == SIGABRT && !command.remains;
  command.killed_by_us = record.killed_by_us && !command.stopped_for_stacks && !command.remains;
  command.workers_succeeded = all && !command.name.empty();
  command.workers_succeeded_before =
      all && record.stop && record.workers.ends.back().when < record.stop->when;
  return command;
}

/// Adds the workers of a launcher that the command started, whose ends are unknown: those that had failed
/// when all were looked at, and those that their launcher then ended.
void add_seen_workers(outcome::NodeEvidence& node, const Details& details) {
  for (const auto& [local_rank, look] : details.looks) {
    const bool suffered = contains(details.suffered, local_rank) || look.rank == node.failure->rank;
    node.workers.push_back({.rank = look.rank,
                            .code = suffered ? node.failure->code : exit_code::signal_base + SIGTERM,
                            .ended = node.failed,
                            .look = look});
  }
}

/// Who is to blame among the workers of this node, if one of them only lost another.
std::optional<Culprit> judge_workers(const ExitRecord& record, const RootCause& root,
                                     const Details& details) {
  outcome::NodeEvidence node{.failure = root.culprit, .failed = root.when.value_or(record.started_at)};
  if (!node.failure->rank) node.failure->rank = root.local_rank;
  const auto look_at = [&](unsigned local_rank) {
    const auto found = details.looks.find(local_rank);
    return found == details.looks.end() ? std::nullopt : std::optional(found->second);
  };
  for (const supervise::WorkerEnd& worker : record.workers.ends) {
    if (!worker.status_known) continue;
    const auto end = failure_of(worker, details);
    const bool is_loss = end && is_victim(end->culprit.cause);
    if (is_loss && end->culprit.cause == Cause::timed_out) node.failure->cause = Cause::timed_out;
    node.workers.push_back({.rank = worker.rank.value_or(worker.local_rank),
                            .code = supervise::exit_code_of_status(worker.status),
                            .ended = worker.when,
                            .look = look_at(worker.local_rank),
                            .waited = is_loss ? end->culprit.hang : std::nullopt});
  }
  for (const supervise::WorkerState& worker : record.workers.states)
    if (!worker.ended)
      node.workers.push_back(
          {.rank = worker.rank.value_or(worker.local_rank), .look = look_at(worker.local_rank)});
  if (node.workers.empty()) add_seen_workers(node, details);
  const auto launched = record.workers.first_at.value_or(record.started_at);
  const auto culprit = outcome::judge({.nodes = {std::move(node)}, .launched = launched});
  const bool is_found = culprit && !is_victim(culprit->cause);
  return is_found ? culprit : std::nullopt;
}

/// Whether another worker of this node has entered a collective that this one has not.
bool is_behind(const outcome::WorkerLook& look, const Details& details) {
  return std::ranges::any_of(details.looks | std::views::values, [&](const outcome::WorkerLook& other) {
    return outcome::is_behind(look, other);
  });
}

/// Whether this node's workers alone prove that these hang, without knowing who waits on other nodes.
bool is_sure_without_others(const Culprit& culprit, const Details& details) {
  if (!culprit.hang || culprit.ranks.empty()) return false;
  if (culprit.hang->kind == outcome::HangKind::stopped) return true;
  return std::ranges::all_of(details.looks | std::views::values, [&](const outcome::WorkerLook& look) {
    const bool is_to_blame = std::ranges::any_of(
        culprit.ranks, [&](const outcome::RankRange& range) { return range.contains(look.rank); });
    return !is_to_blame || is_behind(look, details);
  });
}

/// What failed first on this node; nullopt if nothing did.
std::optional<RootCause> find_root(const ExitRecord& record, bool launches, const Details& details,
                                   const std::string& name) {
  if (launches) {
    if (auto worker = failed_worker(record, details)) return worker;
  } else if (!record.stop && details.told_by_torchrun) {
    return failed_inner_worker(details);
  }
  return failed_command(record, details, launches, name);
}

/// Judges a failure on this node. A worker that lost a peer is a victim only if there can be a culprit, on
/// another node or beside it. Linked nodes are judged together.
void judge_failure(Verdict& verdict, const ExitRecord& record, const Details& details, bool links,
                   bool strict) {
  RootCause& root = *verdict.root;
  const bool is_own_worker = root.local_rank && !root.is_inner;
  // torchrun could not restart its workers, because the node that hosts the rendezvous is gone.
  if (is_own_worker && launchers::is_error_of_lost_host(details.agent.message) &&
      launcher_failed(record, details)) {
    set_cause(root, Cause::peer_lost, details);
    verdict.notes.emplace_back(note::Remark::rendezvous_host_gone);
  }
  const bool hides = root.is_inner && verdict.code == 0;
  if (is_victim(root.culprit.cause) && root.who != RootCause::Who::launcher && !hides && !links)
    verdict.culprit = judge_workers(record, root, details);
  if (verdict.culprit && verdict.of_several) {
    verdict.culprit->node = root.culprit.node;
    verdict.culprit->host = root.culprit.host;
    if (!is_sure_without_others(*verdict.culprit, details)) verdict.culprit.reset();
  }
  if (!verdict.of_several && is_victim(root.culprit.cause)) {
    if (details.is_one_of_several) verdict.notes.emplace_back(note::Remark::other_rank_to_blame);
    set_cause(root, own_cause(root), details);  // "peer" means another node
  }
  if (hides && strict) verdict.notes.emplace_back(note::Remark::strict_code);
  if (is_own_worker || (hides && strict)) verdict.code = root.culprit.code;
  if (verdict.code != 0) verdict.cause = root.culprit.cause;
  if (verdict.culprit && verdict.culprit->cause == Cause::hang) {
    verdict.code = exit_code::hang;
    verdict.cause = Cause::hang;
    verdict.error_code = error_code_of(*verdict.culprit);
  }
  if (root.who == RootCause::Who::launcher && !record.workers.ends.empty() &&
      launcher_failed(record, details))
    verdict.notes.emplace_back(note::Remark::launcher_stopped_workers);
}

/// Judges a command that was stopped. A launcher's job is then not done, unless its workers had all succeeded
/// before, and it was only waiting for the other nodes.
void judge_stop(Verdict& verdict, const ExitRecord& record, bool launches) {
  const bool was_over = launches && verdict.command->workers_succeeded_before;
  verdict.cause = was_over ? Cause::none : Cause::stop_requested;
  if (launches) verdict.code = was_over ? 0 : exit_code::signal_base + record.stop->signal;
}

/// Sets a reason that rankshim itself knows.
void give_reason(Verdict& verdict, int code, Cause cause, ErrorCode error_code, Reason reason) {
  verdict.code = code;
  verdict.cause = cause;
  verdict.error_code = error_code;
  verdict.reason = std::move(reason);
  verdict.culprit.reset();
}

/// Whether torchrun gave up its rendezvous before its first worker, or lost the node that hosted it, which
/// may have given up first.
bool never_met(const ExitRecord& record, const RootCause& root) {
  if (record.workers.attempts != 0 || root.error == nullptr) return false;
  const std::string& message = root.error->message;
  return launchers::is_error_of_lost_peer(message) || launchers::is_error_of_no_meeting(message);
}

/// Judges a meeting that failed: the other nodes never came, and torchrun or rankshim gave up.
void judge_meeting(Verdict& verdict, const ExitRecord& record, bool launches) {
  const bool gave_up = launches && verdict.root && never_met(record, *verdict.root);
  const std::optional<outcome::Unreached>& unreached = record.workers.unreached;
  if (unreached || record.workers.never_met || gave_up)
    give_reason(verdict, exit_code::unreachable, Cause::unreachable,
                unreached ? ErrorCode::port_closed : ErrorCode::rendezvous, reason::NobodyJoined{unreached});
}

void add_notes(Verdict& verdict, const ExitRecord& record) {
  std::vector<Note>& notes = verdict.notes;
  if (record.not_stopped) notes.emplace_back(*record.not_stopped);
  if (record.leftovers != 0) notes.emplace_back(note::Leftovers{record.leftovers, record.leftovers_killed});
  if (!record.left_behind.empty()) notes.emplace_back(note::LeftBehind{record.left_behind});
}

}  // namespace

std::string_view name(RootCause::Who who) {
  static constexpr std::array<std::string_view, 3> names = {"worker", "launcher", "program"};
  return names.at(static_cast<std::size_t>(who));
}

RootCause cause_of(const supervise::WorkerEnd& worker, std::string_view source, const Details& details) {
  RootCause root{.culprit = {.rank = worker.rank,
                             .program = worker.rank ? "" : fmt::format("worker {}", worker.local_rank),
                             .code = supervise::exit_code_of_status(worker.status)},
                 .who = RootCause::Who::worker,
                 .local_rank = worker.local_rank,
                 .pid = worker.pid,
                 .source = source};
  if (WIFSIGNALED(worker.status)) root.culprit.signal = WTERMSIG(worker.status);
  const auto error = details.workers.find(worker.local_rank);
  add_evidence(root, error == details.workers.end() ? nullptr : &error->second, details);
  return root;
}

Verdict judge(const ExitRecord& record, const launchers::LaunchChoice& choice,
              const launchers::LaunchPlan& plan, const Details& details,
              const std::optional<supervise::NodeNumbers>& numbers, bool strict) {
  const std::string& program = plan.argv.front();
  Verdict verdict{.code = exit_code_of(record),
                  .of_several = numbers && numbers->nodes > 1,
                  .stopped_by = record.stopped_from_outside(ExitRecord::During::anytime)};
  if (record.kind == ExitRecord::Kind::not_started || record.kind == ExitRecord::Kind::withheld) {
    const ErrorCode error_code = verdict.code == exit_code::system ? ErrorCode::system : ErrorCode::none;
    give_reason(verdict, verdict.code, Cause::system, error_code, reason::Unseen{record, program});
    return verdict;
  }

  const launchers::Launcher& launcher = *choice.launcher;
  const bool launches = launcher.launches();
  const std::string name = launcher.command_name(plan);
  verdict.command = command_end(record, name);
  verdict.root = find_root(record, launches, details, name);
  if (verdict.root) {
    verdict.root->culprit.node = numbers ? numbers->node_rank : 0;
    verdict.root->culprit.host = details.host;
    judge_failure(verdict, record, details, choice.links, strict);
  } else if (record.stop) {
    judge_stop(verdict, record, launches);
  }
  judge_meeting(verdict, record, launches);
  verdict.lone_training = record.workers.lone_training ? record.workers.lone_training : details.lone_training;
  add_notes(verdict, record);
  if (details.hang) {
    verdict.code = exit_code::hang;
    verdict.cause = Cause::hang;
    verdict.culprit = details.hang;
    verdict.culprit->host = details.host;
    verdict.error_code = error_code_of(*details.hang);
    verdict.root.reset();
  }
  if (record.workers.stopped_for_it) {
    give_reason(verdict, exit_code::configuration, Cause::configuration, ErrorCode::trains_alone,
                reason::TrainsAlone{*record.workers.lone_training});
    verdict.lone_training.reset();
  }
  return verdict;
}

void set_stopped_for(Verdict& verdict, const link::Stop& stop) {
  verdict.code = exit_code::peer;
  verdict.cause = Cause::peer_lost;
  verdict.error_code = error_code_of(stop.culprit);
  verdict.culprit = stop.culprit;
  verdict.unreached = stop.unreached;
  verdict.others = stop.others;
  verdict.of_several = verdict.is_linked = verdict.stopped_for_culprit = true;
  verdict.root.reset();
}

void set_job_end(Verdict& verdict, const link::Stop& stop, unsigned node_rank, bool is_check) {
  const Culprit& culprit = stop.culprit;
  const bool is_here = culprit.node == node_rank || is_of_all(culprit);
  if (!is_here && !(is_check && verdict.code != 0)) {
    set_stopped_for(verdict, stop);
    verdict.stopped_for_culprit = !is_check;
    return;
  }
  verdict.culprit = culprit;
  verdict.unreached = stop.unreached;
  verdict.others = stop.others;
  verdict.of_several = true;
  if (verdict.error_code == ErrorCode::none || is_found(culprit.cause))
    verdict.error_code = error_code_of(culprit);
  if (!is_here || !is_found(culprit.cause)) return;
  verdict.cause = culprit.cause;
  verdict.code = culprit.cause == Cause::hang ? exit_code::hang : exit_code::peer;
  verdict.root.reset();
}

bool set_signal_while_waiting(Verdict& verdict, int signal, const std::optional<link::Stop>& stop) {
  const bool starts_again = verdict.stopped_for_culprit && stop->again;
  if (!starts_again && (stop || verdict.cause == Cause::stop_requested)) return false;
  verdict.stopped_by = signal;
  verdict.notes.emplace_back(note::SignalWhileWaiting{signal});
  if (!starts_again && verdict.code != 0) return false;
  verdict.code = exit_code::signal_base + signal;
  verdict.cause = Cause::stop_requested;
  verdict.error_code = ErrorCode::none;
  verdict.root.reset();
  return true;
}

ErrorCode error_code_of(const Culprit& culprit) {
  if (culprit.cause == Cause::stop_requested) return ErrorCode::node_stopped;
  if (culprit.cause == Cause::node_lost) return ErrorCode::node_lost;
  if (culprit.cause != Cause::hang) return ErrorCode::node_failed;
  using outcome::HangKind;
  switch (culprit.hang ? culprit.hang->kind : HangKind::missing) {
    case HangKind::mismatch:
    case HangKind::order:
      return ErrorCode::collectives_differ;
    case HangKind::store:
      return ErrorCode::store_silent;
    case HangKind::nobody_missing:
      return ErrorCode::nobody_missing;
    default:
      return ErrorCode::hang;
  }
}

Culprit culprit_of(const Verdict& verdict) {
  if (verdict.cause == Cause::stop_requested)
    return {.cause = verdict.cause,
            .code = verdict.code,
            .signal = verdict.command ? verdict.command->stop : std::nullopt};
  if (verdict.culprit && !verdict.stopped_for_culprit) return *verdict.culprit;
  if (verdict.root && !verdict.reason) return verdict.root->culprit;
  return {.cause = verdict.cause,
          .code = verdict.code,
          .text = verdict.reason ? wording::in_words(*verdict.reason) : ""};
}

int exit_code_of(const Verdict& verdict, const settings::Settings& settings) {
  const auto map = settings.get<settings::ExitMap>(settings::Option::exit_map);
  return map ? map->apply(verdict.cause, verdict.code) : verdict.code;
}

}  // namespace rankshim::report
