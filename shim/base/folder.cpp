#include "base/folder.h"

#include <unistd.h>

namespace rankshim {

Folder::Folder(const char* path) : folder_(opendir(path), closedir) {}

Folder::Folder(int descriptor) : folder_(descriptor < 0 ? nullptr : fdopendir(descriptor), closedir) {
  if (folder_ == nullptr && descriptor >= 0) close(descriptor);
}

int Folder::descriptor() const { return folder_ == nullptr ? -1 : dirfd(folder_.get()); }

const char* Folder::next() {
  if (folder_ == nullptr) return nullptr;
  while (const dirent* entry = readdir(folder_.get())) {
    const char* name = entry->d_name;  // no lengths: /dev has hundreds, and is read at each start
    const bool skipped = name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0'));
    if (!skipped) return name;
  }
  return nullptr;
}

}  // namespace rankshim
