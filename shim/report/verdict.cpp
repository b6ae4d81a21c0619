#include "report/verdict.h"

#include <spdlog/fmt/fmt.h>

#include <cerrno>
#include <cstring>

#include "exit_code.h"

namespace rankshim {
namespace {

using supervise::Ending;

std::string duration(std::chrono::milliseconds time) {
  const auto seconds = static_cast<double>(time.count()) / 1000.0;
  if (seconds < 60) return fmt::format("{:.1f} s", seconds);
  const auto whole = time.count() / 1000;
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
}

Verdict not_started(const Ending& ending, const std::string& program) {
  Verdict verdict;
  verdict.failed = true;
  const char* reason = std::strerror(ending.number);
  if (ending.failed_call != "execve") {
    verdict.code = exit_code::system;
    verdict.sentence = fmt::format("the system refused to start {}: {}: {}", program, ending.failed_call, reason);
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

}  // namespace

Verdict judge(const Ending& ending, const LaunchPlan& plan) {
  const std::string& program = plan.argv.front();
  if (ending.kind == Ending::Kind::not_started) return not_started(ending, program);

  Verdict verdict;
  const bool signalled = ending.kind == Ending::Kind::signalled;
  verdict.code = signalled ? exit_code::signal_base + ending.number : ending.number;
  const std::string name = plan.launcher == Launcher::none ? program : "torchrun";
  verdict.sentence = signalled ? fmt::format("{} was ended by {} after {}", name, supervise::signal_name(ending.number),
                                             duration(ending.ran))
                               : fmt::format("{} ended with code {} after {}", name, ending.number, duration(ending.ran));
  if (ending.killed_by_us) verdict.sentence += ", killed by rankshim as it had not stopped";
  if (ending.stop_signal) {
    verdict.cause = Cause::stopped;
    verdict.sentence += fmt::format("; {} had asked it to stop", supervise::signal_name(*ending.stop_signal));
    if (plan.launcher != Launcher::none && verdict.code != 0) verdict.code = exit_code::signal_base + *ending.stop_signal;
  }
  verdict.failed = verdict.code != 0 && !ending.stop_signal;
  if (ending.leftovers_killed != 0) {
    verdict.sentence += fmt::format("; {} of {} processes that it left behind had to be killed", ending.leftovers_killed,
                                    ending.leftovers);
  } else if (ending.leftovers != 0) {
    verdict.sentence += fmt::format("; {} processes that it left behind were stopped", ending.leftovers);
  }
  return verdict;
}

}  // namespace rankshim
