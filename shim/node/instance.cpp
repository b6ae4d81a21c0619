#include "node/instance.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <system_error>

#include "base/files.h"
#include "base/text.h"

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

void remove_what_was_left(const std::vector<std::string>& folders) {
  for (const std::string& parent : folders) {
    Folder names(parent.c_str());
    while (const char* name = names.next()) {
      const auto pid = instance_of(name);
      if (!pid || kill(*pid, 0) == 0 || errno != ESRCH) continue;
      struct stat status{};
      const std::string path = parent + "/" + name;
      std::error_code ignored;  // it is nobody's job to remove it now
      if (lstat(path.c_str(), &status) == 0 && status.st_uid == geteuid())
        std::filesystem::remove_all(path, ignored);
    }
  }
}

}  // namespace rankshim
