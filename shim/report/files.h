#pragma once

#include <string>
#include <string_view>

/// How what we have to say gets into files. Whatever fails is a warning: nothing secondary ends the job.
namespace rankshim {

/// Replaces the file, or the one that a link leads to (resolved_path.h says which links), as a whole, by a
/// new one beside it: a reader sees the old or the new. It has the mode and owner of the old one; else
/// everybody may read and write it but for the umask. To a pipe, a device, and what is open here
/// (/dev/stdout, /dev/fd/N), it is written. Warns where it cannot be. Returns whether a file is there now
/// that can be read.
bool replace_file(const std::string& path, std::string_view text);

/// Puts the text into a new file of its own in that folder, and returns its path; warns where that cannot be,
/// and returns an empty one.
std::string new_file(const std::string& folder, std::string_view text);

/// Kubernetes' termination message: the file that its kubelet shows in the pod's status when the container
/// has ended, at most 4096 bytes (Kubernetes documentation, "Determine the Reason for Pod Failure"). It is a
/// mount of its own, so it is written in place.
class TerminationLog {
 public:
  static constexpr std::size_t longest = 4096;

  /// The default path is used where it exists and is never made; another one is made where it is missing.
  /// "none" writes nothing.
  explicit TerminationLog(std::string path);

  /// Whether there is such a file now, or will be with the first word.
  [[nodiscard]] bool exists() const;

  /// Adds a line that stands there should we be killed before the end.
  void provisional(std::string_view line);

  /// What stands there for good; on success nothing, which removes what was provisional.
  void finish(std::string_view text);

 private:
  void write(std::string_view text);
  void warn(int error) const;

  std::string path_;
  bool make_ = false;
  std::string provisional_;
};

}  // namespace rankshim
