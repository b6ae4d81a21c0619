#include "supervise/working_directory.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "base/log.h"

namespace rankshim::supervise {
namespace {

/// The path; empty if there is none: the folder was removed, or is outside the root ("(unreachable)/…",
/// getcwd(3)).
std::string working_directory() {
  std::error_code none;
  std::string path = std::filesystem::current_path(none);
  return path.starts_with('/') ? path : std::string();
}

}  // namespace

std::string leave_working_directory() {
  std::string path = working_directory();
  if (!path.empty() && chdir("/") != 0) path.clear();
  return path;
}

void come_back_to(const std::string& path) {
  if (!path.empty() && chdir(path.c_str()) != 0)
    log::warn("the working directory {} no longer exists ({})", path, std::strerror(errno));
}

std::string absolute_path(std::string path) {
  if (path.empty() || path.starts_with('/')) return path;
  const std::string here = working_directory();
  if (here.empty()) return path;
  return (here == "/" ? here : here + "/") + path;
}

}  // namespace rankshim::supervise
