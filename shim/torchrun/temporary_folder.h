#pragma once

#include <optional>
#include <string>

#include "launch/launch.h"
#include "torchrun/python_site.h"
#include "torchrun/torchrun_plan.h"

namespace rankshim {

/// The files that a command needs of ours, for as long as this object lives, in one temporary folder: the
/// launcher's logs and the error files in them (torchrun would otherwise make a folder under /tmp that nobody
/// removes), and our part in Python's start (python_site.h).
class TemporaryFolder {
 public:
  /// Makes the folder where the launcher or our part in Python's start, `site`, needs one. Where none can be
  /// made (a read-only root) there is none: with a warning where the launcher's workers cannot be followed
  /// then.
  TemporaryFolder(const LaunchPlan& plan, const std::optional<PythonSite>& site, const Node& node);
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  [[nodiscard]] const OwnFolder& own() const { return own_; }

  /// Where the launcher keeps what it knows of its workers: the user's own folder, or the temporary
  /// folder. Empty where there is none.
  [[nodiscard]] const std::string& log_folder() const { return log_folder_; }

 private:
  void use_log_folder_of_user(std::string folder);
  bool make(std::string path);

  OwnFolder own_;
  std::string log_folder_;
};

/// The pattern of the folder's name: in TMPDIR, else a launcher's in /tmp, for it may hold its
/// workers' logs, and a program's in /dev/shm, where a few small files cost a tenth of the time. Where there
/// is no /dev/shm that can be written, it is made in /tmp.
std::string temporary_folder_template(const Node& node, LauncherKind launcher);

}  // namespace rankshim
