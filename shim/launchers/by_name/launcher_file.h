#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/fault.h"
#include "node/node.h"

/// Launchers that are known by their names (accelerate, deepspeed, …). A TOML file describes each of them.
namespace rankshim::by_name {

/// A launcher's file: its path on the first line, and then a line for each entry, which begins with its key's
/// letter.
using LauncherFile = std::string;

/// The keys' letters.
namespace key {
inline constexpr char starts = 's', unless = 'u', flags = 'f', first = '0', others = '1', set = 'v',
                      hostfile = 'h', warning = 'w';
}

/// Cuts everything up to the next entry of that key, and the entry, off `file`; empty if there is no more.
std::string_view take_entry(std::string_view& file, char key);

/// Reads one document; every fault begins with "PATH:LINE: " and names `path`. A list of one may be a string.
///
// clang-format off
///     starts   = ["accelerate launch", "-m accelerate.commands.launch"]   required; the program without its folder
///     unless   = ["-H|--host", "--backend=ray"]   with one of these flags the command stays as it is
///     flags    = ["-n|--nproc={local_world_size}", "--no_ssh"]   OTHER SPELLINGS|FLAG=VALUE, "FLAG VALUE" or FLAG
///     first    = ["--head"]                       the same, for node 0 only; the first one marks the role
///     others   = ["--address={master}"]           the same, for the other nodes
///     hostfile = "node{node_rank} slots={local_world_size}"   makes the file {hostfile}: such a line for each node
///     warning  = "…"                              what the launcher cannot do on several nodes
///     [set]                                       variables, unless they are set
///     A_VARIABLE = "{nnodes}"
// clang-format on
LauncherFile read_launcher(std::string_view document, std::string_view path, Faults& faults);

/// The same for a file.
LauncherFile read_launcher_file(const std::string& path, const Node& node, Faults& faults);

/// The users' files: `file` if its name ends as a launcher's, and those of platform::profile_folder.
std::vector<LauncherFile> users_launchers(std::string_view file, const Node& node, Faults& faults);

/// Adds the files of config/launchers, which are compiled into the binary, as far as their `starts` mentions
/// `word` and they are not there yet.
void add_builtin_launchers(std::string_view word, std::vector<LauncherFile>& files);

}  // namespace rankshim::by_name
