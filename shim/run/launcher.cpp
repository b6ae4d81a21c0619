#include "run/run.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/log.h"
#include "base/signals.h"
#include "base/text.h"
#include "launchers/native/workers.h"
#include "launchers/torchrun/agent.h"
#include "launchers/torchrun/torchrun_command.h"
#include "node/process.h"

namespace rankshim {
namespace {

/// Whether an endpoint of this name would be another place than the master's.
bool meets_elsewhere(const Topology& topology, const std::string& own_name) {
  const auto* elastic = topology.as<ElasticNode>();
  const bool by_etcd = elastic != nullptr && elastic->backend.starts_with("etcd");
  const Master* master = topology.master();
  return !topology.hosts_master().value_or(true) && !by_etcd &&
         !same_host(master != nullptr ? master->host : "", own_name);
}

/// The size to compare the processes with; nothing if each worker has its own rankshim, or nothing trains
/// here.
torchrun::JobSize size_of(const Topology& topology, const Node& node) {
  if (!topology.has_other_nodes()) return {};
  const auto* elastic = topology.as<ElasticNode>();
  const Master* master = topology.master();
  return {.nodes = elastic != nullptr ? elastic->least : topology.nodes().value_or(0),
          .workers = topology.workers(),
          .on_loopback = master != nullptr && is_loopback(master->host),
          .own_name = meets_elsewhere(topology, node.host_name()) ? node.host_name() : std::string()};
}

}  // namespace

supervise::Policy plan_supervision(const Settings& settings) {
  supervise::Policy policy;
  policy.grace = settings.time(Option::grace);
  policy.leftover_grace = *settings.time(Option::leftover_grace);
  if (const auto map = settings.get<supervise::SignalMap>(Option::rewrite_signal)) policy.rewrite = *map;
  policy.warn_on_reap = settings.flag(Option::warn_on_reap);
  return policy;
}

supervise::SignalScope signal_scope(const Settings& settings) {
  using supervise::SignalScope;
  const std::string_view wanted = settings.text(Option::signal_scope);
  if (wanted == "child") return SignalScope::child;
  if (wanted == "group") return SignalScope::group;
  return wanted == "tree" ? SignalScope::tree : SignalScope::handlers;
}

supervise::SignalSet ignored_at_start(const LaunchChoice& choice, const LaunchPlan& plan,
                                      const Settings& settings) {
  const auto* torchrun = choice.as<TorchrunLauncher>();
  const bool starts_programs = torchrun != nullptr
                                   ? torchrun->own && torchrun->own->find("no_python") != nullptr
                                   : choice.natively() && choice.interpreter.empty();
  const bool starts_workers = choice.launches() || choice.as<FilledLauncher>() != nullptr;
  if (!starts_workers || starts_programs || is_shell(base_name(plan.argv.front()))) return 0;
  return notices(settings);
}

std::shared_ptr<supervise::Launcher> make_launcher(const Run& run, const Job& job,
                                                   const std::string& log_folder, unsigned attempt) {
  const Settings& settings = run.settings;
  if (job.choice.natively())
    return std::make_shared<native::Workers>(run.io, job.topology, settings, log_folder, run.node, attempt);
  const torchrun::JobSize size = size_of(job.topology, run.node);
  const bool strict = settings.flag(Option::strict);
  if (!job.choice.note.empty()) log::info("{}", job.choice.note);
  if (!job.choice.launches()) return std::make_shared<torchrun::Program>(size, strict);
  torchrun::AgentPlan plan;
  plan.log_folder = log_folder;
  plan.workers = job.topology.workers();
  if (job.topology.has_other_nodes()) {
    const Master* master = job.topology.master();
    plan.meets_at = master != nullptr ? *master : Master{};
    if (job.topology.is<StaticNode>()) plan.limit = settings.time(Option::wait_timeout);
  }
  return std::make_shared<torchrun::Agent>(std::move(plan), size, strict);
}

std::string make_log_folder(const Job& job, const std::string& temporary) {
  if (job.choice.log_dir.empty() && (temporary.empty() || !job.choice.is_wrapped())) return temporary;
  std::error_code error;
  // The wrapped one's is as in python/sitecustomize.py.
  const std::string& named = job.choice.log_dir;
  std::string folder = std::filesystem::current_path(error) / (named.empty() ? temporary + "/logs" : named);
  std::filesystem::create_directories(folder, error);  // else torchrun would, just before its workers
  std::string own = folder;
  if (!error && job.choice.natively()) {
    own = native::log_folder_template(folder, job.topology.facts.text(Fact::run_id));
    if (mkdtemp(own.data()) == nullptr) error.assign(errno, std::generic_category());
  }
  if (!error) return own;
  log::warn("cannot make the folder {} ({}) for the workers' logs; set --log-dir (RANKSHIM_LOG_DIR)", folder,
            error.message());
  return {};
}

}  // namespace rankshim
