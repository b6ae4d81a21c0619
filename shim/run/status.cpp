#include "run/status.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>

#include "base/files.h"
#include "base/json.h"
#include "base/log.h"
#include "base/text.h"
#include "loop/loop.h"
#include "node/process.h"

namespace rankshim::status {
namespace {

using std::chrono::steady_clock;

constexpr int backlog = 8;
constexpr timeval patience{5, 0};
constexpr std::size_t longest_answer = std::size_t{64} << 10U;
constexpr std::chrono::milliseconds a_moment{500};  // an instance that has just begun has no socket yet

/// Calls bind(2) or connect(2) with the address of a path; −1 and errno if that fails.
int call(int (*with_address)(int, const sockaddr*, socklen_t), int socket, const std::string& path) {
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  if (path.copy(address.sun_path, sizeof address.sun_path) == sizeof address.sun_path) {
    errno = ENAMETOOLONG;
    return -1;
  }
  return with_address(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address);
}

/// The credentials of the other side; nothing if the kernel does not give them.
std::optional<ucred> peer_of(int connection) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return std::nullopt;
  return peer;
}

/// Whether the other side may ask: an instance answers its user and root.
bool may_ask(int connection) {
  const auto peer = peer_of(connection);
  return peer && (peer->uid == geteuid() || peer->uid == 0);
}

/// Whether that instance belongs to this container and to a trusted user: root, this process's user, or the
/// user of PID 1. Any user may own the folder.
bool may_answer(int connection) {
  const auto peer = peer_of(connection);
  if (!peer || peer->pid == 0) return false;  // it has no number in this PID namespace
  struct stat first{};
  return peer->uid == 0 || peer->uid == geteuid() ||
         (stat("/proc/1", &first) == 0 && first.st_uid == peer->uid);
}

/// A connection to the socket at that path, or −1. connect(2) waits if the queue is full, as recv(2) does,
/// and each for `patience` at most.
int connect_to(const std::string& path, int flags) {
  const int connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
  if (connection < 0) return -1;
  for (const int waiting : {SO_SNDTIMEO, SO_RCVTIMEO})
    setsockopt(connection, SOL_SOCKET, waiting, &patience, sizeof patience);
  if (call(::connect, connection, path) == 0) return connection;
  const int error = errno;
  close(connection);
  errno = error;
  return -1;
}

/// The answer of an instance of this container, as JSON that is safe on a terminal; empty if it is not one
/// object.
std::string answer_at(const std::string& path) {
  const int connection = connect_to(path, 0);
  if (connection < 0) return {};
  std::string answer(longest_answer + 1, '\0');
  const ssize_t got =
      may_answer(connection) ? recv(connection, answer.data(), answer.size(), MSG_WAITALL) : 0;
  close(connection);
  answer.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  return answer.size() > longest_answer ? std::string() : json::ascii_object(answer);
}

/// Whether that is a socket of this user's; any other file must not be removed.
bool is_own_socket(const std::string& path) {
  struct stat status{};
  return lstat(path.c_str(), &status) == 0 && S_ISSOCK(status.st_mode) && status.st_uid == geteuid();
}

/// A name for the socket that only this PID namespace has (namespaces(7): the inode's number is the
/// namespace's); empty if /proc is missing.
std::string namespace_name() {
  struct stat numbers{};
  if (stat("/proc/self/ns/pid", &numbers) != 0) return {};
  return fmt::format("/rankshim-{}.sock", numbers.st_ino);
}

/// Whether several instances may be this user's, of several jobs: each has a socket of its own. A folder that
/// the user has named is for one, and so is a PID namespace of a container.
bool is_shared(const std::vector<std::string>& folders) {
  constexpr std::string_view of_the_machine = "/rankshim-4026531836.sock";  // proc_ns.h, PROC_PID_INIT_INO
  return folders.size() > 1 && namespace_name() == of_the_machine;
}

std::string name_of(pid_t instance) { return fmt::format("/rankshim-process-{}.sock", instance); }

/// Calls see(PID, PATH) for the socket of each instance of this machine.
template <class See>
void each_instance(const std::vector<std::string>& folders, const See& see) {
  for (const std::string& folder : folders) {
    Folder names(folder.c_str());
    while (const char* name = names.next()) {
      const std::string path = folder + "/" + name;
      const auto pid = first_number<pid_t>(text_after(name, "rankshim-process-"));
      if (pid && path == folder + name_of(*pid)) see(*pid, path);
    }
  }
}

/// The Slurm job that a process was started in; empty if it was in none, or is another user's.
std::string slurm_job_of(pid_t pid) {
  return std::string(value_in(read_proc(pid, "environ").value_or(""), "SLURM_JOB_ID"));
}

/// What a process's cgroups show of its job: Slurm's ("/job_7"), or else the groups; empty if it is in none.
std::string group_of(pid_t pid) {
  const auto read = read_file(fmt::format("/proc/{}/cgroup", pid));
  const auto* groups = std::get_if<std::string>(&read);
  if (groups == nullptr) return {};
  if (const auto job = groups->find("/job_"); job != std::string::npos)
    return groups->substr(job, groups->find_first_of("/\n", job + 1) - job);
  for (std::string_view rest = *groups; !rest.empty();)
    if (!take_line(rest).ends_with(":/")) return *groups;
  return {};
}

/// Whether that process is of this one's session or job.
bool belongs_to_us(pid_t pid) {
  // Where Slurm tracks no cgroups, all jobs are in slurmd's.
  const std::string job = slurm_job_of(getpid()), its = slurm_job_of(pid);
  if (!job.empty() || !its.empty()) return job == its;
  const std::string own = group_of(getpid());
  return getsid(pid) == getsid(0) || (!own.empty() && own == group_of(pid));
}

/// This process's ancestors, the nearest first.
std::vector<pid_t> ancestors() {
  constexpr std::size_t deepest = 1000;
  std::vector<pid_t> found;
  for (pid_t at = getppid(); at > 0 && found.size() < deepest;) {
    found.push_back(at);
    const auto process = read_process(at);
    at = process ? process->parent : 0;
  }
  return found;
}

/// Whether that process executes the same binary as this one.
bool is_rankshim(pid_t pid) {
  std::error_code unknown;
  const auto own = std::filesystem::read_symlink("/proc/self/exe", unknown);
  return !own.empty() && own == std::filesystem::read_symlink(fmt::format("/proc/{}/exe", pid), unknown);
}

/// Where this process's instance may answer on a machine that others use too: the nearest ancestor that is
/// one (and no other, even if it has no socket yet); without one, those of this process's session or job.
std::vector<std::string> paths_of_ours(const std::vector<std::string>& folders) {
  std::vector<std::string> paths;
  for (const pid_t pid : ancestors()) {
    for (const std::string& folder : folders) paths.push_back(folder + name_of(pid));
    if (is_rankshim(pid)) return paths;
  }
  each_instance(folders, [&](pid_t pid, const std::string& path) {
    if (belongs_to_us(pid)) paths.push_back(path);
  });
  return paths;
}

/// Removes the sockets of this user's instances that were killed.
void remove_left_sockets(const std::vector<std::string>& folders) {
  each_instance(folders, [](pid_t pid, const std::string& path) {
    if (kill(pid, 0) != 0 && errno == ESRCH && is_own_socket(path)) unlink(path.c_str());
  });
}

/// Where this instance may listen.
std::vector<std::string> paths_in(const std::vector<std::string>& folders) {
  std::vector<std::string> names = {"/rankshim.sock", namespace_name()};
  if (is_shared(folders)) names = {name_of(getpid())};
  std::vector<std::string> paths;
  for (const std::string& name : names) {
    for (const std::string& folder : folders)
      if (!name.empty()) paths.push_back(folder + name);
  }
  return paths;
}

}  // namespace

std::vector<std::string> socket_folders(std::string_view run_dir, const Environment& environment) {
  if (!run_dir.empty()) return {std::string(run_dir)};
  return {"/run", "/dev/shm", std::string(environment.get("TMPDIR").value_or("/tmp"))};
}

/// Removes the file if it is still this instance's.
Socket::~Socket() {
  struct stat now{};
  if (!path_.empty() && lstat(path_.c_str(), &now) == 0 && now.st_dev == device_ && now.st_ino == inode_)
    unlink(path_.c_str());
}

void Socket::open(const std::vector<std::string>& folders) {
  if (!path_.empty()) return;
  if (is_shared(folders)) remove_left_sockets(folders);
  int first_error = 0;
  std::string in_the_way;
  for (const std::string& path : paths_in(folders)) {
    const int error = open_at(path);
    if (error == EADDRINUSE) return warn_of_keeper(path);
    if (error == 0) {
      path_ = path;
      struct stat made{};
      if (lstat(path_.c_str(), &made) == 0) device_ = made.st_dev, inode_ = made.st_ino;
      if (!in_the_way.empty())
        log::warn("{}; rankshim status asks this one at {} instead", in_the_way, in_quotes(path));
      return listen();
    }
    if (first_error == 0) first_error = error;
    if (in_the_way.empty() && error == EBUSY)
      in_the_way = fmt::format("another container's rankshim answers at {}", in_quotes(path));
    if (in_the_way.empty() && error == EEXIST)
      in_the_way = fmt::format("the file at {} is not a left-over socket of this user", in_quotes(path));
  }
  log::warn(
      "rankshim status will not work: a socket cannot be created in {} ({}); set --run-dir "
      "(RANKSHIM_RUN_DIR)",
      folders.size() == 1 ? in_quotes(folders.front()) : "/run, /dev/shm or TMPDIR",
      std::strerror(first_error));
}

/// No warning if the keeper is an ancestor: a rankshim within another's command is as usual as a shell within
/// a shell.
void Socket::warn_of_keeper(const std::string& path) const {
  const bool is_ours = std::ranges::count(ancestors(), keeper_) != 0;
  log::logger().log(is_ours ? log::Level::debug : log::Level::warn,
                    "another rankshim answers at {}: rankshim status asks that one, and not this one",
                    in_quotes(path));
}

int Socket::open_at(const std::string& path) {
  const int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (descriptor < 0) return errno;
  int error = call(::bind, descriptor, path) == 0 ? 0 : errno;
  if (error == EADDRINUSE) {
    const int other = connect_to(path, SOCK_NONBLOCK);
    if (other >= 0) {
      const auto peer = peer_of(other);
      keeper_ = peer ? peer->pid : 0;
      if (keeper_ == 0) error = EBUSY;  // it has no number in this PID namespace
      ::close(other);
    } else if (errno == ECONNREFUSED && is_own_socket(path) && unlink(path.c_str()) == 0) {
      error = call(::bind, descriptor, path) == 0 ? 0 : errno;
    } else if (errno != EAGAIN) {  // which means that its queue is full
      error = EEXIST;
    }
  }
  if (error == 0 && ::listen(descriptor, backlog) != 0) error = errno;
  if (error != 0) {
    ::close(descriptor);
    return error;
  }
  return loop::adopt(listener_, descriptor);
}

void Socket::listen() {
  listener_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                       [this](const boost::system::error_code& error) {
                         if (error) return;
                         listen();  // first, for what the answer may throw
                         answer();
                       });
}

/// The text fits into the socket's buffer, so a client that does not read cannot delay rankshim.
void Socket::answer() {
  boost::system::error_code error;
  const int connection = accept4(listener_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (connection < 0) {
    if (errno == EAGAIN || errno == ECONNABORTED || errno == EINTR) return;
    log::warn("rankshim status no longer works: {}", std::strerror(errno));
    // Out of descriptors: otherwise the loop would spin on a connection that it cannot accept.
    listener_.close(error);
    return;
  }
  const std::string text = may_ask(connection) ? status_() : std::string();
  if (send(connection, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
    log::debug("a client did not read the answer to its status request");
  ::close(connection);
}

std::string ask(const std::vector<std::string>& folders) {
  const auto begin = steady_clock::now();
  while (true) {
    for (const std::string& path : is_shared(folders) ? paths_of_ours(folders) : paths_in(folders)) {
      std::string answer = answer_at(path);
      if (!answer.empty()) return answer;
    }
    if (steady_clock::now() - begin >= a_moment) return {};
    usleep(20'000);
  }
}

bool is_well(std::string_view answer) { return json::field(answer, "failed") == "false"; }

}  // namespace rankshim::status
