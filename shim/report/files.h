#pragma once

#include <string>
#include <string_view>
#include <utility>

/// Writes reports to files. A failure is only a warning: nothing secondary ends the job.
///
/// There are two ways to write. A report and the metrics are replaced: a new file takes the old one's name,
/// so that no reader sees half of it. The termination log is a mount, and so is written in place, as is a
/// report whose path cannot get a new file: a mount, a pipe, a descriptor.
namespace rankshim::report {

/// Replaces the file atomically, so that a reader sees either the old or the new one. The new file has the
/// old one's mode and owner, or else mode 0666 minus the umask. A symbolic link is replaced, never followed.
/// A pipe, a device or an open descriptor (/dev/stdout, /dev/fd/N) is written to instead. Logs a warning if
/// this fails. Returns whether there is a readable file now.
bool replace_file(const std::string& path, std::string_view text);

/// Writes the text to a new file in that folder and returns its path. Logs a warning and returns an empty
/// path if this fails.
std::string new_file(const std::string& folder, std::string_view text);

/// MetricsFile is a file for the textfile collector of node_exporter. It is replaced atomically, like a
/// report, but is always a regular file: a pipe, a device or a folder in its place is left alone, and a
/// symbolic link is replaced. A folder on a network file system is not used, because a dead server would
/// block rankshim.
class MetricsFile {
 public:
  explicit MetricsFile(std::string path) : path_(std::move(path)) {}

  [[nodiscard]] bool is_wanted() const { return !path_.empty(); }

  /// Writes the text, unless it was also the last one written. Logs a warning if this fails, unless it last
  /// failed in the same way.
  void write(std::string_view text);

 private:
  const std::string path_;
  std::string written_;
  std::string told_;
};

/// Kubernetes' termination message: the file whose content, at most 4096 bytes, the kubelet shows in the
/// pod's status after the container has ended (Kubernetes documentation, "Determine the Reason for Pod
/// Failure"). It is a mount, so it is written in place.
class TerminationLog {
 public:
  static constexpr std::size_t longest = 4096;

  /// The default path is used only if it exists, and never created; any other path is created if missing.
  /// "none" writes nothing.
  explicit TerminationLog(std::string path);

  /// Whether the file exists now, or will be created when it is written.
  [[nodiscard]] bool exists() const;

  /// Writes a line that remains if rankshim is killed before the end.
  void provisional(std::string_view line);

  /// Replaces what was written. An empty text, as after a success, removes it; if nothing was written, it
  /// changes nothing.
  void finish(std::string_view text);

 private:
  void write(std::string_view text);

  std::string path_;
  bool make_ = false;
  std::string written_;
};

}  // namespace rankshim::report
