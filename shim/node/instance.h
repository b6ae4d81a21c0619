#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"

/// The names of what an instance of rankshim has in folders that others use too: its socket, its temporary
/// folder. They say whose it is, so that what a killed instance left can be removed.
namespace rankshim {

/// The beginning of all these names in this PID namespace, for containers may share a folder
/// (namespaces(7): the inode's number is the namespace's): "rankshim-4026531836-".
std::string name_in_namespace();

/// The beginning of this instance's: "rankshim-4026531836-17".
std::string name_of_instance();

/// The instance of this PID namespace whose name this is; nothing if it is none's.
std::optional<pid_t> instance_of(std::string_view name);

/// Whether other users can put something of theirs in the place of what is in this folder.
bool others_can_replace_in(const std::string& folder);

/// Makes a temporary folder of this instance: "rankshim-4026531836-17-x1Y2z3", or as PID 1
/// "rankshim-pid1-x1Y2z3" where it can be locked on a file system of this machine, because all processes of a
/// PID namespace end with its PID 1: that lock shows that the instance lives. Empty if that fails (errno).
std::string make_instance_folder(const std::string& parent, Descriptor& lock);

/// Removes what instances of this user that were killed left in these folders, unless other machines may
/// share the folder, or other users can replace what is in it: everything of this PID namespace that no
/// process which is left was told of, and the temporary folders of containers that have ended, if they are
/// older than a minute.
void remove_what_was_left(const std::vector<std::string>& folders);

}  // namespace rankshim
