#include "launchers/torchrun/worker_watch.h"

#include <poll.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/files.h"
#include "base/log.h"
#include "base/text.h"
#include "loop/loop.h"
#include "plan/launch.h"
#include "supervise/kernel.h"

namespace rankshim::launchers {

using node::Process;

using namespace supervise;

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// The agent creates the attempt's folder, and then needs a few milliseconds to fork each worker. A Python
// that fails in its first line lives for 8 ms, and an agent may reap it at once. So the first looks come in
// quick succession. A look goes through all of /proc, so after look_closely the gap grows: by then the agent
// itself has failed, or the machine is slow (an interpreter on a network file system).
constexpr milliseconds first_gap{1};
constexpr milliseconds longest_gap{10};
constexpr milliseconds look_closely{5000};
// Enough, at the agent's end, for all that the kernel queues by default (inotify(7), max_queued_events: 16384
// of 32 bytes).
constexpr unsigned buffers_at_once = 128;

/// The part of struct pidfd_info (linux/pidfd.h) that is needed; it has exit information since Linux 6.15.
struct PidfdInfo {
  std::uint64_t mask;
  std::uint64_t cgroup_id;
  std::uint32_t pid, tgid, ppid;
  std::uint32_t ids[8];
  std::int32_t exit_code;
};
static_assert(sizeof(PidfdInfo) == 64, "PIDFD_INFO_SIZE_VER0");
constexpr unsigned long pidfd_get_info = _IOWR(0xFF, 11, PidfdInfo);
constexpr std::uint64_t pidfd_info_exit = 1U << 3U;

/// The wait status of a process that its parent has already reaped.
std::optional<int> reaped_status(int pidfd) {
  PidfdInfo info{};
  info.mask = pidfd_info_exit;
  // The raw system call, because musl's ioctl() takes an int and glibc's an unsigned long.
  const long done = syscall(SYS_ioctl, pidfd, pidfd_get_info, &info);
  if (done != 0 || (info.mask & pidfd_info_exit) == 0) return std::nullopt;
  return info.exit_code;
}

/// Whether the folder belongs to the user that the launcher runs as, which is rankshim's. In a log folder
/// that others can write to as well, their folders are ignored.
bool is_own_folder(const std::string& path) {
  struct stat status{};
  return lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == geteuid();
}

/// The launcher's folder, which contains one for each attempt.
std::string folder_of(const std::string& attempt) { return std::filesystem::path(attempt).parent_path(); }

bool has_ended(boost::asio::posix::stream_descriptor& pidfd) {
  pollfd ready{pidfd.native_handle(), POLLIN, 0};
  return poll(&ready, 1, 0) == 1;
}

}  // namespace

WorkerWatch::WorkerWatch(boost::asio::io_context& io, std::string log_folder, unsigned workers,
                         WorkerRecord& record, std::function<void(const WorkerEnd*)> changed,
                         std::function<void()> seen)
    : io_(io),
      log_folder_(std::move(log_folder)),
      expected_(workers),
      record_(record),
      changed_(std::move(changed)),
      seen_(std::move(seen)),
      inotify_(io),
      timer_(io.get_executor()) {
  record_.followed = true;
  const int descriptor = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
  if (const int error = descriptor < 0 ? errno : loop::assign_fd(inotify_, descriptor)) {
    log::warn("cannot watch the launcher's workers ({}): only the launcher's own exit code will be known",
              std::strerror(error));
    return;
  }
  watch_folder(log_folder_);
  listen();
}

/// Watches a folder, then handles what was in it before.
void WorkerWatch::watch_folder(const std::string& folder) {
  const int watch = inotify_add_watch(inotify_.native_handle(), folder.c_str(), IN_CREATE | IN_ONLYDIR);
  if (watch < 0) return;
  folders_[watch] = folder;
  // Other programs in the log folder must not use up the kernel's limit on watches, so the oldest is removed.
  constexpr std::size_t most_watches = 64;
  drop_watches(most_watches);
  if (folder == log_folder_) return;  // it may contain other runs
  Folder entries(folder.c_str());
  while (const char* name = entries.next()) on_entry(folder, name);
}

/// Removes watches of folders that are not the launcher's, oldest first (the kernel numbers watches in
/// ascending order), until no more than `most` are left.
void WorkerWatch::drop_watches(std::size_t most) {
  for (auto next = folders_.begin(); next != folders_.end() && folders_.size() > most;) {
    const auto folder = next++;
    if (folder->second == log_folder_ || folder->second == folder_of(record_.error_folder)) continue;
    inotify_rm_watch(inotify_.native_handle(), folder->first);
    folders_.erase(folder);
  }
}

void WorkerWatch::listen() {
  inotify_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                      [this](const boost::system::error_code& error) {
                        if (error) return;
                        listen();  // first, because reading may throw
                        read_events();
                      });
}

/// Reads only one buffer, so that a program that floods the folder with events cannot delay signals. Returns
/// whether there was anything to read.
bool WorkerWatch::read_events() {
  alignas(inotify_event) std::array<char, 4096> buffer{};
  const ssize_t got = read(inotify_.native_handle(), buffer.data(), buffer.size());
  if (got <= 0) return false;
  for (std::size_t at = 0; at < static_cast<std::size_t>(got);) {
    inotify_event event{};
    std::memcpy(&event, buffer.data() + at, sizeof event);
    const char* name = buffer.data() + at + sizeof event;
    at += sizeof event + event.len;
    const auto folder = folders_.find(event.wd);
    if (folder == folders_.end()) continue;
    if ((event.mask & IN_IGNORED) != 0) {
      folders_.erase(folder);  // it is gone, and the kernel's watch with it
    } else if (event.len != 0) {
      on_entry(std::string(folder->second), name);
    }
  }
  return true;
}

/// Handles a new entry. torchrun creates LOG_FOLDER/RUN_ID_XXXXXX/attempt_N just before it starts that
/// attempt's workers (torch/distributed/elastic/multiprocessing/api.py, DefaultLogsSpecs.reify; in 1.13
/// local_elastic_agent.py). Other launchers may use the same log folder at the same time: until the first
/// worker shows which folder is its launcher's, any may be.
void WorkerWatch::on_entry(const std::string& folder, const std::string& name) {
  const std::string path = folder + "/" + name;
  const bool is_run = folder == log_folder_;
  if (record_.first_at && (is_run ? path : folder) != folder_of(record_.error_folder)) return;
  if (is_run && is_own_folder(path)) watch_folder(path);
  if (!is_run && name.starts_with("attempt_")) begin_attempt(path);
}

/// Learns from a worker's environment which folder is the launcher's (torch/distributed/elastic/agent/server/
/// local_elastic_agent.py: TORCHELASTIC_ERROR_FILE is RUN/ATTEMPT/LOCAL_RANK/error.json).
void WorkerWatch::take_folder_of(std::string_view environment) {
  const std::filesystem::path file(node::value_in(environment, "TORCHELASTIC_ERROR_FILE"));
  const std::filesystem::path folder = file.parent_path().parent_path();
  const std::string attempt = folder.filename(), run = folder.parent_path().filename();
  if (run.empty() || !attempt.starts_with("attempt_")) return;
  record_.error_folder = log_folder_ + "/" + run + "/" + attempt;
  drop_watches(0);
}

/// Begins an attempt. A new folder may be reported twice, by the watch and by the look at what existed
/// before. And after a change of membership, when the earlier workers have ended, torchrun removes the folder
/// and creates it again for the new workers, which is not another attempt.
void WorkerWatch::begin_attempt(const std::string& folder) {
  take_ends();
  const bool again = folder == record_.error_folder;
  const std::vector<WorkerState>& before = record_.states;
  if (again && (before.empty() || !record_.running().empty())) return;
  restarted_ = !again && !before.empty();
  if (record_.attempts == 0 || restarted_) ++record_.attempts;
  record_.error_folder = folder;
  std::erase_if(known_, [](pid_t pid) { return !node::read_process(pid); });
  pidfds_.clear();
  record_.states.clear();
  record_.ends.clear();
  const auto now = steady_clock::now();
  if (std::exchange(begun_, now) + look_closely < now) look_is_due_ = false;  // the next look may be far off
  changed_(nullptr);
  look_soon();
}

/// Reads the node's numbers from the first worker of a set, and logs what has changed since the previous set.
void WorkerWatch::take_numbers(const Candidate& worker) {
  const std::optional<NodeNumbers> before = std::exchange(record_.numbers, std::nullopt);
  const std::optional<unsigned> node_rank = worker.number(plan::group_rank);
  const std::optional<unsigned> nodes = worker.number("GROUP_WORLD_SIZE");
  if (node_rank && nodes) record_.numbers = NodeNumbers{*node_rank, *nodes};
  if (record_.first_at) {
    std::string what = restarted_ ? fmt::format(" (restart {})", record_.attempts - 1) : "";
    if (record_.numbers && before && record_.numbers->nodes != before->nodes) {
      const unsigned now = record_.numbers->nodes;
      const std::string_view gain = now <= most_nodes_ ? "came back" : "has joined";
      what +=
          fmt::format(": a node {}; the job has {} now, {} before", now < before->nodes ? "was lost" : gain,
                      counted(std::to_string(now), "node"), before->nodes);
    } else if (!restarted_) {
      what += ": after a failure on another node, or because the job's nodes have changed";
    }
    log::info("torchrun has started new workers{}", what);
  }
  if (record_.numbers) most_nodes_ = std::max(most_nodes_, record_.numbers->nodes);
}

/// Schedules a look. Several requests within the interval cause only one.
void WorkerWatch::look_soon() {
  if (std::exchange(look_is_due_, true)) return;
  const auto since = steady_clock::now() - begun_;
  timer_.expires_after(since < look_closely ? gap_ : since / 20);
  gap_ = std::min(2 * gap_, longest_gap);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) look_for_workers();
  });
}

void WorkerWatch::look_for_workers() {
  look_is_due_ = false;
  if (!inotify_.is_open()) return;
  ++looks_;
  const pid_t agent = find_agent(command_).pid;
  const std::size_t before = record_.states.size();
  for (const Process& process : node::descendants(agent).value_or(std::vector<Process>{}))
    if (process.parent == agent && !known_.contains(process.pid)) add_worker(process);
  if (record_.states.size() != before) seen_();
  if (record_.states.size() < expected_) return look_soon();
  gap_ = first_gap;  // for the next set
}

void WorkerWatch::add_worker(const Process& process) {
  const pid_t pid = process.pid;
  const Candidate candidate = look_at(process);
  const std::optional<unsigned> told = candidate.local_rank();
  if (!told) {
    // Between fork and exec it still has the agent's environment; a zombie no longer has any.
    const std::optional<Process> now = node::read_process(pid);
    if (!now || now->alive()) return;  // it is gone, not ready yet, or not a worker
  }
  // The parent starts workers in order of rank.
  const unsigned local_rank =
      told && *told < expected_ ? *told : static_cast<unsigned>(record_.states.size());
  take_folder_of(candidate.environment);
  if (record_.states.empty()) take_numbers(candidate);
  if (!record_.first_at) record_.first_at = steady_clock::now();
  known_.insert(pid);
  record_.states.push_back({pid, local_rank, candidate.rank(), false});
  const int descriptor = kernel::pidfd_open(pid);
  auto& pidfd = pidfds_.try_emplace(pid, io_).first->second;
  if (const int error = descriptor < 0 ? -descriptor : loop::assign_fd(pidfd, descriptor)) {
    log::debug("cannot follow worker {} ({})", pid, std::strerror(error));
    pidfds_.erase(pid);
    return;
  }
  wait_for_end(pid);
}

/// Waits for a worker's end. The event alone proves nothing: Asio may mistake the event of a descriptor that
/// was closed at the same moment for this one's (loop.h, Timer).
void WorkerWatch::wait_for_end(pid_t pid) {
  pidfds_.at(pid).async_wait(boost::asio::posix::stream_descriptor::wait_read,
                             [this, pid](const boost::system::error_code& error) {
                               if (error) return;
                               // Only this one: of two that have ended, the first is the cause.
                               if (has_ended(pidfds_.at(pid))) return on_end(pid);
                               wait_for_end(pid);
                             });
}

void WorkerWatch::on_end(pid_t pid, std::optional<int> status) {
  const auto pidfd = pidfds_.find(pid);
  if (pidfd == pidfds_.end()) return;
  if (!status) status = node::zombie_status(pid);
  if (!status) status = reaped_status(pidfd->second.native_handle());
  pidfds_.erase(pidfd);
  log::debug("worker {} ended with wait status {}", pid,
             status ? std::to_string(*status) : std::string("unknown"));
  if (const WorkerEnd* end = record_.add_end(pid, status)) changed_(end);
}

void WorkerWatch::take_ends() {
  for (auto pidfd = pidfds_.begin(); pidfd != pidfds_.end();) {
    const auto worker = pidfd++;
    if (has_ended(worker->second)) on_end(worker->first);
  }
}

void WorkerWatch::look() {
  if (inotify_.is_open()) {
    for (unsigned taken = 0; taken < buffers_at_once && read_events();) ++taken;
    if (look_is_due_) look_for_workers();
  }
  take_ends();
}

void WorkerWatch::agent_ended() {
  look();
  timer_.cancel();
  if (inotify_.is_open()) inotify_.close();
}

void WorkerWatch::finish() {
  agent_ended();
  pidfds_.clear();
}

}  // namespace rankshim::launchers
