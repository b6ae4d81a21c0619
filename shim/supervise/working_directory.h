#pragma once

#include <string>

namespace rankshim::supervise {

/// A working directory keeps its file system busy: nobody could unmount it while the command runs, even after
/// the command has left it. So between leave() and come_back() rankshim's is /.
class WorkingDirectory {
 public:
  WorkingDirectory() = default;
  /// Does nothing if the path is not known, because there would be no way back.
  void leave();
  /// Logs if the folder no longer exists: then / stays the working directory.
  void come_back();

 private:
  std::string path_;
};

/// The path as it is found from any working directory; empty and absolute paths are unchanged.
std::string absolute_path(std::string path);

}  // namespace rankshim::supervise
