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

}  // namespace

void replace_file(const std::string& path, std::string_view text) {
  std::string temporary = path + ".XXXXXX";
  const int file = mkostemp(temporary.data(), O_CLOEXEC);
  int error = file < 0 ? errno : fill(file, text);
  if (file >= 0) {
    constexpr mode_t readable = 0644;  // mkostemp's is 0600
    if (fchmod(file, readable) != 0) log::debug("cannot make {} readable for others", path);
    if (close(file) != 0 && error == 0) error = errno;
    if (error == 0 && rename(temporary.c_str(), path.c_str()) != 0) error = errno;
    if (error != 0) unlink(temporary.c_str());
  }
  if (error != 0)
    log::warn("the report cannot be written to {} ({}); set --report (RANKSHIM_REPORT)", path,
              std::strerror(error));
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
