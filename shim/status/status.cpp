#include "status/status.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "log/log.h"
#include "platform/json_field.h"

namespace rankshim::status {
namespace {

constexpr std::string_view file_name = "/rankshim.sock";
constexpr int backlog = 8;
constexpr timeval patience{5, 0};

/// The address of a path; a length of 0 where it is too long for one.
struct Address {
  sockaddr_un place{};
  socklen_t length = 0;

  explicit Address(const std::string& path) {
    place.sun_family = AF_UNIX;
    if (path.size() >= sizeof place.sun_path) return;
    std::memcpy(place.sun_path, path.c_str(), path.size() + 1);
    length = sizeof place;
  }
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&place); }
};

/// Whether the other side is our own user; an instance also answers root, and root asks everybody's.
bool is_trusted(int connection, bool we_ask) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return false;
  if (we_ask && peer.pid == 0) return false;  // no number in our PID namespace
  return peer.uid == geteuid() || (we_ask ? geteuid() : peer.uid) == 0;
}

/// A connection to whoever listens there, or −1.
int connect_to(const std::string& path, int flags) {
  const Address address(path);
  if (address.length == 0) return -1;
  const int connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
  if (connection < 0) return -1;
  // connect(2) waits for this long too, where so many ask that the queue is full.
  setsockopt(connection, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  if (connect(connection, address.get(), address.length) == 0) return connection;
  const int error = errno;
  close(connection);
  errno = error;
  return -1;
}

}  // namespace

std::vector<std::string> socket_paths(std::string_view run_dir, const Environment& environment) {
  std::vector<std::string> paths;
  for (const std::string_view folder : {run_dir, std::string_view("/run"), std::string_view("/dev/shm"),
                                        environment.get("TMPDIR").value_or("/tmp")}) {
    if (!folder.empty()) paths.push_back(std::string(folder) + std::string(file_name));
  }
  return paths;
}

Socket::~Socket() { close(); }

void Socket::close() {
  if (path_.empty()) return;
  unlink(path_.c_str());
  path_.clear();
  boost::system::error_code ignored;
  listener_.close(ignored);
}

void Socket::open(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    switch (open_at(path)) {
      case Opened::yes:
        path_ = path;
        listen();
        return;
      case Opened::taken:
        log::debug("another rankshim answers at {}: rankshim status asks that one", path);
        return;
      case Opened::no:
        break;
    }
  }
  log::warn(
      "rankshim status will find nothing: no socket can be made in /run, /dev/shm or TMPDIR; set "
      "--run-dir (RANKSHIM_RUN_DIR)");
}

Socket::Opened Socket::open_at(const std::string& path) {
  const Address address(path);
  if (address.length == 0) return Opened::no;
  const int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (descriptor < 0) return Opened::no;
  int bound = bind(descriptor, address.get(), address.length);
  if (bound != 0 && errno == EADDRINUSE) {
    const int other = connect_to(path, SOCK_NONBLOCK);
    if (other >= 0 || errno == EAGAIN) {
      if (other >= 0) ::close(other);
      ::close(descriptor);
      return Opened::taken;
    }
    if (errno == ECONNREFUSED && unlink(path.c_str()) == 0)
      bound = bind(descriptor, address.get(), address.length);
  }
  if (bound != 0 || ::listen(descriptor, backlog) != 0) {
    ::close(descriptor);
    return Opened::no;
  }
  listener_.assign(descriptor);
  return Opened::yes;
}

void Socket::listen() {
  listener_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                       [this](const boost::system::error_code& error) {
                         if (error) return;
                         answer();
                         listen();
                       });
}

/// The text fits into the socket's buffer, so nobody who does not read can delay us.
void Socket::answer() {
  const int connection = accept4(listener_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (connection < 0) {
    if (errno == EAGAIN || errno == ECONNABORTED || errno == EINTR) return;
    log::warn("rankshim status can be asked no longer: {}", std::strerror(errno));
    boost::system::error_code ignored;
    listener_.close(ignored);  // out of descriptors: the loop would spin on what it cannot accept
    return;
  }
  if (is_trusted(connection, false)) {
    const std::string text = source_.status();
    if (send(connection, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
      log::debug("nobody took the answer to a status question");
  }
  ::close(connection);
}

std::string ask(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    const int connection = connect_to(path, 0);
    if (connection < 0) continue;
    std::string answer;
    if (is_trusted(connection, true)) {
      setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
      std::array<char, 4096> buffer{};
      ssize_t got = 0;
      while ((got = read(connection, buffer.data(), buffer.size())) > 0)
        answer.append(buffer.data(), static_cast<std::size_t>(got));
    }
    close(connection);
    if (!answer.empty()) return answer;
  }
  return {};
}

bool is_well(std::string_view answer, std::string_view phase) {
  if (platform::json_field(answer, "failed") != "false") return false;
  return phase.empty() || platform::json_field(answer, "phase") == phase;
}

}  // namespace rankshim::status
