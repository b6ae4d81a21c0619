#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

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

/// Removes what instances of this user and PID namespace that were killed left in these folders, unless other
/// machines may share the folder, or a process is left that was told of what is in it.
void remove_what_was_left(const std::vector<std::string>& folders);

}  // namespace rankshim
