#include "supervise/working_directory.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstring>

#include "base/log.h"

namespace rankshim::supervise {
namespace {

/// The path; empty if there is none: the folder was removed, or is outside the root ("(unreachable)/…",
/// getcwd(3)).
std::string working_directory() {
  std::array<char, PATH_MAX> path{};
  if (getcwd(path.data(), path.size()) == nullptr || path[0] != '/') return {};
  return path.data();
}

}  // namespace

void WorkingDirectory::leave() {
  path_ = working_directory();
  if (!path_.empty() && chdir("/") != 0) path_.clear();
}

void WorkingDirectory::come_back() {
  if (!path_.empty() && chdir(path_.c_str()) != 0)
    log::warn("the working directory {} no longer exists ({})", path_, std::strerror(errno));
  path_.clear();
}

std::string absolute_path(std::string path) {
  if (path.empty() || path.starts_with('/')) return path;
  const std::string here = working_directory();
  if (here.empty()) return path;
  return (here == "/" ? here : here + "/") + path;
}

}  // namespace rankshim::supervise
