#include "launchers/torchrun/lone_training.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "base/text.h"
#include "launchers/torchrun/torchrun_command.h"
#include "supervise/tree.h"
#include "topology/python_words.h"
#include "topology/topology.h"

namespace rankshim::torchrun {

using namespace supervise;

namespace {

constexpr std::size_t longest_command_line = std::size_t{64} << 10U;

/// The entries of /proc/PID/environ or cmdline, each of which ends with a zero byte.
std::vector<std::string_view> entries_of(std::string_view text) {
  std::vector<std::string_view> entries;
  while (!text.empty()) entries.push_back(take_part(text, std::string_view("\0", 1)));
  return entries;
}

std::string_view value_of(const std::vector<std::string_view>& environment, std::string_view name) {
  for (const std::string_view entry : environment) {
    if (entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=')
      return entry.substr(name.size() + 1);
  }
  return {};
}

unsigned number(std::string_view text) { return take_number<unsigned>(text).value_or(0); }

bool is_shell(std::string_view name) {
  constexpr std::array<std::string_view, 6> shells = {"sh", "bash", "dash", "zsh", "ksh", "busybox"};
  return std::ranges::find(shells, name) != shells.end();
}

/// Finds the torchrun flag that keeps it on this node.
void read_lone_flag(const TorchrunCommand& torchrun, const std::vector<std::string>& words,
                    std::string_view own_name, SeenProcess& process) {
  for (const TorchrunCommand::Flag& flag : torchrun.flags) {
    const std::string_view value = flag.value;
    const bool is_endpoint = flag.name == "rdzv_endpoint";
    const std::string_view host = is_endpoint ? split_host_port(value).first : std::string_view();
    const bool alone = flag.name == "standalone" ||
                       (flag.name == "nnodes" && (value == "1" || value == "1:1")) ||
                       (is_endpoint && !own_name.empty() && same_host(host, own_name));
    const bool meets_here = is_endpoint && is_loopback(host);
    if (!alone && !meets_here) continue;
    process.alone_by = words[flag.at] + (flag.words == 1 ? "" : " " + words[flag.at + 1]);
    process.meets_on_loopback = !alone;
    return;
  }
}

/// "worker 4711 (torchrun, started by run.sh)"
std::string describe(std::string_view what, const SeenProcess& process, const std::vector<SeenProcess>& all) {
  const auto parent_of = [&](const SeenProcess& child) {
    return std::ranges::find(all, child.parent, &SeenProcess::pid);
  };
  std::string text = fmt::format("{} {}", what, process.pid);
  auto parent = parent_of(process);
  if (parent == all.end()) return text;
  const bool worker = process.world_size != 0 || process.spawned_world != 0;
  if (!worker) return fmt::format("{} (started by {})", text, parent->name);
  const auto starter = parent_of(*parent);
  text += " (" + parent->name;
  if (starter != all.end()) text += ", started by " + starter->name;
  return text + ")";
}

/// One of several processes that their parent started as a whole world (torch.multiprocessing.spawn): the
/// parent set WORLD_SIZE while it ran, and it is their number.
const SeenProcess* spawned_alone(const std::vector<SeenProcess>& processes, const JobSize& job) {
  for (const SeenProcess& process : processes) {
    const unsigned world = process.spawned_world;
    if (world < 2 || world > job.workers) continue;
    const auto parent = std::ranges::find(processes, process.parent, &SeenProcess::pid);
    if (parent == processes.end() || parent->spawned_world == world) continue;
    const auto siblings = std::ranges::count_if(processes, [&](const SeenProcess& other) {
      return other.parent == process.parent && other.spawned_world == world;
    });
    if (siblings >= world) return &process;
  }
  return nullptr;
}

}  // namespace

std::string lone_training(const std::vector<SeenProcess>& processes, const JobSize& job) {
  if (job.nodes < 2) return {};
  const SeenProcess* lone = nullptr;
  const SeenProcess* smaller = nullptr;  // of a job of fewer nodes
  unsigned own = 0;
  for (const SeenProcess& process : processes) {
    if (process.world_size == 0) continue;
    unsigned here = process.local_world_size;
    if (here ==
        0) {  // its launcher does not set it: use the workers beside it, or the job's number for this node
      std::set<unsigned> ranks;
      for (const SeenProcess& other : processes) {
        if (other.world_size == process.world_size) ranks.insert(other.local_rank);
      }
      here = std::max(static_cast<unsigned>(ranks.size()), job.workers);
    }
    if (process.world_size > here) {  // it has met other nodes
      // Nodes may differ in their workers, but this number is a whole multiple of this node's.
      if (process.world_size % here != 0 || process.world_size >= job.nodes * here) return {};
      if (smaller == nullptr) {
        smaller = &process;
        own = here;
      }
    } else if (lone == nullptr && smaller == nullptr) {
      lone = &process;
      own = std::max(here, process.world_size);
    }
  }
  if (smaller != nullptr) {
    return fmt::format("the nodes do not agree on their number: {} has WORLD_SIZE={}, this job has {}",
                       describe("worker", *smaller, processes), smaller->world_size, job.nodes * own);
  }
  if (lone == nullptr) {
    lone = spawned_alone(processes, job);
    own = job.workers;
  }
  if (lone != nullptr) {
    return fmt::format("this node trains alone: {} has WORLD_SIZE={}, but the job has {}",
                       describe("worker", *lone, processes), std::max(lone->world_size, lone->spawned_world),
                       job.nodes * own);
  }
  const auto agent = std::ranges::find_if(processes, [&](const auto& process) {
    return !process.alone_by.empty() && !(process.meets_on_loopback && job.on_loopback);
  });
  if (agent == processes.end()) return {};
  return fmt::format("this node trains alone: {} is limited to this node ({}), but the job has {} nodes",
                     describe("torchrun", *agent, processes), agent->alone_by, job.nodes);
}

SeenProcess read_command_line(std::string_view text, std::string_view own_name) {
  SeenProcess process;
  const std::vector<std::string_view> entries = entries_of(text);
  const std::vector<std::string> words(entries.begin(), entries.end());
  if (words.empty()) return process;
  if (const auto torchrun = read_torchrun(words)) {
    process.name = "torchrun";
    read_lone_flag(*torchrun, words, own_name, process);
    return process;
  }
  process.name = base_name(words[0]);
  // The name of its script or module is more specific.
  if (const auto python = read_python(words)) {
    process.name = base_name(python->what);
  } else if (is_shell(process.name) || process.name.starts_with("python")) {  // python3.13t, python3-dbg
    const auto script =
        std::find_if(words.begin() + 1, words.end(), [](const std::string& word) { return word[0] != '-'; });
    const bool is_text = std::any_of(words.begin() + 1, script, [](const std::string& option) {
      return !option.starts_with("--") && option.find('c') != std::string::npos;  // -c, -lc
    });
    if (script != words.end() && !is_text) process.name = base_name(*script);
  }
  return process;
}

std::vector<SeenProcess> see_processes(pid_t command, const std::vector<std::string>& own_environment,
                                       std::string_view own_name) {
  std::vector<SeenProcess> seen;
  const auto below = descendants(command);
  if (!below) return seen;
  std::vector<std::string_view> own(own_environment.begin(), own_environment.end());
  const bool own_rank = !value_of(own, "LOCAL_RANK").empty();
  const auto look = [&](pid_t pid, pid_t parent) {
    SeenProcess process =
        read_command_line(read_proc(pid, "cmdline", longest_command_line).value_or(""), own_name);
    process.pid = pid;
    process.parent = parent;
    const std::string text = read_environment(pid).value_or("");
    const auto environment = entries_of(text);
    const std::string_view rank = value_of(environment, "LOCAL_RANK");
    if (rank.empty()) process.spawned_world = number(value_of(environment, "WORLD_SIZE"));
    if (!rank.empty() && !own_rank) {
      process.local_rank = number(rank);
      process.world_size = number(value_of(environment, "WORLD_SIZE"));
      process.local_world_size = number(value_of(environment, "LOCAL_WORLD_SIZE"));
    }
    seen.push_back(std::move(process));
  };
  look(command, 0);
  for (const Process& process : *below) {
    if (process.alive() && process.state != 'D') look(process.pid, process.parent);
  }
  return seen;
}

}  // namespace rankshim::torchrun
