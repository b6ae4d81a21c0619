#include "launchers/native/workers.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/log.h"

namespace rankshim::native {

using supervise::Command;

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

Workers::Workers(boost::asio::io_context& io, const Topology& topology, const Settings& settings,
                 const std::string& folder, const Node& node, unsigned attempt)
    : io_(io), settings_(settings), node_(node), job_(static_job(topology, settings)) {
  job_.attempt = attempt;
  job_.master.port = port_of_attempt(job_, node);
  record_.followed = true;
  record_.attempts = attempt + 1;
  if (!folder.empty()) record_.error_folder = fmt::format("{}/attempt_{}", folder, attempt);
}

std::vector<Command> Workers::workers_to_start(const Command& command) {
  if (settings_.flag(Option::tee) || settings_.flag(Option::prefix))
    relay_ = std::make_unique<Relay>(io_, STDOUT_FILENO, STDERR_FILENO);
  const std::string& folder = record_.error_folder;
  bool made = !folder.empty() && mkdir(folder.c_str(), 0700) == 0;
  Environment common(command.environment);
  common.set("MASTER_PORT", std::to_string(job_.master.port));
  std::vector<Command> commands;
  std::string bound;
  log::Level level = log::Level::info;
  for (unsigned local_rank = 0; local_rank < job_.node.workers; ++local_rank) {
    std::string own = fmt::format("{}/{}", folder, local_rank);
    made = made && mkdir(own.c_str(), 0700) == 0;
    if (!made) own.clear();
    WorkerPlan plan = plan_worker(job_, local_rank, command.argv, common, node_, own);
    if (job_.binds) {
      if (!plan.near.affinity) level = log::Level::warn;
      bound += fmt::format("{} {}: {}", bound.empty() ? ':' : ';', local_rank, plan.near.text);
    }
    const unsigned rank = job_.node.first_rank() + local_rank;
    commands.push_back(
        {.argv = std::move(plan.argv),
         .environment = EnvironmentChange{std::move(plan.environment), {}}.apply(common).entries(),
         .affinity = plan.near.affinity,
         .open_files = command.open_files});
    commands.back().output = {open_output(own, STDOUT_FILENO, rank), open_output(own, STDERR_FILENO, rank)};
  }
  if (!made && !folder.empty())
    log::warn("cannot make {} or a folder there ({}): the workers' exceptions will not be known", folder,
              std::strerror(errno));
  if (!bound.empty()) log::logger().log(level, "bound, by local rank{}", bound);
  return commands;
}

/// Returns the descriptor that becomes a worker's stdout or stderr; −1, after a warning if that was not
/// planned: rankshim's own. `folder` is the worker's; empty: it has none.
int Workers::open_output(const std::string& folder, int target, unsigned rank) {
  const bool has_prefix = settings_.flag(Option::prefix);
  const std::string prefix = has_prefix ? fmt::format("[{}] ", rank) : std::string();
  int end = -1;
  if (settings_[Option::log_dir] && !folder.empty()) {
    const std::string path = folder + (target == STDOUT_FILENO ? "/stdout.log" : "/stderr.log");
    end = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOCTTY | O_CLOEXEC, 0666);
    if (end < 0)
      log::warn("cannot write {} ({}): the worker's output comes here", path, std::strerror(errno));
    else if (settings_.flag(Option::tee) && !relay_->add_file(path, target, prefix))
      log::warn("cannot follow {} ({}): what is written there does not come here", path,
                std::strerror(errno));
  } else if (has_prefix) {
    end = relay_->add_pipe(target, prefix);
    if (end < 0) log::warn("cannot put {}before a worker's lines: {}", prefix, std::strerror(errno));
  }
  if (end >= 0) workers_ends_.emplace_back(end);
  return end;
}

void Workers::started(boost::asio::io_context& /*io*/, const std::vector<pid_t>& processes,
                      Clock::time_point when, const std::vector<std::string>& /*environment*/) {
  workers_ends_.clear();
  if (!record_.first_at) record_.first_at = when;
  for (const pid_t process : processes) {
    const auto local_rank = static_cast<unsigned>(record_.states.size());
    record_.states.push_back({process, local_rank, job_.node.first_rank() + local_rank, false});
  }
}

}  // namespace rankshim::native
