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

namespace rankshim {
namespace {

std::string site_file(const std::string& folder) { return folder + "/sitecustomize.py"; }

/// Writes a new file into the folder, whatever the umask. The processes of a command that rankshim runs as
/// root may belong to another user (gosu, su): they may read it if it is `shared`.
bool write_new_file(const std::string& folder, const std::string& path, const std::string& text,
                    bool shared) {
  const bool for_others = shared && geteuid() == 0;
  const int descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (descriptor < 0) return false;
  const bool written = write(descriptor, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
                       (!for_others || fchmod(descriptor, 0644) == 0);
  return close(descriptor) == 0 && written && (!for_others || chmod(folder.c_str(), 0755) == 0);
}

bool write_site(const std::string& folder, const PythonSite& site) {
  // Not a rendezvous' configuration, which may contain a password.
  const auto is_private = [](const auto& entry) {
    return entry.first == "PET_RDZV_CONF" && entry.second != "is_host=true" &&
           entry.second != "is_host=false";
  };
  const bool shared = site.job && std::ranges::none_of(*site.job, is_private);
  return write_new_file(folder, site_file(folder), python_site_text(site), shared);
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
  own_.has_site = made && site && write_site(own_.path, *site);
  if (hosts && !(made && write_new_file(own_.path, hostfile(own_), filled->hostfile, true)))
    log::warn("cannot write the file of hosts for the launcher ({}); set TMPDIR", std::strerror(errno));
}

bool TemporaryFolder::make(std::string path) {
  remove_abandoned(path.substr(0, path.rfind('/')));
  if (mkdtemp(path.data()) == nullptr) return false;
  // The mark gets its name only when it is locked: before, another start would take the folder for abandoned.
  const std::string unlocked = path + "/.unlocked";
  mark_ = open(unlocked.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (mark_ >= 0 && flock(mark_, LOCK_EX) == 0) rename(unlocked.c_str(), mark_in(path).c_str());
  own_.path = std::move(path);
  return true;
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
