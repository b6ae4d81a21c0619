#include "report/files.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "log/log.h"

namespace rankshim {
namespace {

constexpr std::string_view default_path = "/dev/termination-log";

/// Writes all of it at the file's start and cuts what stood behind; 0 or errno. In this order, a kill in
/// between leaves something that can be read.
int fill(int file, std::string_view text) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t written = pwrite(file, text.data() + done, text.size() - done, static_cast<off_t>(done));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      const int error = written < 0 ? errno : EIO;
      if (ftruncate(file, static_cast<off_t>(done)) != 0) log::debug("half a file cannot be cut");
      return error;
    }
    done += static_cast<std::size_t>(written);
  }
  return ftruncate(file, static_cast<off_t>(text.size())) == 0 ? 0 : errno;
}

/// Another file takes its place at once, so that nobody ever reads half of one; 0 or errno.
int replace(const std::string& path, std::string_view text) {
  std::string temporary = path + ".XXXXXX";
  const int file = mkostemp(temporary.data(), O_CLOEXEC);
  if (file < 0) return errno;
  int error = fill(file, text);
  constexpr mode_t readable = 0644;  // mkostemp's is 0600
  if (fchmod(file, readable) != 0) log::debug("cannot make {} readable for others", path);
  if (close(file) != 0 && error == 0) error = errno;
  if (error == 0 && rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error != 0) unlink(temporary.c_str());
  return error;
}

/// What cannot be replaced: a mount (a Kubernetes volume's subPath), a file in a folder that is not ours.
bool stays_in_place(int error) {
  return error == EBUSY || error == EXDEV || error == EACCES || error == EPERM || error == EROFS;
}

/// In place, by a new file only where `make` says so; 0 or errno.
int rewrite(const std::string& path, std::string_view text, bool make) {
  constexpr mode_t everybody = 0666;
  const int file =
      open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | (make ? O_CREAT : 0), everybody);
  if (file < 0) return errno;
  const int error = fill(file, text);
  return close(file) != 0 && error == 0 ? errno : error;
}

/// What is no file to be replaced: a pipe, a terminal, a device, a socket, or a file that was opened for us.
struct Stream {
  int descriptor = -1;  // where it is open here; else it is to be opened
  mode_t type = 0;
};

/// The descriptor that the path names.
int descriptor_named(std::string_view path) {
  if (path == "/dev/stdout") return STDOUT_FILENO;
  if (path == "/dev/stderr") return STDERR_FILENO;
  for (const std::string_view folder : {"/dev/fd/", "/proc/self/fd/"}) {
    int descriptor = -1;
    if (path.starts_with(folder)) {
      std::from_chars(path.data() + folder.size(), path.data() + path.size(), descriptor);
      return descriptor;
    }
  }
  return -1;
}

std::optional<Stream> stream_at(const std::string& path) {
  struct stat status{};
  if (stat(path.c_str(), &status) != 0) return std::nullopt;
  Stream stream{descriptor_named(path), status.st_mode & S_IFMT};
  // By another name too: replaced, it would lose what stdout and stderr have written.
  for (const int own : {STDOUT_FILENO, STDERR_FILENO}) {
    struct stat open_file{};
    if (fstat(own, &open_file) == 0 && open_file.st_dev == status.st_dev && open_file.st_ino == status.st_ino)
      stream.descriptor = own;
  }
  if (stream.descriptor < 0 && (stream.type == S_IFREG || stream.type == S_IFDIR)) return std::nullopt;
  return stream;
}

/// Writes behind what is there; 0 or errno. Who does not read is waited for a moment.
int append(int file, std::string_view text, bool socket) {
  constexpr int patience = 2000;  // ms, for the next few bytes each
  while (!text.empty()) {
    const ssize_t written = socket ? send(file, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL)
                                   : write(file, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
      continue;
    }
    pollfd ready{file, POLLOUT, 0};
    if (errno == EAGAIN && poll(&ready, 1, patience) <= 0) return ETIMEDOUT;
    if (errno != EAGAIN && errno != EINTR) return errno;
  }
  return 0;
}

/// 0 or errno. A pipe or terminal is opened anew: only so a write that would wait does not, for us alone.
int write_to(const Stream& stream, const std::string& path, std::string_view text) {
  const bool socket = stream.type == S_IFSOCK;
  if (stream.descriptor >= 0 && (socket || stream.type == S_IFREG))
    return append(stream.descriptor, text, socket);
  const int file = open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (file < 0) return errno;
  const int error = append(file, text, false);
  close(file);
  return error;
}

/// Where a link leads, though nothing be there yet.
std::string target_of(std::string path) {
  constexpr int most_links = 40;  // path_resolution(7)
  std::array<char, PATH_MAX> target{};
  for (int links = 0; links < most_links; ++links) {
    const ssize_t length = readlink(path.c_str(), target.data(), target.size());
    if (length <= 0) break;
    const std::string_view next(target.data(), static_cast<std::size_t>(length));
    path = next.starts_with('/') ? std::string(next) : path.substr(0, path.rfind('/') + 1).append(next);
  }
  return path;
}

}  // namespace

bool replace_file(const std::string& path, std::string_view text) {
  const std::optional<Stream> stream = stream_at(path);
  int error = stream ? write_to(*stream, path, text) : replace(target_of(path), text);
  if (!stream && stays_in_place(error)) error = rewrite(path, text, false);
  if (error != 0)
    log::warn("the report cannot be written to {} ({}); set --report (RANKSHIM_REPORT)", path,
              std::strerror(error));
  return !stream && error == 0;
}

std::string new_file(const std::string& folder, std::string_view text) {
  std::string path = folder + "/rankshim-report-XXXXXX";
  const int file = mkostemp(path.data(), O_CLOEXEC);
  int error = file < 0 ? errno : fill(file, text);
  if (file >= 0 && close(file) != 0 && error == 0) error = errno;
  if (error == 0) return path;
  log::warn("the report for the hook cannot be written to {} ({}); set TMPDIR", folder, std::strerror(error));
  if (file >= 0) unlink(path.c_str());
  return {};
}

TerminationLog::TerminationLog(std::string path) : path_(std::move(path)), make_(path_ != default_path) {
  if (path_ == "none") path_.clear();
}

bool TerminationLog::exists() const { return !path_.empty() && (make_ || access(path_.c_str(), W_OK) == 0); }

void TerminationLog::provisional(std::string_view line) {
  if (stream_at(path_)) return;  // what is written there stays
  provisional_ += line;
  provisional_ += '\n';
  write(provisional_);
}

void TerminationLog::finish(std::string_view text) {
  if (text.empty() && provisional_.empty()) return;
  write(text);
}

void TerminationLog::write(std::string_view text) {
  if (path_.empty()) return;
  if (const std::optional<Stream> stream = stream_at(path_)) {
    const int error = write_to(*stream, path_, cut(text, longest));
    if (error != 0) warn(error);
    return;
  }
  const int error = rewrite(path_, cut(text, longest), make_);
  if (error != 0 && (error != ENOENT || make_)) warn(error);
}

void TerminationLog::warn(int error) const {
  log::warn("the termination log {} cannot be written ({}); set --termination-log (RANKSHIM_TERMINATION_LOG)",
            path_, std::strerror(error));
}

std::string_view cut(std::string_view text, std::size_t size) {
  if (text.size() <= size) return text;
  while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xC0U) == 0x80U) --size;
  return text.substr(0, size);
}

}  // namespace rankshim
