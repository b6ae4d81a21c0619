#include "node/instance.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <system_error>

#include "base/files.h"
#include "base/text.h"
#include "node/process.h"

namespace rankshim {

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

namespace {

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

}  // namespace

void remove_what_was_left(const std::vector<std::string>& folders) {
  for (const std::string& parent : folders) {
    if (!is_local(parent)) continue;
    Folder names(parent.c_str());
    while (const char* name = names.next()) {
      const auto pid = instance_of(name);
      if (!pid || kill(*pid, 0) == 0 || errno != ESRCH) continue;
      struct stat status{};
      const std::string path = parent + "/" + name;
      std::error_code ignored;  // it is nobody's job to remove it now
      if (lstat(path.c_str(), &status) == 0 && status.st_uid == geteuid() && !is_in_use(path))
        std::filesystem::remove_all(path, ignored);
    }
  }
}

}  // namespace rankshim
