#include "run/error_files.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>

#include "launchers/python_error.h"
#include "launchers/temporary_folder.h"
#include "node/port_holder.h"
#include "report/redact.h"

namespace rankshim::run {
namespace {

std::string error_file_of(const std::string& folder, unsigned local_rank) {
  return folder + "/" + std::to_string(local_rank) + "/error.json";
}

}  // namespace

ErrorFiles::ErrorFiles(const Run& run, const launchers::Job& job, const node::Environment& environment,
                       const launchers::OwnFolder& folder)
    : run_(run),
      job_(job),
      failure_(folder.has_site ? folder.path + "/failure.json" : std::string()),
      launchers_(job.choice.launcher->error_file(environment, folder)),
      launchers_before_(launchers_ == folder.error_file() ? "" : run.host.file(launchers_).value_or("")) {}

launchers::PythonError ErrorFiles::read(const std::string& path) const {
  node::Environment known = run_.host.environment();
  for (const auto& [name, value] : plan::user_variables(run_.settings)) known.set(name, value);
  report::Redactor redactor(known);
  const launchers::PythonError error = launchers::read_error_file(run_.host, path);
  return {redactor.message(error.message), redactor.traceback(error.traceback)};
}

outcome::Culprit ErrorFiles::failure_of(const supervise::WorkerEnd& worker, const std::string& folder) const {
  report::Details details;
  details.has_accelerators = run_.host.accelerators().has_value();
  details.memory = run_.monitor.memory().now();
  details.oom = run_.monitor.memory().oom();
  if (!folder.empty()) details.workers[worker.local_rank] = read(error_file_of(folder, worker.local_rank));
  return report::cause_of(worker, "kernel", details).culprit;
}

bool ErrorFiles::is_victims(unsigned local_rank, const std::string& folder) const {
  if (folder.empty() || local_rank >= job_.topology.workers()) return false;
  return launchers::is_error_of_lost_peer(read(error_file_of(folder, local_rank)).message);
}

bool ErrorFiles::has_timed_out() const {
  if (launchers_.empty() || run_.host.file(launchers_).value_or("") == launchers_before_) return false;
  const std::string message = read(launchers_).message;
  return launchers::is_error_of_lost_peer(message) && launchers::is_error_of_timeout(message);
}

report::Details ErrorFiles::gather(const supervise::ExitRecord& record, bool is_unused) const {
  report::Details details;
  details.host = run_.host.host_name();
  details.memory = run_.monitor.memory().now();
  if (!failure_.empty() && !is_unused)
    details.told_by_torchrun = launchers::read_failure(run_.host, failure_);
  if (details.told_by_torchrun) run_.monitor.ended(details.told_by_torchrun->pid, std::nullopt);
  details.oom = run_.monitor.memory().oom();
  const bool well = record.kind == supervise::ExitRecord::Kind::exited && record.number == 0;
  if (well && !details.told_by_torchrun) return details;
  details.has_accelerators = run_.host.accelerators().has_value();
  if (!record.workers.error_folder.empty()) {
    for (unsigned worker = 0; worker < job_.topology.workers(); ++worker)
      details.workers[worker] = read(error_file_of(record.workers.error_folder, worker));
  }
  const bool reads_launchers = !launchers_.empty() && !record.stop;
  details.agent_writes_error = job_.choice.launcher->shows_own_failure(reads_launchers);
  if (reads_launchers && run_.host.file(launchers_).value_or("") != launchers_before_)
    details.agent = read(launchers_);
  details.shm = node::describe_shm();
  const auto lacks_port = [](const auto& worker) {
    return launchers::is_error_of_busy_port(worker.second.message);
  };
  const topology::Master* const master = job_.topology.master();
  if (master != nullptr && (launchers::is_error_of_busy_port(details.agent.message) ||
                            std::ranges::any_of(details.workers, lacks_port)))
    if (const std::string holder = node::holder_of_port(master->port); !holder.empty())
      details.port_holder = fmt::format("port {} is held by {}", master->port, holder);
  return details;
}

}  // namespace rankshim::run
