#include "report/resolved_path.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>

namespace rankshim {
namespace {

constexpr int most_links = 40;  // path_resolution(7)

bool is_ours(uid_t owner) { return owner == 0 || owner == geteuid(); }

/// Whether no other user can have put that link there.
bool is_trusted(const struct stat& link, int folder) {
  if (is_ours(link.st_uid)) return true;
  struct stat around{};
  return fstat(folder, &around) == 0 && is_ours(around.st_uid) && (around.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

bool is_proc(int file) {
  struct statfs system{};
  return fstatfs(file, &system) == 0 && system.f_type == PROC_SUPER_MAGIC;
}

/// Cuts the first part off a path, with the slashes around it.
std::string take_part(std::string& path) {
  const auto begin = path.find_first_not_of('/');
  if (begin == std::string::npos) return path.clear(), std::string();
  const auto end = path.find('/', begin);
  std::string part = path.substr(begin, end == std::string::npos ? end : end - begin);
  const auto next = end == std::string::npos ? end : path.find_first_not_of('/', end);
  path = next == std::string::npos ? std::string() : path.substr(next);
  return part;
}

}  // namespace

ResolvedPath::ResolvedPath(const std::string& path) : error_(walk(path)) {}

ResolvedPath::~ResolvedPath() {
  if (folder_ >= 0) close(folder_);
}

void ResolvedPath::enter(int folder) {
  if (folder_ >= 0) close(folder_);
  folder_ = folder;
}

int ResolvedPath::walk(std::string rest) {
  constexpr int look = O_PATH | O_CLOEXEC;
  enter(open(rest.starts_with('/') ? "/" : ".", look | O_DIRECTORY));
  for (int links = 0;;) {
    if (folder_ < 0) return errno;
    name_ = take_part(rest);
    const bool last = rest.empty();
    if (name_.empty()) return EISDIR;
    const int file = openat(folder_, name_.c_str(), look | O_NOFOLLOW);
    if (file < 0) return last && errno == ENOENT ? 0 : errno;
    struct stat status{};
    if (fstat(file, &status) != 0 || !S_ISLNK(status.st_mode)) {
      if (!last) {
        enter(file);
        continue;
      }
      close(file);
      return 0;
    }
    std::array<char, PATH_MAX> target{};
    const ssize_t length = readlinkat(file, "", target.data(), target.size());
    const bool proc = is_proc(file);
    close(file);
    is_open_file_ = last && proc;
    if (is_open_file_) return 0;
    if (length <= 0 || ++links > most_links || !is_trusted(status, folder_)) return ELOOP;
    std::string next(target.data(), static_cast<std::size_t>(length));
    if (!last) next.append(1, '/').append(rest);
    rest = std::move(next);
    if (rest.starts_with('/')) enter(open("/", look | O_DIRECTORY));
  }
}

}  // namespace rankshim
