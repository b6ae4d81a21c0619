#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "node/environment.h"

/// The asking side of `rankshim status`; the answering side is status.h, and status.cpp has both.
namespace rankshim::status {

/// The folders where the socket may be: only `run_dir`, or if that is empty, /run, /dev/shm and $TMPDIR, in
/// this order.
std::vector<std::string> socket_folders(std::string_view run_dir, const Environment& environment);

/// The answer of the first instance that answers in these folders, one JSON object in ASCII. On a machine
/// without a PID namespace of its own, where several jobs run, and unless the user has named the folder, that
/// is the nearest ancestor's, or else one of this process's session or cgroup. Empty if none
/// does within half a second, because an instance opens its socket a moment after its start. An instance that
/// answers has five seconds and 64 KiB. An instance of another PID namespace does not count, nor one of a
/// user other than root, this process's user and the user of PID 1.
std::string ask(const std::vector<std::string>& folders);

/// Whether that answer is one of an instance that has not failed.
bool is_well(std::string_view answer);

}  // namespace rankshim::status
