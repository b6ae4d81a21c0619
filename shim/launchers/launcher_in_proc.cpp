#include "launchers/launcher_in_proc.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>

#include "base/text.h"
#include "launchers/torchrun/torchrun_command.h"
#include "node/environment.h"
#include "plan/launch.h"
#include "topology/topology.h"

namespace rankshim::launchers {
namespace {

using node::Process;

/// The flag of a torchrun that keeps it on this node; empty if there is none.
std::string lone_flag(const TorchrunCommand& torchrun, const JobSize& job) {
  for (const TorchrunCommand::Flag& flag : torchrun.flags) {
    const bool is_endpoint = flag.name == "rdzv_endpoint";
    const std::string_view host = is_endpoint ? split_host_port(flag.value).first : std::string_view();
    const bool alone = flag.name == "standalone" ||
                       (flag.name == "nnodes" && (flag.value == "1" || flag.value == "1:1")) ||
                       (!host.empty() && topology::same_host(host, job.own_name)) ||
                       (topology::is_loopback(host) && !job.on_loopback);
    if (alone) return joined(std::span(torchrun.words).subspan(flag.at, flag.words), " ");
  }
  return {};
}

/// "worker 4711 (torchrun, started by run.sh)", "torchrun 17 (started by run.sh)"
std::string describe(const SeenProcess& process, const std::vector<SeenProcess>& all) {
  const bool is_worker = process.alone_by.empty();
  std::string text = fmt::format("{} {}", is_worker ? "worker" : "torchrun", process.pid);
  const auto parent = std::ranges::find(all, process.parent, &SeenProcess::pid);
  if (parent == all.end()) return text;
  if (!is_worker) return fmt::format("{} (started by {})", text, parent->name);
  const auto starter = std::ranges::find(all, parent->parent, &SeenProcess::pid);
  return fmt::format("{} ({}{})", text, parent->name,
                     starter == all.end() ? "" : ", started by " + starter->name);
}

/// One of several processes that their parent started as a whole world (torch.multiprocessing.spawn): the
/// parent set WORLD_SIZE at run time, and there are that many of them.
const SeenProcess* spawned_alone(const std::vector<SeenProcess>& processes, const JobSize& job) {
  for (const SeenProcess& process : processes) {
    const unsigned world = process.spawned_world();
    if (world < 2 || world > job.workers) continue;
    const auto parent = std::ranges::find(processes, process.parent, &SeenProcess::pid);
    if (parent == processes.end() || parent->spawned_world() == world) continue;
    const auto siblings = std::ranges::count_if(processes, [&](const SeenProcess& other) {
      return other.parent == process.parent && other.spawned_world() == world;
    });
    if (siblings >= world) return &process;
  }
  return nullptr;
}

/// The number of workers that this worker's launcher started on this node. If the launcher does not say, they
/// are counted, or taken to be as many as the job has on this node.
unsigned workers_here(const SeenProcess& worker, const std::vector<SeenProcess>& processes,
                      const JobSize& job) {
  if (worker.local_world_size != 0) return worker.local_world_size;
  std::set<unsigned> ranks;
  for (const SeenProcess& other : processes)
    if (other.local_rank && other.world_size == worker.world_size) ranks.insert(*other.local_rank);
  return std::max(static_cast<unsigned>(ranks.size()), job.workers);
}

}  // namespace

Candidate look_at(const Process& process) {
  if (!process.alive()) return {};
  std::optional<std::string> environment = node::read_proc(process.pid, "environ");
  // A process that has ended meanwhile is not a worker: a launcher first starts short-lived helpers.
  if (!environment) return {errno == ENOENT || errno == ESRCH ? Presence::none : Presence::hidden, {}};
  if (environment->empty()) return {Presence::perhaps, {}};
  const bool is_worker = !node::value_in(*environment, variable_of(Fact::local_rank)).empty();
  return {is_worker ? Presence::some : Presence::none, std::move(*environment)};
}

bool has_local_rank(const std::vector<std::string>& environment) {
  const std::string name = variable_of(Fact::local_rank);
  return std::ranges::any_of(environment,
                             [&](const std::string& entry) { return node::is_named(entry, name); });
}

Presence find_worker(pid_t launcher, const std::vector<std::string>& environment) {
  const std::optional<std::vector<Process>> below = node::descendants(launcher);
  if (!below) return Presence::some;
  const bool any_counts = has_local_rank(environment);
  Presence found = Presence::none;
  for (const Process& process : *below) {
    if (any_counts && process.alive()) return Presence::some;
    found = std::max(found, look_at(process).presence);
  }
  return found == Presence::hidden ? Presence::some : found;
}

std::vector<Process> workers_of(pid_t launcher, const std::vector<std::string>& environment) {
  std::vector<Process> found = node::descendants(launcher).value_or(std::vector<Process>{});
  const bool children_count = has_local_rank(environment);
  std::erase_if(found, [&](const Process& process) {
    return children_count ? !process.alive() || process.parent != launcher
                          : look_at(process).presence != Presence::some;
  });
  const std::vector<Process> all = found;
  std::erase_if(found, [&](const Process& process) {
    return std::ranges::find(all, process.parent, &Process::pid) != all.end();
  });
  return found;
}

Process find_agent(pid_t command) {
  const Process itself = node::read_process(command).value_or(Process{.pid = command});
  std::vector<Process> all = node::descendants(command).value_or(std::vector<Process>{});
  all.insert(all.begin(), itself);
  // A worker that it has just forked still has torchrun's command line.
  std::erase_if(all,
                [](const Process& process) { return !read_torchrun(node::read_command_line(process.pid)); });
  const auto agent = std::ranges::find_if(all, [&](const Process& process) {
    return std::ranges::find(all, process.parent, &Process::pid) == all.end();
  });
  return agent == all.end() ? itself : *agent;
}

std::set<std::string> sockets_at(std::string_view table, std::uint16_t port) {
  std::set<std::string> sockets;
  const std::string at_port = fmt::format(":{:04X}", port);  // of "0100007F:5FD8"
  while (!table.empty()) {
    std::string_view line = next_line(table);
    if (line.find(at_port) == std::string_view::npos) continue;  // a host's table can have 100,000 lines
    // "0:", local, remote, state, queues, timer, retransmits, user, timeout, inode
    std::array<std::string_view, 10> columns;
    for (std::string_view& column : columns) column = next_word(line);
    const bool listens = columns[3] == "0A" && columns[1].ends_with(at_port);  // include/net/tcp_states.h
    const bool is_connected = columns[3] == "01" && columns[2].ends_with(at_port);
    if (listens || is_connected) sockets.insert(fmt::format("socket:[{}]", columns[9]));
  }
  return sockets;
}

bool is_in_rendezvous(pid_t agent, std::uint16_t port) {
  std::set<std::string> sockets = sockets_at(node::read_proc(agent, "net/tcp").value_or(""), port);
  sockets.merge(sockets_at(node::read_proc(agent, "net/tcp6").value_or(""), port));
  if (sockets.empty()) return false;
  std::vector<Process> processes = node::descendants(agent).value_or(std::vector<Process>{});
  processes.push_back({.pid = agent});
  return std::ranges::any_of(processes, [&](const Process& process) {
    return !node::find_open_file(process.pid, [&](const std::string& file) {
              return sockets.contains(file);
            }).empty();
  });
}

std::vector<SeenProcess> see_processes(pid_t command, const std::vector<std::string>& environment,
                                       const JobSize& job) {
  auto all = node::descendants(command);
  if (!all) return {};
  all->insert(all->begin(), Process{.pid = command});
  const bool marked = has_local_rank(environment);
  std::vector<SeenProcess> seen;
  for (const Process& process : *all) {
    if (!process.alive() || process.state == 'D') continue;
    const Candidate candidate = look_at(process);
    SeenProcess& one = seen.emplace_back(seen_by_words(node::read_command_line(process.pid), job));
    one.pid = process.pid;
    one.parent = process.parent;
    const bool is_worker = candidate.presence == Presence::some;
    if (is_worker && marked) continue;
    one.world_size = candidate.world_size().value_or(0);
    one.local_world_size = candidate.local_world_size().value_or(0);
    if (is_worker) one.local_rank = candidate.local_rank().value_or(0);
  }
  return seen;
}

std::optional<outcome::LoneTraining> lone_training(const std::vector<SeenProcess>& processes,
                                                   const JobSize& job) {
  if (job.nodes < 2) return std::nullopt;
  const SeenProcess* found = nullptr;
  bool met = false;  // it met other nodes, but not all
  unsigned own = job.workers;
  for (const SeenProcess& process : processes) {
    if (!process.local_rank || process.world_size == 0) continue;
    const unsigned here = workers_here(process, processes, job);
    const bool meets = process.world_size > here;
    // Nodes may have different numbers of workers, but then WORLD_SIZE need not be a multiple of this node's.
    if (meets && (process.world_size % here != 0 || process.world_size >= job.nodes * here))
      return std::nullopt;
    if (found != nullptr && (met || !meets)) continue;
    found = &process;
    met = meets;
    own = here;
  }
  if (found == nullptr) found = spawned_alone(processes, job);
  if (found != nullptr)
    return outcome::LoneTraining{.who = describe(*found, processes),
                                 .meets_some = met,
                                 .world = found->world_size,
                                 .expected = job.nodes * own};
  const auto agent =
      std::ranges::find_if(processes, [](const SeenProcess& process) { return !process.alone_by.empty(); });
  if (agent == processes.end()) return std::nullopt;
  return outcome::LoneTraining{.sign = outcome::LoneTraining::Sign::launcher_flag,
                               .who = describe(*agent, processes),
                               .flag = agent->alone_by,
                               .nodes = job.nodes};
}

SeenProcess seen_by_words(const std::vector<std::string>& words, const JobSize& job) {
  SeenProcess process;
  if (words.empty()) return process;
  if (const auto torchrun = read_torchrun(words)) {
    process.name = "torchrun";
    process.alone_by = lone_flag(*torchrun, job);
    return process;
  }
  process.name = base_name(words[0]);
  // The name of its script or module is more specific.
  if (const auto python = plan::read_python(words)) {
    process.name = base_name(python->what);
  } else if (node::is_shell(process.name) ||
             process.name.starts_with("python")) {  // python3.13t, python3-dbg
    const auto script =
        std::find_if(words.begin() + 1, words.end(), [](const std::string& word) { return word[0] != '-'; });
    const bool is_text = std::any_of(words.begin() + 1, script, [](const std::string& option) {
      return !option.starts_with("--") && option.find('c') != std::string::npos;  // -c, -lc
    });
    if (script != words.end() && !is_text) process.name = base_name(*script);
  }
  return process;
}

}  // namespace rankshim::launchers
