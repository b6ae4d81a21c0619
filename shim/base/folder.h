#pragma once

#include <dirent.h>

#include <memory>

namespace rankshim {

/// An open folder, whose entries are read one by one. std::filesystem's iterator has no descriptor, which
/// openat(2) and readlinkat(2) need, and would make the binary 10 kB larger (measured).
class Folder {
 public:
  explicit Folder(const char* path);
  /// Takes the descriptor over, and closes it even if it is no folder's.
  explicit Folder(int descriptor);

  /// Whether it could be opened. If not, it has no entries, and after the constructor by path errno says why.
  explicit operator bool() const { return folder_ != nullptr; }
  /// -1 if it could not be opened.
  [[nodiscard]] int descriptor() const;

  /// The name of the next entry in no order, without "." and "..", valid until the next call. Null after the
  /// last, and if the system refuses to read on.
  const char* next();

 private:
  std::unique_ptr<DIR, int (*)(DIR*)> folder_;
};

}  // namespace rankshim
