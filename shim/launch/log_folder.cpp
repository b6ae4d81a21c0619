#include "launch/log_folder.h"

#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "log/log.h"

namespace rankshim {
namespace {

constexpr const char* user_variable = "PET_LOG_DIR";

int remove_entry(const char* path, const struct stat* /*status*/, int /*type*/, FTW* /*where*/) {
  static_cast<void>(std::remove(path));  // what stays, stays: it is a temporary folder
  return 0;
}

/// The folder with all above it.
bool make_folders(const std::string& path) {
  for (auto end = path.find('/', 1); end != std::string::npos; end = path.find('/', end + 1))
    mkdir(path.substr(0, end).c_str(), 0777);  // what cannot be made shows at the last one
  return mkdir(path.c_str(), 0777) == 0 || errno == EEXIST;
}

}  // namespace

std::string log_folder_template(const Node& node) {
  return std::string(node.environment().get("TMPDIR").value_or("/tmp")) + "/rankshim-XXXXXX";
}

std::string agent_error_file(const std::string& folder) { return folder + "/error.json"; }

LogFolder::LogFolder(LaunchPlan& plan, const Node& node) {
  if (plan.launcher == Launcher::none) return;
  if (const auto chosen = node.environment().get(user_variable)) {
    path_ = *chosen;
    // torchrun would make it too, but only just before its workers.
    if (make_folders(path_)) return;
    log::warn("cannot make the folder {}={} ({}): the workers' own exit codes will not be known",
              user_variable, path_, std::strerror(errno));
    path_.clear();
    return;
  }
  const std::string flag = "--log_dir=" + log_folder_template(node);
  const auto argument = std::find(plan.argv.begin(), plan.argv.end(), flag);
  if (argument == plan.argv.end()) return;
  std::string name = log_folder_template(node);
  if (mkdtemp(name.data()) == nullptr) {
    log::warn("cannot make a folder like {} ({}): the workers' own exit codes will not be known; set TMPDIR",
              name, std::strerror(errno));
    plan.argv.erase(argument);
    std::erase_if(plan.environment.set,
                  [](const auto& entry) { return entry.first == agent_error_variable; });
    return;
  }
  path_ = name;
  temporary_ = true;
  *argument = "--log_dir=" + name;
  for (auto& [variable, value] : plan.environment.set) {
    if (variable == agent_error_variable) value = agent_error_file(name);
  }
}

LogFolder::~LogFolder() {
  if (!temporary_) return;
  constexpr int open_folders = 16;
  nftw(path_.c_str(), remove_entry, open_folders, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

}  // namespace rankshim
