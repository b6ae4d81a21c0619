#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "node/environment.h"

/// The asking side of `rankshim status` (status.h has the other one, status.cpp has both).
namespace rankshim::status {

/// The folders where the socket may be: `run_dir` and nothing else; where that is empty, /run, /dev/shm and
/// $TMPDIR, in this order.
std::vector<std::string> socket_folders(std::string_view run_dir, const Environment& environment);

/// The text of the first instance that answers in these folders, one JSON object in ASCII;
/// empty where none does within half a second, for an instance opens its socket a moment after its start. One
/// that answers has five seconds, with at most 64 KiB. An instance of another PID namespace is none, nor one
/// of a user who is neither root, nor we, nor who runs our PID 1.
std::string ask(const std::vector<std::string>& folders);

/// Whether that answer is one of an instance that has not failed, and is in `phase` where that is not empty.
bool is_well(std::string_view answer, std::string_view phase);

}  // namespace rankshim::status
