#pragma once

#include <boost/core/noncopyable.hpp>
#include <optional>
#include <string>

#include "base/files.h"
#include "launchers/launcher.h"
#include "launchers/torchrun/inner_torchrun.h"

namespace rankshim::launchers {

/// A temporary folder for the files that a command needs from rankshim, which exists as long as this object:
/// the launcher's logs with their error files (torchrun would otherwise create a folder under /tmp that
/// nothing removes), and sitecustomize.py (inner_torchrun.h). node/private_folder.h says what happens to it
/// if rankshim is killed.
class TemporaryFolder : boost::noncopyable {
 public:
  /// Creates the folder if the launcher or `site` needs one, and writes its files. If that fails (a read-only
  /// root), logs a warning, and the command runs without it.
  TemporaryFolder(const LaunchChoice& choice, const std::optional<PythonSite>& site, const node::Host& host);
  ~TemporaryFolder();

  /// Removes the folder if nothing was written to it, and returns whether it did. Call this once everything
  /// the command started has ended.
  bool remove_if_unused();

  [[nodiscard]] const OwnFolder& own() const { return own_; }

 private:
  OwnFolder own_;
  UniqueFd lock_;
};

/// The pattern of the folder's path, also for showing it. It is in TMPDIR if that is set. Otherwise a
/// launcher's is in /tmp, because it may contain its workers' logs. A program's is in /dev/shm, where a few
/// small files take a tenth of the time, or in /tmp if /dev/shm is missing or not writable.
std::string temporary_folder_template(const Launcher& launcher, const node::Host& host);

}  // namespace rankshim::launchers
