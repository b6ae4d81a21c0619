#include "base/remove_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/folder.h"

namespace rankshim {
namespace {

using Clock = std::chrono::steady_clock;

/// A folder below another that becomes writable for its owner.
class OpenFolder : public Folder {
 public:
  OpenFolder(int at, const char* name)
      : Folder(openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) {
    if (!*this) return;
    struct stat status{};
    if (fstat(descriptor(), &status) == 0) device_ = status.st_dev;
    static_cast<void>(fchmod(descriptor(), S_IRWXU));  // if this is refused, so is what follows
  }
  [[nodiscard]] dev_t device() const { return device_; }

 private:
  dev_t device_ = 0;
};

bool remove_entry(int at, const char* name) {
  return unlinkat(at, name, 0) == 0 || unlinkat(at, name, AT_REMOVEDIR) == 0;
}

/// Moves the content of folders up into the first folder, until that one is empty.
class Remover {
 public:
  Remover(OpenFolder& top, Clock::time_point end) : top_(top), end_(end) {}

  void empty() {
    for (bool progress = true; progress && in_time();) {
      progress = false;
      top_.rewind();
      while (const char* name = top_.next()) {
        if (remove_entry(top_.descriptor(), name))
          progress = true;
        else
          progress |= flatten(name);
        if (!in_time()) return;
      }
    }
  }

 private:
  [[nodiscard]] bool in_time() const { return Clock::now() < end_; }

  /// Removes what is in that folder and moves its folders up. Returns whether anything changed.
  bool flatten(const char* name) {
    OpenFolder folder(top_.descriptor(), name);
    if (!folder || folder.device() != top_.device()) return false;
    bool progress = false;
    while (const char* inner = folder.next()) {
      progress |= remove_entry(folder.descriptor(), inner) || move_up(folder.descriptor(), inner);
      if (!in_time()) return progress;
    }
    unlinkat(top_.descriptor(), name, AT_REMOVEDIR);
    return progress;
  }

  bool move_up(int from, const char* name) {
    {
      const OpenFolder made_writable(from, name);
    }
    constexpr int tries = 16;  // for names that exist already
    for (int i = 0; i < tries; ++i) {
      std::array<char, 32> unique{};
      std::snprintf(unique.data(), unique.size(), ".%u", ++moved_);
      if (renameat(from, name, top_.descriptor(), unique.data()) == 0) return true;
    }
    return false;
  }

  OpenFolder& top_;
  Clock::time_point end_;
  unsigned moved_ = 0;
};

}  // namespace

bool remove_folder(const std::string& path, std::chrono::milliseconds most) {
  {
    OpenFolder top(AT_FDCWD, path.c_str());
    if (!top) return rmdir(path.c_str()) == 0 || errno == ENOENT;
    Remover(top, Clock::now() + most).empty();
  }
  return rmdir(path.c_str()) == 0 || errno == ENOENT;
}

}  // namespace rankshim
