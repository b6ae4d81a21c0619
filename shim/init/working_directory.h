#pragma once

#include <string>

namespace rankshim::supervise {

/// Our working directory keeps the file system that it lies on busy: nobody could unmount it while the
/// command runs, though the command has left it. Between leave() and come_back() ours is /.
class WorkingDirectory {
 public:
  WorkingDirectory() = default;
  /// Does nothing where its path is not known, so that there would be no way back.
  void leave();
  /// Says where it is no longer there: then / stays ours.
  void come_back();

 private:
  std::string path_;
};

/// A path by which a file is found from any working directory; empty and absolute ones as they are.
std::string absolute_path(std::string path);

}  // namespace rankshim::supervise
