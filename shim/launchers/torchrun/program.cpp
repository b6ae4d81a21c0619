#include "launchers/torchrun/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "base/log.h"
#include "base/text.h"
#include "launchers/torchrun/find_workers.h"
#include "launchers/torchrun/torchrun_command.h"
#include "plan/launch.h"
#include "topology/topology.h"

namespace rankshim::torchrun {

using std::chrono::milliseconds;
using supervise::Order;

namespace {

// Most launchers have workers by the first look, slow ones (which import from a network file system) by the
// last.
constexpr std::array<milliseconds, 3> looks_after = {milliseconds(5'000), milliseconds(20'000),
                                                     milliseconds(60'000)};

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

/// The command and its descendants; none if /proc does not show them. A process that waits in the kernel is
/// left out, because reading its environment could block.
std::vector<SeenProcess> see_processes(pid_t command, const std::vector<std::string>& environment,
                                       std::string_view own_name) {
  const auto below = descendants(command);
  if (!below) return {};
  std::vector<Process> all = {Process{.pid = command}};
  all.insert(all.end(), below->begin(), below->end());
  const bool marked = has_local_rank(environment);
  std::vector<SeenProcess> seen;
  for (const Process& process : all) {
    if (!process.alive() || process.state == 'D') continue;
    const Candidate candidate = look_at(process);
    SeenProcess& one = seen.emplace_back(seen_by_words(read_command_line(process.pid), own_name));
    one.pid = process.pid;
    one.parent = process.parent;
    const unsigned world_size = candidate.number("WORLD_SIZE").value_or(0);
    if (candidate.presence != Presence::some) {
      one.spawned_world = world_size;
    } else if (!marked) {
      one.local_rank = candidate.number("LOCAL_RANK").value_or(0);
      one.world_size = world_size;
      one.local_world_size = candidate.number("LOCAL_WORLD_SIZE").value_or(0);
    }
  }
  return seen;
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

SeenProcess seen_by_words(const std::vector<std::string>& words, std::string_view own_name) {
  SeenProcess process;
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

void Program::started(boost::asio::io_context& io, const std::vector<pid_t>& processes,
                      Clock::time_point when, const std::vector<std::string>& environment) {
  command_ = processes.front();
  started_ = when;
  environment_ = &environment;
  if (job_.nodes > 1) look_due_ = when + looks_after.front();
  timer_.emplace(io.get_executor());
  arm();
}

void Program::arm() {
  if (!timer_) return;
  const auto next = due();
  if (!next) return timer_->cancel();
  timer_->expires_at(*next);
  timer_->async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    look();
    arm();
  });
}

void Program::stop_passed_on(int /*signal*/, std::optional<milliseconds> /*grace*/) {
  look_due_.reset();
  arm();
}

void Program::look() {
  if (!look_due_ || *look_due_ > Clock::now()) return;
  look_due_.reset();
  trains_alone_ = lone_training(see_processes(command_, *environment_, job_.own_name), job_);
  if (trains_alone_.empty()) {
    if (++looks_ < looks_after.size()) look_due_ = started_ + looks_after[looks_];
    return;
  }
  log::warn("{}", trains_alone_);
  if (strict_) give({.kind = Order::Kind::stop, .why = trains_alone_});
}

supervise::WorkerRecord Program::record() const {
  supervise::WorkerRecord record;
  record.trains_alone = trains_alone_;
  record.ended_for_it = strict_ && !trains_alone_.empty();
  return record;
}

}  // namespace rankshim::torchrun
