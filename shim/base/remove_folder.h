#pragma once

#include <chrono>
#include <string>

namespace rankshim {

/// Removes a folder and everything in it, however deep, on its file system. Symbolic links are not followed.
/// Folders within folders are moved up to the first one, so that neither the stack nor PATH_MAX is a limit
/// and two descriptors are enough. Returns whether the folder is gone. It gives up after `most`, because
/// another process may fill the folder faster than this empties it.
bool remove_folder(const std::string& path, std::chrono::milliseconds most);

}  // namespace rankshim
