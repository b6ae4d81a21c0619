#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"

/// Private folders of one instance in directories that others use too.
namespace rankshim::node {

/// Whether other users can replace what is in this folder.
bool others_can_replace_in(const std::string& folder);

/// A private folder, and its lock, which shows that the instance is alive. The lock is empty if there is no
/// folder, or the file system has no locks.
struct PrivateFolder {
  std::string path;  ///< empty if it cannot be created; errno says why
  UniqueFd lock;
};

/// Creates a folder for this instance: "rankshim-HOST-x1Y2z3" if it is PID 1 of a container, otherwise
/// "rankshim-x1Y2z3".
PrivateFolder make_private_folder(const std::string& parent, std::string_view host);

/// Removes the folders that containers of this host name and user left behind in these directories when they
/// were killed. They are unlocked, because all processes of a PID namespace end with its PID 1. Others may
/// share the directory (an emptyDir, a network file system), so nothing is removed where other users can
/// replace it. A folder younger than a minute stays, because it may be about to be locked, and so do the
/// folders of instances that were not PID 1, whose processes may live on.
void remove_folders_of_ended_containers(const std::vector<std::string>& parents, std::string_view host);

}  // namespace rankshim::node
