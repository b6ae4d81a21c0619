#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "launchers/native/relay.h"
#include "supervise/watch.h"

namespace rankshim::native {

/// What is wanted of the workers' output.
struct OutputPlan {
  bool to_files = false;
  bool tee = false;     ///< to rankshim's stdout and stderr too
  bool prefix = false;  ///< there, each line begins with the worker's rank
};

/// Makes the job's folder in the user's folder for logs, by log_folder_template. Empty if that is refused,
/// which is a warning.
std::string make_log_folder(const std::string& log_dir, std::string_view run_id);

/// Where the stdout and stderr of one set of workers go.
class Output {
 public:
  explicit Output(const OutputPlan& plan);
  ~Output() { close_descriptors(); }
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  /// Returns the descriptors that become a worker's stdout and stderr; −1, after a warning if that was not
  /// planned: rankshim's own. The files are stdout.log and stderr.log in the worker's folder; empty: none.
  std::array<int, 2> open(const std::string& worker_folder, unsigned rank);

  /// The workers run, and have the descriptors. From now on the event loop reads what they write.
  void started(boost::asio::io_context& io);

  /// The workers have ended.
  void finish();
  /// Whether there is more to write when stdout and stderr take it.
  [[nodiscard]] bool has_more() const { return relay_ && relay_->has_more(); }

 private:
  int open_file(const std::string& path, int target, const std::string& prefix);
  int open_pipe(int target, const std::string& prefix);
  void close_descriptors();

  const OutputPlan plan_;
  std::vector<int> descriptors_;  // of the workers that are to be started
  std::unique_ptr<Relay> relay_;
  std::unique_ptr<supervise::Watch> watch_;
};

}  // namespace rankshim::native
