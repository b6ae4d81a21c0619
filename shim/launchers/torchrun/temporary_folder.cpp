#include "launchers/torchrun/temporary_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/files.h"
#include "base/log.h"
#include "supervise/working_directory.h"

namespace rankshim {
namespace {

std::string site_file(const std::string& folder) { return folder + "/sitecustomize.py"; }

/// Writes a new file with that mode, whatever the umask.
bool write_new_file(const std::string& path, const std::string& text, mode_t mode) {
  const int descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (descriptor < 0) return false;
  const bool written = write(descriptor, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
                       (mode == 0600 || fchmod(descriptor, mode) == 0);
  return close(descriptor) == 0 && written;
}

/// Writes sitecustomize.py. The processes of a command that rankshim runs as root may belong to another user
/// (gosu, su): they may read it.
bool write_site(const std::string& folder, const PythonSite& site) {
  // Not a rendezvous' configuration, which may contain a password.
  const auto is_private = [](const auto& entry) {
    return entry.first == "PET_RDZV_CONF" && entry.second != "is_host=true" &&
           entry.second != "is_host=false";
  };
  const bool shared = site.job && geteuid() == 0 && std::ranges::none_of(*site.job, is_private);
  return write_new_file(site_file(folder), python_site_text(site), shared ? 0644 : 0600) &&
         (!shared || chmod(folder.c_str(), 0755) == 0);
}

/// Writes the launcher's file of hosts, for another user too.
bool write_hostfile(const OwnFolder& folder, const std::string& hosts) {
  return write_new_file(hostfile(folder), hosts, 0644) &&
         (geteuid() != 0 || chmod(folder.path.c_str(), 0755) == 0);
}

constexpr const char* in_tmp = "/tmp/rankshim-XXXXXX";
constexpr const char* mark_name = ".rankshim";

std::string mark_in(const std::string& folder) { return folder + "/" + mark_name; }

/// Removes the folders that rankshims of this user made in `parent` and left when they were killed.
void remove_abandoned(const std::string& parent) {
  Folder folder(parent.c_str());
  while (const char* name = folder.next()) {
    if (!std::string_view(name).starts_with("rankshim-")) continue;
    struct stat around{}, status{};
    const std::string path = parent + "/" + name;
    const int mark = open(mark_in(path).c_str(), O_WRONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    if (mark < 0) continue;
    const bool ours = lstat(path.c_str(), &around) == 0 && S_ISDIR(around.st_mode) &&
                      fstat(mark, &status) == 0 && around.st_uid == geteuid() && status.st_uid == geteuid();
    std::error_code ignored;  // it is nobody's job to remove it now
    if (ours && flock(mark, LOCK_EX | LOCK_NB) == 0) std::filesystem::remove_all(path, ignored);
    close(mark);
  }
}

/// The template, or one in /tmp if other users could replace the folder by theirs: its content is executed.
std::string safe_template(const std::string& wanted) {
  struct stat status{};
  if (stat(wanted.substr(0, wanted.rfind('/')).c_str(), &status) != 0) return wanted;
  const bool ours = status.st_uid == 0 || status.st_uid == geteuid();
  const bool others_write = (status.st_mode & (S_IWGRP | S_IWOTH)) != 0 && (status.st_mode & S_ISVTX) == 0;
  return ours && !others_write ? wanted : in_tmp;
}

}  // namespace

std::string temporary_folder_template(const Node& node, bool launches) {
  const std::string_view usual = launches ? "/tmp" : "/dev/shm";
  std::string_view chosen = node.environment().get("TMPDIR").value_or(usual);
  while (chosen.size() > 1 && chosen.ends_with('/')) chosen.remove_suffix(1);
  return std::string(chosen.starts_with('/') ? chosen : usual) + "/rankshim-XXXXXX";
}

TemporaryFolder::TemporaryFolder(const LaunchChoice& choice, const std::optional<PythonSite>& site,
                                 const Node& node) {
  if (!choice.log_dir.empty()) use_log_folder_of_user(choice.log_dir);
  const bool logs = choice.launches() && choice.log_dir.empty();
  const auto* filled = choice.as<FilledLauncher>();
  const bool hosts = filled != nullptr && !filled->hostfile.empty();
  if (!logs && !site && !hosts) return;
  const std::string wanted = temporary_folder_template(node, choice.launches());
  const bool made = make(safe_template(wanted)) || (wanted.starts_with("/dev/shm/") && make(in_tmp));
  if (!made && logs) {
    log::warn(
        "cannot make a folder like {} ({}): the workers' own exit codes and exceptions will not be known; "
        "set TMPDIR",
        wanted, std::strerror(errno));
  }
  if (logs) log_folder_ = own_.path;
  own_.has_site = made && site && write_site(own_.path, *site);
  if (hosts && !(made && write_hostfile(own_, filled->hostfile)))
    log::warn("cannot write the file of hosts for the launcher ({}); set TMPDIR", std::strerror(errno));
}

void TemporaryFolder::use_log_folder_of_user(std::string folder) {
  folder = supervise::absolute_path(std::move(folder));
  std::error_code error;  // torchrun would make it too, but only just before its workers
  std::filesystem::create_directories(folder, error);
  if (!error)
    log_folder_ = std::move(folder);
  else
    log::warn("cannot make the folder {} ({}): the workers' own exit codes will not be known", folder,
              error.message());
}

bool TemporaryFolder::make(const std::string& wanted) {
  remove_abandoned(wanted.substr(0, wanted.rfind('/')));
  constexpr int tries = 3;
  for (int i = 0; i < tries; ++i) {
    std::string path = wanted;
    if (mkdtemp(path.data()) == nullptr) return false;
    mark_ = open(mark_in(path).c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
    struct stat status{};
    // Another start may have taken it for abandoned before it was locked.
    const bool lost =
        mark_ >= 0 && flock(mark_, LOCK_EX) == 0 && fstat(mark_, &status) == 0 && status.st_nlink == 0;
    if (!lost) {
      own_.path = std::move(path);
      return true;
    }
    close(std::exchange(mark_, -1));
  }
  return false;
}

TemporaryFolder::~TemporaryFolder() {
  if (own_.path.empty()) return;
  // The usual case first: only rankshim's files.
  unlink(site_file(own_.path).c_str());
  unlink(mark_in(own_.path).c_str());
  std::error_code error;
  if (rmdir(own_.path.c_str()) != 0) std::filesystem::remove_all(own_.path, error);
  if (mark_ >= 0) close(mark_);
  if (error) log::warn("the temporary folder {} cannot be removed: {}", own_.path, error.message());
}

}  // namespace rankshim
