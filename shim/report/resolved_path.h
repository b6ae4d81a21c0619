#pragma once

#include <string>
#include <utility>

namespace rankshim {

/// A path that was resolved once: the folder with its last part, and that part's name. Operations on the two
/// cannot be redirected by changing a link meanwhile.
class ResolvedPath {
 public:
  /// Follows links; but in a folder where others can write, only links that root or this process's user made.
  /// Otherwise anyone who can write in a shared folder could make rankshim overwrite any file (the rule of
  /// fs.protected_symlinks, proc_sys_fs(5), here for folders without the sticky bit too). The path's last
  /// part need not exist. `error` is 0 or an errno: ELOOP for a link that is not followed.
  explicit ResolvedPath(const std::string& path);
  ~ResolvedPath();
  ResolvedPath(const ResolvedPath&) = delete;
  ResolvedPath& operator=(const ResolvedPath&) = delete;

  [[nodiscard]] int error() const { return error_; }
  /// For openat(2) and similar calls.
  [[nodiscard]] int folder() const { return folder_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  /// It is a link of /proc to an open file: it is followed, and cannot be created.
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
