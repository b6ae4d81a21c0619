#include "report/files.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/log.h"
#include "base/text.h"

namespace rankshim::report {
namespace {

constexpr std::string_view kubelets_path = "/dev/termination-log";
constexpr mode_t everybody = 0666;

/// Writes the text at the file's start, then truncates the rest; 0 or errno. In this order, being killed in
/// between leaves a readable file.
int fill(int file, std::string_view text) {
  std::size_t done = 0;
  int error = 0;
  while (done < text.size() && error == 0) {
    const ssize_t written = pwrite(file, text.data() + done, text.size() - done, static_cast<off_t>(done));
    if (written > 0) done += static_cast<std::size_t>(written);
    if (written == 0) error = EIO;
    if (written < 0 && errno != EINTR) error = errno;
  }
  return ftruncate(file, static_cast<off_t>(done)) != 0 && error == 0 ? errno : error;
}

/// Closes the file after writing to it, which may have failed with `error`; 0 or the first errno.
int closed(int file, int error) { return close(file) != 0 && error == 0 ? errno : error; }

/// Replaces the file atomically, so that no reader sees an incomplete one; 0 or errno. The new file gets the
/// mode and, as far as permitted, the owner of the old one. A symbolic link is replaced, not followed.
int replace(const std::string& path, std::string_view text) {
  constexpr mode_t permissions = 0777;
  struct stat before{};
  const bool is_there = lstat(path.c_str(), &before) == 0 && S_ISREG(before.st_mode);
  std::string temporary = path + ".XXXXXX";
  const int file = mkostemp(temporary.data(), O_CLOEXEC);
  if (file < 0) return errno;
  const mode_t mask = umask(0);
  umask(mask);
  if (is_there && fchown(file, before.st_uid, before.st_gid) != 0)
    log::debug("{} has a different owner now", path);
  if (fchmod(file, is_there ? before.st_mode & permissions : everybody & ~mask) != 0)
    log::debug("{} has a different mode now", path);
  int error = closed(file, fill(file, text));
  if (error == 0 && rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error != 0) unlink(temporary.c_str());
  return error;
}

/// Whether the error means that the file cannot be replaced, because it is a mount (a Kubernetes volume's
/// subPath), or in a folder that is not writable.
bool stays_in_place(int error) {
  return error == EBUSY || error == EXDEV || error == EACCES || error == EPERM || error == EROFS;
}

/// The descriptor that the path names, or whose file it is another name of if that is stdout or stderr:
/// replacing that file would lose what was written to it. −1 if there is none.
int descriptor_of(std::string_view path) {
  if (path == "/dev/stdout") return STDOUT_FILENO;
  if (path == "/dev/stderr") return STDERR_FILENO;
  const std::string_view number = base_name(path), folder = path.substr(0, path.size() - number.size());
  if (folder == "/dev/fd/" || folder == "/proc/self/fd/" || folder == fmt::format("/proc/{}/fd/", getpid()))
    return parse_number<int>(number).value_or(-1);
  struct stat named{}, own{};
  if (lstat(std::string(path).c_str(), &named) != 0) return -1;
  for (const int output : {STDOUT_FILENO, STDERR_FILENO})
    if (fstat(output, &own) == 0 && own.st_dev == named.st_dev && own.st_ino == named.st_ino) return output;
  return -1;
}

/// Whether the path may get a new file: not if it names an open descriptor, a pipe, a terminal, a device or a
/// socket.
bool is_replaceable(const std::string& path) {
  if (descriptor_of(path) >= 0) return false;
  struct stat status{};
  if (lstat(path.c_str(), &status) != 0) return true;
  const mode_t type = status.st_mode & S_IFMT;
  return type == S_IFREG || type == S_IFDIR || type == S_IFLNK;
}

/// Appends the text; 0 or errno. Waits a moment for a reader that is not reading.
int append(int file, std::string_view text) {
  constexpr int patience = 2000;  // ms, for every few bytes
  while (!text.empty()) {
    const ssize_t written = log::write_what_fits(file, text);
    pollfd ready{file, POLLOUT, 0};
    if (written >= 0)
      text.remove_prefix(static_cast<std::size_t>(written));
    else if (errno != EAGAIN && errno != EINTR)
      return errno;
    else if (errno == EAGAIN && poll(&ready, 1, patience) <= 0)
      return ETIMEDOUT;
  }
  return 0;
}

/// Writes to what is there, and creates a file only if `make` is set; 0 or errno. A file's content is
/// replaced; to anything that is not replaceable the text is appended. Follows neither symbolic nor hard
/// links, and never waits for somebody to open a pipe.
int write_in_place(const std::string& path, std::string_view text, bool make) {
  const int creates = make ? O_CREAT : 0;
  constexpr int flags = O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | O_NOFOLLOW;
  const int own = descriptor_of(path);
  const int file = own >= 0 ? fcntl(own, F_DUPFD_CLOEXEC, 0) : open(path.c_str(), flags | creates, everybody);
  struct stat status{};
  if (file < 0) return errno;
  if (own >= 0 || fstat(file, &status) != 0 || !S_ISREG(status.st_mode))
    return closed(file, append(file, text));
  return closed(file, status.st_nlink > 1 ? EMLINK : fill(file, text));
}

/// Whether writing there may block on a dead server (statfs(2)).
bool is_on_network(const std::string& folder) {
  constexpr auto networks = std::to_array<std::uint32_t>({
      NFS_SUPER_MAGIC,
      SMB_SUPER_MAGIC,
      CIFS_SUPER_MAGIC,
      SMB2_SUPER_MAGIC,
      CEPH_SUPER_MAGIC,
      AFS_SUPER_MAGIC,
      FUSE_SUPER_MAGIC,
      0x0BD00BD0,  // Lustre (lustre_user.h, LL_SUPER_MAGIC)
      0x47504653,  // GPFS
      0x19830326,  // BeeGFS (FhgfsOpsSuper.h, BEEGFS_MAGIC)
  });
  struct statfs status{};
  return statfs(folder.c_str(), &status) == 0 &&
         std::ranges::find(networks, static_cast<std::uint32_t>(status.f_type)) != networks.end();
}

/// Why there can be no metrics file at that path; empty if there can.
std::string why_no_metrics(const std::string& path) {
  const std::string folder = path.substr(0, path.rfind('/') + 1);
  if (is_on_network(folder.empty() ? "." : folder)) return "its folder is on a network's file system";
  struct stat status{};
  if (lstat(path.c_str(), &status) != 0 || S_ISREG(status.st_mode) || S_ISLNK(status.st_mode)) return "";
  return "there is something that is not a file";
}

std::string why(int error) {
  return error == ELOOP ? "a symbolic link is not followed" : std::strerror(error);
}

}  // namespace

bool replace_file(const std::string& path, std::string_view text) {
  const bool replaceable = is_replaceable(path);
  int error = replaceable ? replace(path, text) : write_in_place(path, text, false);
  if (replaceable && stays_in_place(error)) {
    const int in_place = write_in_place(path, text, false);
    if (in_place != ENOENT) error = in_place;  // otherwise report why none can be created
  }
  if (error != 0)
    log::warn("the report cannot be written to {} ({}); set --report (RANKSHIM_REPORT)", path, why(error));
  return replaceable && error == 0;
}

std::string new_file(const std::string& folder, std::string_view text) {
  std::string path = folder + "/rankshim-report-XXXXXX";
  const int file = mkostemp(path.data(), O_CLOEXEC);
  const int error = file < 0 ? errno : closed(file, fill(file, text));
  if (error == 0) return path;
  log::warn("the report for the hook cannot be written to {} ({}); set TMPDIR", folder, std::strerror(error));
  if (file >= 0) unlink(path.c_str());
  return {};
}

void MetricsFile::write(std::string_view text) {
  if (path_.empty() || text == written_) return;
  std::string refused = why_no_metrics(path_);
  if (refused.empty())
    if (const int error = replace(path_, text); error != 0) refused = std::strerror(error);
  if (refused.empty()) {
    written_ = text;
  } else if (refused != told_) {
    log::warn("the metrics cannot be written to {} ({}); set --metrics-file (RANKSHIM_METRICS_FILE)", path_,
              refused);
    told_ = refused;
  }
}

TerminationLog::TerminationLog(std::string path) : path_(std::move(path)), make_(path_ != kubelets_path) {
  if (path_ == "none") path_.clear();
}

bool TerminationLog::exists() const { return !path_.empty() && (make_ || access(path_.c_str(), W_OK) == 0); }

void TerminationLog::provisional(std::string_view line) {
  if (!is_replaceable(path_)) return;  // what was appended to it cannot be removed
  written_ += line;
  written_ += '\n';
  write(written_);
}

void TerminationLog::finish(std::string_view text) {
  if (text.empty() && written_.empty()) return;
  written_ = text;
  write(text);
}

void TerminationLog::write(std::string_view text) {
  if (path_.empty()) return;
  const int error = write_in_place(path_, cut(text, longest), make_);
  if (error != 0 && (make_ || access(path_.c_str(), F_OK) == 0))
    log::warn(
        "the termination log {} cannot be written ({}); set --termination-log (RANKSHIM_TERMINATION_LOG)",
        path_, why(error));
}

}  // namespace rankshim::report
