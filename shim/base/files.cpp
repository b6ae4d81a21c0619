#include "base/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace rankshim {
namespace {

/// Returns 0 if reading the descriptor terminates and consumes nothing, otherwise an errno that says why it
/// must not be read.
int refusal(int descriptor) {
  struct stat status{};
  if (fstat(descriptor, &status) != 0) return errno;
  if (S_ISREG(status.st_mode)) return 0;
  if (S_ISCHR(status.st_mode) && status.st_rdev == makedev(1, 3)) return 0;  // /dev/null
  return S_ISDIR(status.st_mode) ? EISDIR : EINVAL;
}

}  // namespace

std::string Unreadable::why() const {
  return error == EINVAL ? "it is not a regular file" : std::strerror(error);
}

std::variant<std::string, Unreadable> read_file(const std::string& path, std::size_t most) {
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (file.number() < 0) return Unreadable{errno};
  int error = refusal(file.number());
  std::string content;
  std::array<char, 4096> chunk{};
  while (error == 0 && content.size() <= most) {
    const ssize_t got = read(file.number(), chunk.data(), chunk.size());
    if (got < 0) error = errno;
    if (got <= 0) break;
    content.append(chunk.data(), std::min(static_cast<std::size_t>(got), most + 1 - content.size()));
  }
  if (error != 0) return Unreadable{error};
  return content;
}

const char* Folder::next() {
  if (folder_ == nullptr) return nullptr;
  while (const dirent* entry = readdir(folder_.get())) {
    const char* name = entry->d_name;  // no lengths: /dev has hundreds, and is read at each start
    const bool skipped = name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0'));
    if (!skipped) return name;
  }
  return nullptr;
}

}  // namespace rankshim
