#include "report/verdict.h"

#include <spdlog/fmt/fmt.h>

#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "exit_code.h"

namespace rankshim {
namespace {

using supervise::Ending;

std::string duration(std::chrono::milliseconds time) {
  const auto whole = time.count() / 1000;
  if (whole < 60) return fmt::format("{}.{} s", whole, time.count() % 1000 / 100);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
}

Verdict not_started(const Ending& ending, const std::string& program) {
  Verdict verdict;
  verdict.failed = true;
  const char* reason = std::strerror(ending.number);
  if (ending.failed_call != "execve") {
    verdict.code = exit_code::system;
    verdict.sentence =
        fmt::format("the system refused to start {}: {}: {}", program, ending.failed_call, reason);
  } else if (ending.number == ENOENT || ending.number == ENOTDIR) {
    verdict.code = exit_code::not_found;
    verdict.sentence = fmt::format("{} was not found: {}", program, reason);
  } else if (ending.number == ENOMEM || ending.number == EMFILE || ending.number == ENFILE) {
    verdict.code = exit_code::system;
    verdict.sentence = fmt::format("the system refused to start {}: {}", program, reason);
  } else {
    verdict.code = exit_code::not_executable;
    verdict.sentence = fmt::format("{} cannot be executed: {}", program, reason);
  }
  return verdict;
}

/// The code that a wait status means, in the shell's convention.
int code_of(int status) {
  return WIFSIGNALED(status) ? exit_code::signal_base + WTERMSIG(status) : WEXITSTATUS(status);
}

std::string end_of(int status) {
  return WIFSIGNALED(status) ? fmt::format("was ended by {}", supervise::signal_name(WTERMSIG(status)))
                             : fmt::format("ended with code {}", WEXITSTATUS(status));
}

/// The first worker of the last attempt that failed by itself: what the agent ends after that, and what a
/// stop ends, comes later.
const supervise::WorkerEnd* root_cause(const Ending& ending) {
  const bool command_failed = ending.kind == Ending::Kind::signalled || ending.number != 0;
  for (const supervise::WorkerEnd& worker : ending.workers) {
    if (ending.stopped_at && worker.when >= *ending.stopped_at) return nullptr;
    if (command_failed && worker.status_known && worker.status != 0) return &worker;
  }
  return nullptr;
}

bool all_workers_succeeded(const Ending& ending) {
  return ending.workers_seen != 0 && ending.workers.size() == ending.workers_seen &&
         std::all_of(ending.workers.begin(), ending.workers.end(),
                     [](const auto& worker) { return worker.status_known && worker.status == 0; });
}

/// What torchrun's workers say, where its own code says nothing.
void judge_workers(const Ending& ending, Verdict& verdict) {
  if (verdict.code == 0) return;
  if (const supervise::WorkerEnd* worker = root_cause(ending)) {
    verdict.code = code_of(worker->status);
    verdict.sentence = fmt::format("worker {} (pid {}) failed first: it {}; {}", worker->local_rank,
                                   worker->pid, end_of(worker->status), verdict.sentence);
  } else if (ending.stop_signal && all_workers_succeeded(ending)) {
    verdict.code = 0;
    verdict.sentence = fmt::format("all workers ended with code 0; {}", verdict.sentence);
  } else if (ending.stop_signal) {
    verdict.code = exit_code::signal_base + *ending.stop_signal;
  }
}

}  // namespace

Verdict judge(const Ending& ending, const LaunchPlan& plan) {
  const std::string& program = plan.argv.front();
  if (ending.kind == Ending::Kind::not_started) return not_started(ending, program);

  Verdict verdict;
  const bool signalled = ending.kind == Ending::Kind::signalled;
  const std::string after = duration(ending.ran);
  const std::string name = plan.launcher == Launcher::none ? program : "torchrun";
  verdict.code = signalled ? exit_code::signal_base + ending.number : ending.number;
  verdict.sentence = signalled ? fmt::format("{} was ended by {} after {}", name,
                                             supervise::signal_name(ending.number), after)
                               : fmt::format("{} ended with code {} after {}", name, ending.number, after);
  if (ending.killed_by_us) verdict.sentence += ", killed by rankshim as it had not stopped";
  if (ending.stop_signal) {
    verdict.cause = Cause::stopped;
    verdict.sentence += fmt::format("; {} had asked it to stop", supervise::signal_name(*ending.stop_signal));
  }
  if (plan.launcher != Launcher::none) judge_workers(ending, verdict);
  verdict.failed = verdict.code != 0 && (!ending.stop_signal || root_cause(ending) != nullptr);
  if (ending.leftovers_killed != 0) {
    verdict.sentence += fmt::format("; {} of {} processes that it left behind had to be killed",
                                    ending.leftovers_killed, ending.leftovers);
  } else if (ending.leftovers != 0) {
    verdict.sentence += fmt::format("; {} processes that it left behind were stopped", ending.leftovers);
  }
  return verdict;
}

}  // namespace rankshim
