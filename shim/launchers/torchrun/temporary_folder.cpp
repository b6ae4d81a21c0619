#include "launchers/torchrun/temporary_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
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

constexpr const char* in_tmp = "/tmp/rankshim-XXXXXX";
constexpr const char* mark_name = "/.rankshim";

constexpr EmbeddedFile module[] = {
#include "python_site.inc"
};

/// A literal for Python 2 and 3. Bytes that are not plain ASCII are escaped, as torchrun reads them.
std::string python_literal(std::string_view text) {
  std::string literal = "\"";
  for (const char c : text) {
    const bool plain = c >= ' ' && c <= '~' && c != '"' && c != '\\';
    literal += plain ? std::string(1, c) : fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  }
  return literal + "\"";
}

/// The text of the module sitecustomize.py.
std::string python_site_text(const PythonSite& site) {
  std::string job = site.job ? "{" : "None";
  for (const auto& [name, value] : site.job.value_or(Variables{}))
    job += python_literal(name) + ": " + python_literal(value) + ", ";
  if (site.job) job += "}";
  const auto truth = [](bool value) { return value ? "True" : "False"; };
  return fmt::format("{}\n\nserve({}, {}, {}, {}, {})\n", module[0].text, truth(site.had_path), job,
                     python_literal(site.master), truth(site.records), getpid());
}

/// Writes a new file into its folder, whatever the umask. The processes of a command that rankshim runs as
/// root may belong to another user (gosu, su): they may read it if it is `shared`.
bool write_new_file(const std::string& path, const std::string& text, bool shared) {
  const bool for_others = shared && geteuid() == 0;
  const Descriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  return file.number() >= 0 &&
         write(file.number(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
         (!for_others ||
          (fchmod(file.number(), 0644) == 0 && chmod(path.substr(0, path.rfind('/')).c_str(), 0755) == 0));
}

bool write_site(const std::string& folder, const PythonSite& site) {
  // Not a rendezvous' configuration, which may contain a password.
  const auto is_private = [](const auto& entry) {
    return entry.first == "PET_RDZV_CONF" && entry.second != "is_host=true" &&
           entry.second != "is_host=false";
  };
  const bool shared = site.job && std::ranges::none_of(*site.job, is_private);
  return write_new_file(folder + "/sitecustomize.py", python_site_text(site), shared);
}

/// Removes the folders that rankshims of this user made in `parent` and left when they were killed.
void remove_abandoned(const std::string& parent) {
  Folder folder(parent.c_str());
  while (const char* name = folder.next()) {
    if (!std::string_view(name).starts_with("rankshim-")) continue;
    struct stat around{}, status{};
    const std::string path = parent + "/" + name;
    const Descriptor mark(open((path + mark_name).c_str(), O_WRONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC));
    const bool ours = fstat(mark.number(), &status) == 0 && lstat(path.c_str(), &around) == 0 &&
                      S_ISDIR(around.st_mode) && around.st_uid == geteuid() && status.st_uid == geteuid();
    std::error_code ignored;  // it is nobody's job to remove it now
    if (ours && flock(mark.number(), LOCK_EX | LOCK_NB) == 0) std::filesystem::remove_all(path, ignored);
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
  if (hosts && !(made && write_new_file(own_.hostfile(), filled->hostfile, true)))
    log::warn("cannot write the file of hosts for the launcher ({}); set TMPDIR", std::strerror(errno));
}

bool TemporaryFolder::make(std::string path) {
  remove_abandoned(path.substr(0, path.rfind('/')));
  if (mkdtemp(path.data()) == nullptr) return false;
  // The mark gets its name only when it is locked: before, another start would take the folder for abandoned.
  const std::string unlocked = path + "/.unlocked";
  mark_ = Descriptor(open(unlocked.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (flock(mark_.number(), LOCK_EX) == 0) rename(unlocked.c_str(), (path + mark_name).c_str());
  own_.path = std::move(path);
  return true;
}

TemporaryFolder::~TemporaryFolder() {
  if (own_.path.empty()) return;
  std::error_code error;
  std::filesystem::remove_all(own_.path, error);
  if (error) log::warn("the temporary folder {} cannot be removed: {}", own_.path, error.message());
}

}  // namespace rankshim
