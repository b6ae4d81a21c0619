#include "node/private_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <system_error>
#include <utility>

namespace rankshim::node {
namespace {

constexpr std::string_view random_part = "XXXXXX";  // of mkdtemp(3)

std::string name_prefix(std::string_view host) {
  std::string name = "rankshim-" + std::string(host) + "-";
  std::ranges::replace(name, '/', '_');
  return name;
}

UniqueFd open_folder(const std::string& path) {
  return UniqueFd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

/// Whether this is a folder of this user that is not locked and is older than a minute.
bool is_abandoned(const std::string& path) {
  constexpr std::time_t minute = 60;
  struct stat status{};
  if (lstat(path.c_str(), &status) != 0 || status.st_uid != geteuid() ||
      status.st_mtime > std::time(nullptr) - minute)
    return false;
  const UniqueFd folder = open_folder(path);
  return folder.number() >= 0 && flock(folder.number(), LOCK_EX | LOCK_NB) == 0;
}

}  // namespace

bool others_can_replace_in(const std::string& folder) {
  struct stat status{};
  if (stat(folder.c_str(), &status) != 0) return false;  // there is nothing to replace
  const bool ours = status.st_uid == 0 || status.st_uid == geteuid();
  return !ours || ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0 && (status.st_mode & S_ISVTX) == 0);
}

PrivateFolder make_private_folder(const std::string& parent, std::string_view host) {
  const bool is_container = getpid() == 1;
  std::string path = parent + "/" + (is_container ? name_prefix(host) : "rankshim-");
  path += random_part;
  if (mkdtemp(path.data()) == nullptr) return {std::string(), UniqueFd()};
  UniqueFd lock;
  if (is_container) {
    lock = open_folder(path);
    // A file system without locks refuses this, and later is_abandoned(): the folder stays.
    flock(lock.number(), LOCK_SH | LOCK_NB);
  }
  return {std::move(path), std::move(lock)};
}

void remove_folders_of_ended_containers(const std::vector<std::string>& parents, std::string_view host) {
  const std::string prefix = name_prefix(host);
  for (const std::string& parent : parents) {
    if (others_can_replace_in(parent)) continue;
    Folder names(parent.c_str());
    while (const char* entry = names.next()) {
      const std::string_view name = entry;
      if (!name.starts_with(prefix) || name.size() != prefix.size() + random_part.size()) continue;
      const std::string path = parent + "/" + entry;
      std::error_code ignored;  // the next container tries again
      if (is_abandoned(path)) std::filesystem::remove_all(path, ignored);
    }
  }
}

}  // namespace rankshim::node
