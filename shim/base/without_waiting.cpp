#include "base/without_waiting.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <string>

namespace rankshim::log {
namespace {

#ifndef RWF_NOWAIT
constexpr int RWF_NOWAIT = 8;
#endif

/// pwritev2(2) at the descriptor's current offset; by its number, because musl has it only since 1.2.5. Pipes
/// and devices accept RWF_NOWAIT since Linux 6.x; terminals and most file systems do not.
ssize_t write_now(int descriptor, std::string_view line) {
  const iovec part{const_cast<char*>(line.data()),
                   line.size()};  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  return syscall(SYS_pwritev2, descriptor, &part, 1, -1L, -1L, RWF_NOWAIT);
}

bool is_refused(int error) {
  return error == EOPNOTSUPP || error == ENOSYS || error == EINVAL || error == EPERM;
}

/// Opens the file anew, so that the open file description has separate flags.
ssize_t write_by_own_description(int descriptor, std::string_view line) {
  const std::string path = "/proc/self/fd/" + std::to_string(descriptor);
  const int own = open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (own >= 0) {
    const ssize_t written = ::write(own, line.data(), line.size());
    const int error = errno;
    close(own);
    errno = error;
    return written;
  }
  // Without /proc, or if the file belongs to another user, poll and hope that no other process fills the pipe
  // in between. A pipe that is writable takes PIPE_BUF bytes.
  pollfd ready{descriptor, POLLOUT, 0};
  errno = EAGAIN;
  if (poll(&ready, 1, 0) != 1 || (ready.revents & POLLOUT) == 0) return -1;
  return ::write(descriptor, line.data(), std::min<std::size_t>(line.size(), PIPE_BUF));
}

}  // namespace

bool write_without_waiting(int descriptor, std::string_view line) {
  return write_what_fits(descriptor, line) >= 0;
}

ssize_t write_what_fits(int descriptor, std::string_view text) {
  const ssize_t written = write_now(descriptor, text);
  if (written >= 0) return written;
  const bool refused = is_refused(errno);
  struct stat status{};
  if ((!refused && errno != EAGAIN) || fstat(descriptor, &status) != 0) return -1;
  if (S_ISREG(status.st_mode)) return ::write(descriptor, text.data(), text.size());
  if (!refused) return -1;
  if (S_ISSOCK(status.st_mode))
    return send(descriptor, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  return write_by_own_description(descriptor, text);
}

}  // namespace rankshim::log
