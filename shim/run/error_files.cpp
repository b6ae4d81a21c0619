#include "run/error_files.h"

#include "launchers/torchrun/temporary_folder.h"
#include "report/redact.h"

namespace rankshim {
namespace {

/// rankshim's folder is new, so it has no such file yet.
bool is_in(const OwnFolder& folder, const std::string& launchers) {
  return !folder.path.empty() && launchers == agent_error_file(folder.path);
}

}  // namespace

ErrorFiles::ErrorFiles(const Run& run, const Job& job, const LaunchPlan& plan, const OwnFolder& folder)
    : run_(run),
      job_(job),
      failure_(folder.has_site ? folder.path + "/failure.json" : std::string()),
      launchers_(find_agent_error_file(job.choice, plan, run.node, folder)),
      launchers_before_(is_in(folder, launchers_) ? FileState{} : state_of(launchers_)) {}

Details ErrorFiles::gather(const supervise::Ending& ending) const {
  Details details;
  details.memory = run_.monitor.memory();
  if (!failure_.empty()) details.told_by_torchrun = read_failure(run_.node, failure_);
  if (ending.kind == supervise::Ending::Kind::exited && ending.number == 0) return details;
  Environment known = run_.node.environment();
  for (const auto& [name, value] : user_variables(run_.settings)) known.set(name, value);
  Redactor redactor(known);
  const auto read = [&](const std::string& path) {
    const PythonError error = read_error_file(run_.node, path);
    return PythonError{redactor.message(error.message), redactor.traceback(error.traceback)};
  };
  if (!ending.workers.error_folder.empty()) {
    for (unsigned worker = 0; worker < job_.topology.workers(); ++worker)
      details.workers.push_back(
          read(ending.workers.error_folder + "/" + std::to_string(worker) + "/error.json"));
  }
  if (job_.choice.launcher == LauncherKind::native)
    details.agent_writes_error = true;  // there is none that could fail
  if (!launchers_.empty() && !ending.stop_signal) {
    details.agent_writes_error = job_.choice.launcher == LauncherKind::torchrun;
    if (state_of(launchers_) != launchers_before_) details.agent = read(launchers_);
  }
  details.shm = describe_shm();
  return details;
}

}  // namespace rankshim
