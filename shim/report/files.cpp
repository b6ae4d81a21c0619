#include "report/files.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>

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
    if (written <= 0) return written < 0 ? errno : EIO;
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

/// What has this file open: stdout or stderr, or −1. Replaced, it would lose what they have written.
int stream_of(const struct stat& file) {
  for (const int stream : {STDOUT_FILENO, STDERR_FILENO}) {
    struct stat open_file{};
    if (fstat(stream, &open_file) == 0 && open_file.st_dev == file.st_dev && open_file.st_ino == file.st_ino)
      return stream;
  }
  return -1;
}

/// Writes behind what is there; 0 or errno. Who does not read is waited for a moment.
int append(int file, std::string_view text) {
  constexpr int patience = 2000;  // ms, for the next few bytes each
  while (!text.empty()) {
    const ssize_t written = write(file, text.data(), text.size());
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

/// To a pipe, a terminal or a device.
int write_to(const std::string& path, std::string_view text) {
  const int file = open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (file < 0) return errno;
  const int error = append(file, text);
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
  struct stat status{};
  const bool there = stat(path.c_str(), &status) == 0;
  const int stream = there ? stream_of(status) : -1;
  const bool replaces = !there || (stream < 0 && (S_ISREG(status.st_mode) || S_ISDIR(status.st_mode)));
  const int error = replaces                  ? replace(target_of(path), text)
                    : S_ISREG(status.st_mode) ? append(stream, text)
                                              : write_to(path, text);
  if (error != 0)
    log::warn("the report cannot be written to {} ({}); set --report (RANKSHIM_REPORT)", path,
              std::strerror(error));
  return replaces && error == 0;
}

TerminationLog::TerminationLog(std::string path) : path_(std::move(path)), make_(path_ != default_path) {
  if (path_ == "none") path_.clear();
}

bool TerminationLog::exists() const { return !path_.empty() && (make_ || access(path_.c_str(), W_OK) == 0); }

void TerminationLog::provisional(std::string_view line) {
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
  constexpr mode_t everybody = 0666;
  const int file =
      open(path_.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | (make_ ? O_CREAT : 0), everybody);
  if (file < 0 && errno == ENOENT && !make_) return;
  int error = file < 0 ? errno : fill(file, cut(text, longest));
  if (file >= 0 && close(file) != 0 && error == 0) error = errno;
  if (error != 0)
    log::warn(
        "the termination log {} cannot be written ({}); set --termination-log "
        "(RANKSHIM_TERMINATION_LOG)",
        path_, std::strerror(error));
}

std::string_view cut(std::string_view text, std::size_t size) {
  if (text.size() <= size) return text;
  while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xC0U) == 0x80U) --size;
  return text.substr(0, size);
}

}  // namespace rankshim
