#include "base/folder.h"

#include <unistd.h>

#include <string_view>

namespace rankshim {

Folder::Folder(const char* path) : folder_(opendir(path), closedir) {}

Folder::Folder(int descriptor) : folder_(fdopendir(descriptor), closedir) {
  if (folder_ == nullptr && descriptor >= 0) close(descriptor);
}

int Folder::descriptor() const { return folder_ == nullptr ? -1 : dirfd(folder_.get()); }

const char* Folder::next() {
  if (folder_ == nullptr) return nullptr;
  while (const dirent* entry = readdir(folder_.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") return entry->d_name;
  }
  return nullptr;
}

void Folder::rewind() {
  if (folder_ != nullptr) rewinddir(folder_.get());
}

}  // namespace rankshim
