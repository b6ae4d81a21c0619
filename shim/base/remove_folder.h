#pragma once

#include <chrono>
#include <string>

namespace rankshim {

/// Removes a folder and all that is in it, however deep, on its own file system; links are not followed.
/// Folders within folders are moved up to the first one, so that neither the stack nor PATH_MAX is a limit
/// and two descriptors are enough. Returns whether it is gone; it is given up after `most`, for somebody may
/// fill it faster than it is emptied.
bool remove_folder(const std::string& path, std::chrono::milliseconds most);

}  // namespace rankshim
