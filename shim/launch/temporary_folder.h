#pragma once

#include <string>
#include <string_view>

#include "launch/launch.h"

namespace rankshim {

/// Where a process under torch's @record, the agent too, writes why it failed.
inline constexpr std::string_view agent_error_variable = "TORCHELASTIC_ERROR_FILE";

/// The files that a command needs of ours, for as long as this object lives, in one temporary folder: the
/// launcher's logs and the error files in them (torchrun would otherwise make a folder under /tmp that nobody
/// removes), and our part in Python's start (python_site.h).
class TemporaryFolder {
 public:
  /// Makes the folder that a plan needs, and writes its name into the plan. Where none can be made (a
  /// read-only root), the plan is left without it: with a warning where the launcher's workers cannot be
  /// followed then.
  TemporaryFolder(LaunchPlan& plan, const Node& node);
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  /// Empty where there is none.
  [[nodiscard]] const std::string& path() const { return path_; }

  /// Where the launcher keeps what it knows of its workers: the user's own folder, or the temporary
  /// folder. Empty where there is none.
  [[nodiscard]] const std::string& log_folder() const { return log_folder_; }

 private:
  void use_log_folder_of_user(std::string folder);
  bool make(std::string path);

  std::string path_;
  std::string log_folder_;
};

/// The folder's name in a plan until it is made: in TMPDIR, else a launcher's in /tmp, for it may hold its
/// workers' logs, and a program's in /dev/shm, where a few small files cost a tenth of the time. Where there
/// is no /dev/shm that can be written, it is made in /tmp.
std::string temporary_folder_template(const Node& node, Launcher launcher);

/// Where in such a folder the agent tells why it failed.
std::string agent_error_file(const std::string& folder);

}  // namespace rankshim
