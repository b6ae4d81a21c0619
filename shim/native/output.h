#pragma once

#include <array>
#include <string>
#include <vector>

namespace rankshim::native {

/// Makes the job's folder in the user's folder for logs, by log_folder_template. Empty if that is refused,
/// which is a warning.
std::string make_log_folder(const std::string& log_dir, std::string_view run_id);

/// Where the stdout and stderr of one set of workers go.
class Output {
 public:
  Output() = default;
  ~Output() { workers_have_them(); }
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  /// Opens stdout.log and stderr.log in the worker's folder. Returns the descriptors that become its stdout
  /// and stderr; −1, after a warning: rankshim's own.
  std::array<int, 2> open(const std::string& worker_folder);

  /// Closes them here: only the workers still have them.
  void workers_have_them();

 private:
  std::vector<int> descriptors_;
};

}  // namespace rankshim::native
