#pragma once

#include <string>
#include <string_view>

#include "launch/launch.h"

namespace rankshim {

/// Where a process under torch's @record, the agent too, writes why it failed.
inline constexpr std::string_view agent_error_variable = "TORCHELASTIC_ERROR_FILE";

/// Where the launcher keeps what it knows of its workers, for as long as this object lives: the user's own
/// PET_LOG_DIR, or a temporary folder of ours that goes with it. torchrun would otherwise make one under /tmp
/// that nobody removes.
class LogFolder {
 public:
  /// Makes the folder for a plan with a launcher and writes its name into the plan's --log_dir. Where none
  /// can be made (a read-only root), the flag is taken out with a warning: the launcher's workers cannot be
  /// followed then.
  LogFolder(LaunchPlan& plan, const Node& node);
  ~LogFolder();
  LogFolder(const LogFolder&) = delete;
  LogFolder& operator=(const LogFolder&) = delete;

  /// Empty where there is none.
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
  bool temporary_ = false;
};

/// The --log_dir that a plan has until the folder is made.
std::string log_folder_template(const Node& node);

/// The agent's error file in such a folder.
std::string agent_error_file(const std::string& folder);

}  // namespace rankshim
