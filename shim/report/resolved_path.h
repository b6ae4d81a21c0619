#pragma once

#include <string>
#include <utility>

namespace rankshim {

/// A path that was gone through once: the folder that holds its last part, and that part's name. What is done
/// with the two cannot be led elsewhere by who changes a link meanwhile.
class ResolvedPath {
 public:
  /// Follows links, but in a folder where others can write only those that root or this process's user made:
  /// else everybody who can write in a shared folder could have us overwrite any file (the rule of
  /// fs.protected_symlinks, proc_sys_fs(5), and for folders without the sticky bit too). What the path names
  /// need not be there. `error` is 0 or an errno: ELOOP for a link that is not followed.
  explicit ResolvedPath(const std::string& path);
  ~ResolvedPath();
  ResolvedPath(const ResolvedPath&) = delete;
  ResolvedPath& operator=(const ResolvedPath&) = delete;

  [[nodiscard]] int error() const { return error_; }
  /// For openat(2) and its like.
  [[nodiscard]] int folder() const { return folder_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  /// It is a link of /proc to an open file: to be followed, and by nobody made.
  [[nodiscard]] bool is_open_file() const { return is_open_file_; }

 private:
  int walk(std::string rest);
  void enter(int folder);

  int folder_ = -1;
  std::string name_;
  bool is_open_file_ = false;
  int error_ = 0;
};

}  // namespace rankshim
