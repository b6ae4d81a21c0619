#include "run/status.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <limits>
#include <optional>
#include <system_error>

#include "base/files.h"
#include "base/json.h"
#include "base/log.h"
#include "base/text.h"
#include "loop/loop.h"
#include "node/process.h"
#include "report/phase.h"

namespace rankshim::run::status {
namespace {

using std::chrono::steady_clock;

constexpr int backlog = 8;
constexpr std::string_view prefix = "rankshim-";
constexpr timeval patience{5, 0};
constexpr std::chrono::milliseconds a_moment{500};  // an instance that has just started has no socket yet

/// Calls bind(2) or connect(2) with the address of a path; −1 and errno if that fails.
int call(int (*with_address)(int, const sockaddr*, socklen_t), int socket, const std::string& path) {
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  if (path.copy(address.sun_path, sizeof address.sun_path) == sizeof address.sun_path) {
    errno = ENAMETOOLONG;
    return -1;
  }
  return with_address(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address);
}

/// The inode number of this process's PID namespace (namespaces(7)); 0 if there is no /proc.
ino_t pid_namespace() {
  struct stat status{};
  return stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

/// The suffix of a socket's name.
std::string_view suffix_of(Question question) {
  constexpr std::array<std::string_view, 3> suffixes = {".sock", ".stacks", ".metrics"};
  return suffixes[static_cast<std::size_t>(question)];
}

/// "rankshim-4026531836-": several containers may share a folder.
std::string prefix_in_namespace() { return fmt::format("{}{}-", prefix, pid_namespace()); }

/// The credentials of the other side; nullopt if the kernel does not give them.
std::optional<ucred> peer_of(int connection) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return std::nullopt;
  return peer;
}

/// Whether an instance of that user may answer: root, this process's user, or the user of PID 1, unless that
/// is the placeholder for users that are unknown in a user namespace (user_namespaces(7),
/// /proc/sys/kernel/overflowuid).
bool is_trusted(uid_t user) {
  constexpr uid_t unknown = 65534;
  struct stat first{};
  return user == 0 || user == geteuid() ||
         (user != unknown && stat("/proc/1", &first) == 0 && first.st_uid == user);
}

/// Whether the other side belongs to this container and to a trusted user. Any user may own the folder.
bool may_answer(int connection) {
  const auto peer = peer_of(connection);
  return peer && peer->pid != 0 && is_trusted(peer->uid);  // 0: it has no pid in this PID namespace
}

/// The answer of an instance of this container, as JSON that is safe on a terminal; empty if it is not a
/// single object.
std::string answer_at(const std::string& path) {
  const int connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connection < 0) return {};
  // connect(2) blocks if the queue is full, just as recv(2) blocks.
  for (const int waiting : {SO_SNDTIMEO, SO_RCVTIMEO})
    setsockopt(connection, SOL_SOCKET, waiting, &patience, sizeof patience);
  std::string answer(longest_answer + 1, '\0');
  const bool asked = call(::connect, connection, path) == 0 && may_answer(connection);
  const ssize_t got = asked ? recv(connection, answer.data(), answer.size(), MSG_WAITALL) : 0;
  close(connection);
  answer.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  return answer.size() > longest_answer ? std::string() : json::ascii_object(answer);
}

/// An instance and its socket.
struct Instance {
  pid_t pid = 0;
  std::string path;
};

/// Finds all instances: those of this PID namespace first, the oldest first as far as their pids show, and
/// then those of others, whose pids mean nothing here. Sockets that an untrusted user put there are not even
/// asked.
std::vector<Instance> find_instances(const std::vector<std::string>& folders, Question question) {
  constexpr pid_t of_another = std::numeric_limits<pid_t>::max();
  const std::string own = prefix_in_namespace();
  std::vector<Instance> found;
  for (const std::string& folder : folders) {
    Folder names(folder.c_str());
    while (const char* entry = names.next()) {
      const std::string_view name = entry;
      const std::string path = folder + "/" + entry;
      struct stat status{};
      if (!name.starts_with(prefix) || !name.ends_with(suffix_of(question)) ||
          lstat(path.c_str(), &status) != 0 || !S_ISSOCK(status.st_mode) || !is_trusted(status.st_uid))
        continue;
      const auto pid = name.starts_with(own) ? first_number<pid_t>(name.substr(own.size())) : std::nullopt;
      found.push_back({pid.value_or(of_another), path});
    }
  }
  std::ranges::sort(found, {}, &Instance::pid);
  return found;
}

/// The Slurm job that a process was started in; empty if there was none, or it belongs to another user.
std::string slurm_job_of(pid_t pid) {
  return std::string(node::value_in(node::read_proc(pid, "environ").value_or(""), "SLURM_JOB_ID"));
}

/// Whether that process belongs to this one's job, or to its session if neither is in a job.
bool belongs_to_us(pid_t pid) {
  const std::string job = slurm_job_of(getpid()), its = slurm_job_of(pid);
  return job == its && (!job.empty() || getsid(pid) == getsid(0));
}

/// Whether that process executes the same binary as this one.
bool is_rankshim(pid_t pid) {
  std::error_code unknown;
  const auto own = std::filesystem::read_symlink("/proc/self/exe", unknown);
  return !own.empty() && own == std::filesystem::read_symlink(fmt::format("/proc/{}/exe", pid), unknown);
}

/// Whether nobody listens at the socket: an instance that was killed left it, and its pid may be another
/// process's by now.
bool is_left_over(const std::string& path) {
  const UniqueFd connection(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  return call(::connect, connection.number(), path) != 0 && errno == ECONNREFUSED;
}

/// The instances that may answer this process: its nearest ancestor; or if there is none, all of them, but on
/// a shared machine only those of this process's session or job.
std::vector<Instance> instances_for_us(const std::vector<std::string>& folders, Question question) {
  std::vector<Instance> found = find_instances(folders, question);
  // This user's instances may belong to several jobs, unless in a folder that the user has named or in a
  // container.
  constexpr ino_t of_the_machine = 4026531836;  // proc_ns.h, PROC_PID_INIT_INO
  const bool shared = folders.size() > 1 && pid_namespace() == of_the_machine;
  for (pid_t pid = getppid(); pid > 0;) {
    const auto one = std::ranges::find(found, pid, &Instance::pid);
    if (one != found.end() && !is_left_over(one->path)) return {*one};
    if (shared && is_rankshim(pid)) return {};  // it has no socket yet
    const auto process = node::read_process(pid);
    pid = process ? process->parent : 0;
  }
  if (shared) std::erase_if(found, [](const Instance& one) { return !belongs_to_us(one.pid); });
  return found;
}

}  // namespace

std::vector<std::string> socket_folders(std::string_view run_dir, const node::Environment& environment) {
  if (!run_dir.empty()) return {std::string(run_dir)};
  return {"/run", "/dev/shm", std::string(environment.get("TMPDIR").value_or("/tmp"))};
}

Socket::~Socket() {
  if (!path_.empty()) unlink(path_.c_str());
}

void Socket::open(const std::vector<std::string>& folders) {
  if (!path_.empty()) return;
  const std::string name = fmt::format("/{}{}{}", prefix_in_namespace(), getpid(), suffix_of(question_));
  int first_error = 0;
  for (const std::string& folder : folders) {
    const int error = open_at(folder + name);
    if (error == 0) return listen();
    if (first_error == 0) first_error = error;
  }
  log::warn(
      "rankshim status will not work: cannot create a socket in {} ({}); set --run-dir "
      "(RANKSHIM_RUN_DIR)",
      folders.size() == 1 ? in_quotes(folders.front()) : "/run, /dev/shm or TMPDIR",
      std::strerror(first_error));
}

/// A file of that name was left by a process with this pid that was killed.
int Socket::open_at(const std::string& path) {
  const int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (descriptor < 0) return errno;
  unlink(path.c_str());
  if (call(::bind, descriptor, path) != 0 || ::listen(descriptor, backlog) != 0) {
    const int error = errno;
    ::close(descriptor);
    return error;
  }
  path_ = path;
  return loop::assign_fd(listener_, descriptor);
}

void Socket::listen() {
  listener_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                       [this](const boost::system::error_code& error) {
                         if (error) return;
                         listen();  // first, because the answer may throw
                         answer();
                       });
}

/// The text fits into the socket's buffer, so a client that does not read cannot delay rankshim.
void Socket::answer() {
  boost::system::error_code error;
  const auto connection = std::make_shared<UniqueFd>(
      accept4(listener_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (connection->number() < 0) {
    if (errno == EAGAIN || errno == ECONNABORTED || errno == EINTR) return;
    log::warn("rankshim status no longer works: {}", std::strerror(errno));
    // There are no descriptors left. Without this the loop would spin on a connection that it cannot accept.
    listener_.close(error);
    return;
  }
  const auto peer = peer_of(connection->number());
  if (!peer || (peer->uid != geteuid() && peer->uid != 0)) return;
  answer_([connection](const std::string& text) {
    if (send(connection->number(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
      log::debug("a client did not read the answer to its status request");
  });
}

std::string ask(const std::vector<std::string>& folders, Question question) {
  const auto begin = steady_clock::now();
  while (true) {
    for (const Instance& one : instances_for_us(folders, question)) {
      std::string answer = answer_at(one.path);
      if (!answer.empty()) return answer;
    }
    if (steady_clock::now() - begin >= a_moment) return {};
    usleep(20'000);
  }
}

bool is_well(std::string_view answer) { return json::field(answer, "failed") == "false"; }

bool is_ready(std::string_view answer) {
  return is_well(answer) && json::field(answer, "phase") == report::name(report::PhaseName::run);
}

}  // namespace rankshim::run::status
