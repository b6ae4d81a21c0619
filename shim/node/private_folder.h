#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"

/// An instance's private folders in directories that others use too.
namespace rankshim::node {

/// Whether other users can put something of theirs in the place of what is in this folder.
bool others_can_replace_in(const std::string& folder);

/// A private folder, and its lock, which shows that its instance lives. The lock is empty without a folder,
/// or on a file system without locks.
struct PrivateFolder {
  std::string path;  ///< empty if it cannot be created (errno)
  UniqueFd lock;
};

/// Creates a folder for this instance: "rankshim-HOST-x1Y2z3" as PID 1 of a container, "rankshim-x1Y2z3"
/// otherwise.
PrivateFolder make_private_folder(const std::string& parent, std::string_view host);

/// Removes what containers of this host name and user left in these places when they were killed: a folder
/// that is not locked, because all processes of a PID namespace end with its PID 1. Others may share the
/// place (an emptyDir, a network file system): nothing is removed where other users can replace it. A folder
/// of the last minute may be about to be locked and stays, as do folders of instances that were not PID 1,
/// whose processes may live on.
void remove_folders_of_ended_containers(const std::vector<std::string>& parents, std::string_view host);

}  // namespace rankshim::node
