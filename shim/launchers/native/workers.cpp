#include "launchers/native/workers.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <utility>

#include "base/log.h"
#include "supervise/ending.h"

namespace rankshim::native {

using supervise::Command;
using supervise::WorkerState;

namespace {

/// Another port for a job on one machine that is started again, so that no worker meets the store of the
/// attempt before. If the master is not on loopback, the port stays: other nodes may have opened only this
/// one (a Service), and the store that used it is gone with its worker.
std::uint16_t port_of_attempt(const StaticJob& job, const Node& node) {
  if (job.attempt == 0 || job.node.nodes > 1 || !is_loopback(job.master.host)) return job.master.port;
  constexpr unsigned tries = 100;
  const unsigned first = job.master.port + job.attempt;
  for (unsigned port = first; port < first + tries && port <= UINT16_MAX; ++port)
    if (node.take_port(static_cast<std::uint16_t>(port))) return static_cast<std::uint16_t>(port);
  return job.master.port;
}

}  // namespace

std::string make_log_folder(const std::string& log_dir, std::string_view run_id) {
  std::string path = log_folder_template(log_dir, run_id);
  if (mkdtemp(path.data()) != nullptr) return path;
  log::warn(
      "cannot make a folder in {} ({}): the workers' output comes here, and their exceptions will not be "
      "known",
      log_dir, std::strerror(errno));
  return {};
}

Workers::Workers(boost::asio::io_context& io, const Topology& topology, const Settings& settings,
                 std::string folder, const Node& node, unsigned attempt)
    : io_(io),
      settings_(settings),
      node_(node),
      job_(static_job(topology, settings)),
      folder_(std::move(folder)),
      to_files_(!settings.text(Option::log_dir).empty()),
      tee_(settings.flag(Option::tee)),
      prefix_(settings.flag(Option::prefix)) {
  record_.followed = true;
  job_.attempt = attempt;
  job_.master.port = port_of_attempt(job_, node);
}

std::vector<Command> Workers::workers_to_start(const Command& command) {
  record_.attempts = job_.attempt + 1;
  record_.error_folder =
      folder_.empty() ? std::string() : folder_ + "/attempt_" + std::to_string(job_.attempt);
  if (tee_ || prefix_) relay_ = std::make_unique<Relay>(io_, STDOUT_FILENO, STDERR_FILENO);
  const std::string& folder = record_.error_folder;
  bool made = !folder.empty() && mkdir(folder.c_str(), 0700) == 0;
  std::vector<Command> commands;
  std::string bound;
  log::Level level = log::Level::info;
  for (unsigned local_rank = 0; local_rank < job_.node.workers; ++local_rank) {
    const std::string own = worker_folder(folder_, job_.attempt, local_rank);
    made = made && mkdir(own.c_str(), 0700) == 0;
    EnvironmentChange change{worker_variables(job_, local_rank, made ? error_file(own) : std::string()), {}};
    change.set.emplace(change.set.begin(), "MASTER_PORT", std::to_string(job_.master.port));
    Environment environment = change.apply(Environment(command.environment));
    NearAccelerator near;
    if (job_.binds) {
      near = near_accelerator(node_, environment, local_rank);
      if (!near.affinity) level = log::Level::warn;
      bound += fmt::format("{} {}: {}", bound.empty() ? ':' : ';', local_rank, near.text);
    }
    commands.push_back({.argv = filled_in(command.argv, placeholders_of(job_, local_rank)),
                        .environment = std::move(environment).entries(),
                        .affinity = near.affinity,
                        .open_files = command.open_files});
    commands.back().output = open_output(made ? own : std::string(), job_.node.first_rank() + local_rank);
  }
  if (!made && !folder.empty())
    log::warn("cannot make a folder in {} ({}): the workers' exceptions will not be known", folder_,
              std::strerror(errno));
  if (!bound.empty()) log::logger().log(level, "bound, by local rank{}", bound);
  return commands;
}

/// Returns the descriptors that become a worker's stdout and stderr; −1, after a warning if that was not
/// planned: rankshim's own. The files are stdout.log and stderr.log in the worker's folder; empty: none.
std::array<int, 2> Workers::open_output(const std::string& worker_folder, unsigned rank) {
  const std::string prefix = prefix_ ? "[" + std::to_string(rank) + "] " : std::string();
  std::array<int, 2> ends = {-1, -1};
  if (!worker_folder.empty() && to_files_)
    ends = {open_file(worker_folder + "/stdout.log", STDOUT_FILENO, prefix),
            open_file(worker_folder + "/stderr.log", STDERR_FILENO, prefix)};
  else if (prefix_)
    ends = {open_pipe(STDOUT_FILENO, prefix), open_pipe(STDERR_FILENO, prefix)};
  std::ranges::copy_if(ends, std::back_inserter(workers_ends_), [](int end) { return end >= 0; });
  return ends;
}

int Workers::open_file(const std::string& path, int target, const std::string& prefix) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOCTTY | O_CLOEXEC, 0666);
  if (file < 0)
    log::warn("cannot write {} ({}): the worker's output comes here", path, std::strerror(errno));
  else if (tee_ && !relay_->add_file(path, target, prefix))
    log::warn("cannot follow {} ({}): what is written there does not come here", path, std::strerror(errno));
  return file;
}

int Workers::open_pipe(int target, const std::string& prefix) {
  const int pipe = relay_->add_pipe(target, prefix);
  if (pipe < 0) log::warn("cannot put {}before a worker's lines: {}", prefix, std::strerror(errno));
  return pipe;
}

void Workers::close_workers_ends() {
  for (const int end : workers_ends_) close(end);
  workers_ends_.clear();
}

void Workers::started(boost::asio::io_context& /*io*/, const std::vector<pid_t>& processes,
                      Clock::time_point when, const std::vector<std::string>& /*environment*/) {
  close_workers_ends();
  if (!record_.first_at) record_.first_at = when;
  for (const pid_t process : processes) {
    const auto local_rank = static_cast<unsigned>(record_.states.size());
    record_.states.push_back({process, local_rank, job_.node.first_rank() + local_rank, false});
  }
}

}  // namespace rankshim::native
