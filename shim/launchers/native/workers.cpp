#include "launchers/native/workers.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/log.h"
#include "base/text.h"
#include "node/accelerators.h"

namespace rankshim::launchers {

using node::Environment;
using node::Host;
using settings::Option;
using supervise::Command;

namespace {

constexpr const char* restart_count = "TORCHELASTIC_RESTART_COUNT";
constexpr const char* error_file = "TORCHELASTIC_ERROR_FILE";

std::string text(unsigned number) { return std::to_string(number); }

/// The node's numbers; for an elastic node, as far as they are known.
topology::StaticNode static_node(const topology::Topology& topology) {
  if (const auto* node = topology.as<topology::StaticNode>()) return *node;
  return {.nodes = topology.nodes().value_or(0),
          .rank = topology.node_rank().value_or(0),
          .workers = topology.workers(),
          .max_restarts = topology.max_restarts()};
}

/// The master's port. A restarted job on one machine gets a new one, so that no worker meets the store of the
/// previous attempt. If the master is not on loopback, the port stays: other nodes may be able to reach only
/// this one (a Service), and the store that used it is gone with its worker.
std::uint16_t port_of_attempt(const StaticJob& job, const Host& host) {
  if (job.attempt == 0 || job.node.nodes > 1 || !topology::is_loopback(job.master.host))
    return job.master.port;
  constexpr unsigned tries = 100;
  const unsigned first = job.master.port + job.attempt;
  for (unsigned port = first; port < first + tries && port <= UINT16_MAX; ++port)
    if (host.take_port(static_cast<std::uint16_t>(port))) return static_cast<std::uint16_t>(port);
  return job.master.port;
}

/// Plans one worker: its command, and its own variables besides the common ones (change_for_workers), where
/// the user's take precedence. It writes its exception to `folder`, or nowhere if that is empty.
WorkerPlan plan_worker(const StaticJob& job, unsigned local_rank, std::vector<std::string> argv,
                       const Environment& common, const Host& host, const std::string& folder) {
  const std::string rank = text(job.node.first_rank() + local_rank);
  plan::EnvironmentChange own{.set = {{variable_of(Fact::rank), rank},
                                      {variable_of(Fact::local_rank), text(local_rank)},
                                      {plan::role_rank, rank},
                                      {restart_count, text(job.attempt)}},
                              .unset = {}};
  if (!folder.empty()) own.set.emplace_back(error_file, folder + "/error.json");
  const Placeholders placeholders = placeholders_of(job, local_rank);
  for (const auto& [name, value] : job.variables) own.replace(name, filled_in(value, placeholders));
  node::NearAccelerator near;
  if (job.binds) near = node::near_accelerator(host, own.apply(common), local_rank);
  for (std::string& word : argv) word = filled_in(word, placeholders);
  return {std::move(own.set), std::move(argv), std::move(near)};
}

}  // namespace

std::string filled_in(std::string_view word, const Placeholders& placeholders) {
  constexpr std::string_view of_name = "abcdefghijklmnopqrstuvwxyz_";
  std::string out;
  for (auto brace = word.find('{'); brace != std::string_view::npos; brace = word.find('{')) {
    out += word.substr(0, brace);
    word.remove_prefix(brace + 1);
    const bool of_shell = out.ends_with('$'), is_doubled = word.starts_with('{') && !of_shell;
    std::string_view rest = word.substr(is_doubled ? 1 : 0);
    const std::string_view name = rest.substr(0, rest.find_first_not_of(of_name));
    rest.remove_prefix(name.size());
    const auto known = placeholders.find(name);
    const std::string_view end = is_doubled ? "}}" : "}";
    if (known == placeholders.end() || !rest.starts_with(end) || (of_shell && name != "local_rank")) {
      out += '{';
      continue;
    }
    word = rest.substr(end.size());
    if (of_shell) out.pop_back();
    out += is_doubled ? fmt::format("{{{}}}", name) : known->second;
  }
  return out += word;
}

StaticJob static_job(const topology::Topology& topology, const settings::Settings& settings) {
  const topology::Master* master = topology.master();
  return {.node = static_node(topology),
          .master = master != nullptr ? *master : topology::Master{},
          .run_id = std::string(topology.facts.text(Fact::run_id)),
          .binds = settings.choice<settings::BindChoice>(Option::bind) == settings::BindChoice::numa,
          .variables = plan::user_variables(settings)};
}

std::string log_folder_template(const std::string& log_dir, std::string_view run_id) {
  std::string name(run_id);
  std::ranges::replace(name, '/', '_');
  return log_dir + "/" + name + "_XXXXXX";
}

Placeholders placeholders_of(const StaticJob& job, unsigned local_rank) {
  return {{"rank", text(job.node.first_rank() + local_rank)},
          {"world_size", text(job.node.world_size())},
          {"local_rank", text(local_rank)},
          {"local_world_size", text(job.node.workers)},
          {"node_rank", text(job.node.rank)},
          {"nnodes", text(job.node.nodes)},
          {"master_addr", job.master.host},
          {"master_port", text(job.master.port)},
          {"run_id", job.run_id}};
}

void choose_for_workers(LaunchChoice& choice, const plan::LaunchInput& input) {
  // torch/distributed/run.py, config_from_args
  const auto workers_own = input.host.environment().get("PYTHON_EXEC");
  if (!choice.interpreter.empty() && workers_own) choice.interpreter = *workers_own;
  choice.log_dir = input.settings.text(Option::log_dir);
}

void change_for_workers(plan::EnvironmentChange& change, const plan::LaunchInput& input) {
  const Environment& environment = input.host.environment();
  const StaticJob job = static_job(input.topology, input.settings);
  const node::Variables common = {{variable_of(Fact::world_size), text(job.node.world_size())},
                                  {variable_of(Fact::local_world_size), text(job.node.workers)},
                                  {plan::group_rank, text(job.node.rank)},
                                  {plan::group_world_size, text(job.node.nodes)},
                                  {"ROLE_NAME", std::string(environment.get("PET_ROLE").value_or("default"))},
                                  {plan::role_world_size, text(job.node.world_size())},
                                  {variable_of(Fact::master_addr), job.master.host},
                                  {variable_of(Fact::master_port), text(job.master.port)},
                                  {"TORCHELASTIC_RUN_ID", job.run_id},
                                  {"TORCHELASTIC_MAX_RESTARTS", text(job.node.max_restarts)}};
  for (const auto& [name, value] : common) change.replace(name, value);
  constexpr const char* async_errors = "TORCH_NCCL_ASYNC_ERROR_HANDLING";
  if (!environment.has(async_errors)) change.replace(async_errors, "1");
  // These differ between workers, or belong to an agent.
  for (const std::string& name :
       {variable_of(Fact::rank), variable_of(Fact::local_rank), std::string(plan::role_rank),
        std::string(restart_count), std::string(error_file), std::string("TORCHELASTIC_USE_AGENT_STORE")})
    change.remove(name, environment);
}

std::vector<WorkerPlan> plan_workers(const LaunchPlan& plan, const LaunchChoice& choice,
                                     const plan::LaunchInput& input, const std::string& folder) {
  std::vector<WorkerPlan> workers;
  const StaticJob job = static_job(input.topology, input.settings);
  const std::string jobs = choice.log_dir.empty() ? folder : log_folder_template(choice.log_dir, job.run_id);
  const Environment common = plan.environment.apply(input.host.environment());
  workers.reserve(job.node.workers);
  for (unsigned local_rank = 0; local_rank < job.node.workers; ++local_rank)
    workers.push_back(plan_worker(job, local_rank, plan.argv, common, input.host,
                                  fmt::format("{}/attempt_0/{}", jobs, local_rank)));
  return workers;
}

NativeWorkers::NativeWorkers(boost::asio::io_context& io, const topology::Topology& topology,
                             const settings::Settings& settings, const std::string& folder, const Host& host,
                             unsigned attempt)
    : io_(io),
      settings_(settings),
      host_(host),
      port_of_job_(static_job(topology, settings).master.port),
      job_(static_job(topology, settings)) {
  job_.attempt = attempt;
  job_.master.port = port_of_attempt(job_, host);
  record_.followed = true;
  record_.attempts = attempt + 1;
  if (!folder.empty()) record_.error_folder = fmt::format("{}/attempt_{}", folder, attempt);
}

bool NativeWorkers::can_still_start() const {
  return job_.master.port == port_of_job_ || host_.take_port(job_.master.port);
}

std::vector<Command> NativeWorkers::workers_to_start(const Command& command) {
  if (settings_.flag(Option::tee) || settings_.flag(Option::prefix))
    relay_ = std::make_unique<Relay>(io_, STDOUT_FILENO, STDERR_FILENO);
  const std::string& folder = record_.error_folder;
  // The folder may exist: other workers were prepared for this attempt before the node's place was known.
  const auto make = [](const std::string& path) { return mkdir(path.c_str(), 0700) == 0 || errno == EEXIST; };
  bool made = !folder.empty() && make(folder);
  Environment common(command.environment);
  common.set(variable_of(Fact::master_port), text(job_.master.port));
  std::vector<Command> commands;
  std::string bound;
  log::Level level = log::Level::info;
  for (unsigned local_rank = 0; local_rank < job_.node.workers; ++local_rank) {
    std::string own = fmt::format("{}/{}", folder, local_rank);
    made = made && make(own);
    if (!made) own.clear();
    WorkerPlan plan = plan_worker(job_, local_rank, command.argv, common, host_, own);
    if (job_.binds) {
      if (!plan.near.affinity) level = log::Level::warn;
      bound += fmt::format("{} {}: {}", bound.empty() ? ':' : ';', local_rank, plan.near.text);
    }
    const unsigned rank = job_.node.first_rank() + local_rank;
    commands.push_back(
        {.argv = std::move(plan.argv),
         .environment = plan::EnvironmentChange{std::move(plan.environment), {}}.apply(common).entries(),
         .affinity = plan.near.affinity,
         .open_files = command.open_files});
    commands.back().output = {open_output(own, STDOUT_FILENO, rank), open_output(own, STDERR_FILENO, rank)};
  }
  if (!made && !folder.empty())
    log::warn("cannot make {} or a folder there ({}): the workers' exceptions will not be known", folder,
              std::strerror(errno));
  if (!bound.empty()) log::logger().log(level, "workers are bound, by local rank{}", bound);
  return commands;
}

/// Returns the descriptor for a worker's stdout or stderr; −1 for rankshim's own, after a warning if that was
/// not planned. `folder` is the worker's; empty if it has none.
int NativeWorkers::open_output(const std::string& folder, int target, unsigned rank) {
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

void NativeWorkers::started(const std::vector<pid_t>& processes, Clock::time_point when,
                            const std::vector<std::string>& /*environment*/) {
  workers_ends_.clear();
  if (!record_.first_at) record_.first_at = when;
  for (const pid_t process : processes) {
    const auto local_rank = static_cast<unsigned>(record_.states.size());
    record_.states.push_back({process, local_rank, job_.node.first_rank() + local_rank, false});
  }
}

}  // namespace rankshim::launchers
