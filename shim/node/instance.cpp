#include "node/instance.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <system_error>

#include "base/text.h"
#include "node/process.h"

namespace rankshim {
namespace {

constexpr std::string_view name_of_pid_1 = "rankshim-pid1-";
constexpr std::string_view random_part = "XXXXXX";  // of mkdtemp(3)

/// Whether the folder's file system is this machine's alone: on one that machines share, the same name may be
/// that of an instance that runs elsewhere. The numbers are of statfs(2).
bool is_local(const std::string& folder) {
  constexpr auto local =
      std::to_array<std::uint64_t>({0x01021994 /* tmpfs */, 0xEF53 /* ext4 */, 0x58465342 /* xfs */,
                                    0x9123683E /* btrfs */, 0x794C7630 /* overlayfs */});
  struct statfs status{};
  return statfs(folder.c_str(), &status) == 0 &&
         std::ranges::find(local, static_cast<std::uint64_t>(status.f_type)) != local.end();
}

/// Whether a process that is left over was started with the folder in its environment. Its children look for
/// Python code there: if the folder went, another user could put a folder of that name in its place. Where
/// /proc does not show the processes, one may be there.
bool is_in_use(const std::string& folder) {
  const auto processes = all_processes();
  return !processes || std::ranges::any_of(*processes, [&](const Process& process) {
    return read_proc(process.pid, "environ").value_or("").find(folder) != std::string::npos;
  });
}

/// Whether this is the name of something whose instance has ended, as far as its name shows.
bool is_left(std::string_view name) {
  const auto pid = instance_of(name);
  return pid && kill(*pid, 0) != 0 && errno == ESRCH;
}

/// Whether this is the folder of a PID 1 that has ended. It has its lock a moment after it was made.
bool is_left_by_container(const std::string& path, const struct stat& status) {
  constexpr std::time_t moment = 60;
  if (status.st_mtime > std::time(nullptr) - moment) return false;
  const Descriptor folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  return folder.number() >= 0 && flock(folder.number(), LOCK_EX | LOCK_NB) == 0;
}

}  // namespace

std::string name_in_namespace() {
  struct stat status{};  // asked once, for each name of a folder is compared
  static const ino_t number = stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
  return fmt::format("rankshim-{}-", number);
}

std::string name_of_instance() { return fmt::format("{}{}", name_in_namespace(), getpid()); }

std::optional<pid_t> instance_of(std::string_view name) {
  const std::string beginning = name_in_namespace();
  if (!name.starts_with(beginning)) return std::nullopt;
  const auto pid = first_number<pid_t>(name.substr(beginning.size()));
  return pid && *pid > 0 ? pid : std::nullopt;
}

bool others_can_replace_in(const std::string& folder) {
  struct stat status{};
  if (stat(folder.c_str(), &status) != 0) return false;  // there is nothing to replace
  const bool ours = status.st_uid == 0 || status.st_uid == geteuid();
  return !ours || ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0 && (status.st_mode & S_ISVTX) == 0);
}

std::string make_instance_folder(const std::string& parent, Descriptor& lock) {
  const auto make = [&parent](std::string name) {
    std::string path = parent + "/" + name.append(random_part);
    return mkdtemp(path.data()) == nullptr ? std::string() : path;
  };
  if (getpid() == 1 && is_local(parent)) {
    std::string path = make(std::string(name_of_pid_1));
    lock = Descriptor(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (flock(lock.number(), LOCK_SH | LOCK_NB) == 0) return path;
    rmdir(path.c_str());
  }
  return make(name_of_instance() + "-");
}

void remove_what_was_left(const std::vector<std::string>& folders) {
  for (const std::string& parent : folders) {
    if (!is_local(parent) || others_can_replace_in(parent)) continue;
    Folder names(parent.c_str());
    while (const char* name = names.next()) {
      const bool by_container = fits(name, std::string(name_of_pid_1) + "??????");
      if (!by_container && !is_left(name)) continue;
      struct stat status{};
      const std::string path = parent + "/" + name;
      if (lstat(path.c_str(), &status) != 0 || status.st_uid != geteuid()) continue;
      std::error_code ignored;  // it is nobody's job to remove it now
      if (by_container ? is_left_by_container(path, status) : !is_in_use(path))
        std::filesystem::remove_all(path, ignored);
    }
  }
}

}  // namespace rankshim
