#include "report/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
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

/// Whether there is something that must not be replaced: a pipe, a terminal, a device.
bool is_stream(const std::string& path) {
  struct stat status{};
  return stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
}

/// Writes to what is there; 0 or errno. Nobody who does not read can stop us.
int write_to(const std::string& path, std::string_view text) {
  const int file = open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (file < 0) return errno;
  int error = 0;
  while (!text.empty() && error == 0) {
    const ssize_t written = write(file, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno != EINTR) {
      error = errno;
    }
  }
  close(file);
  return error;
}

/// Where a link leads; the path itself where it is none or leads nowhere.
std::string target_of(const std::string& path) {
  char* const real = realpath(path.c_str(), nullptr);
  std::string target = real == nullptr ? path : real;
  std::free(real);  // NOLINT(cppcoreguidelines-no-malloc): realpath(3)'s
  return target;
}

}  // namespace

bool replace_file(const std::string& path, std::string_view text) {
  const int error = is_stream(path) ? write_to(path, text) : replace(target_of(path), text);
  if (error != 0)
    log::warn("the report cannot be written to {} ({}); set --report (RANKSHIM_REPORT)", path,
              std::strerror(error));
  return error == 0;
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
