#pragma once

#include <string>

namespace rankshim::supervise {

/// Goes to /, and returns the working directory from which: it keeps its file system busy, and nobody could
/// unmount it while the command runs, even after the command has left it. Stays, and returns nothing, if its
/// path is not known, because there would be no way back.
std::string leave_working_directory();

/// Logs if the folder no longer exists: then / stays the working directory.
void come_back_to(const std::string& path);

/// The path as it is found from any working directory; empty and absolute paths are unchanged.
std::string absolute_path(std::string path);

}  // namespace rankshim::supervise
