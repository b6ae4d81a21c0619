#pragma once

#include <string>

#include "link/message.h"
#include "link/problem.h"

/// The sentences about the meeting of the nodes. Nothing else in link/ puts them together: they are made from
/// values where they are shown.
namespace rankshim::link {

/// "node 2 (e, 10.0.0.9) has nnodes 2, node 0 (a) has 3; set RANKSHIM_NNODES to the same on all nodes".
std::string in_words(const Problem& problem);

/// "waiting for 2 of 16 nodes: node 5, node 9"; empty if nobody is waited for.
std::string in_words(const Waiting& waiting);

/// Why the job does not start: "1 of 3 nodes did not join in time: node 2".
std::string in_words(const Refuse& refuse);

/// Why all nodes stop, without how this one does: "node 2 (e) failed: rank 5 exited with code 1".
std::string in_words(const Stop& stop);

/// How the meeting ended without a launch.
std::string in_words(const MeetingResult& result);

}  // namespace rankshim::link
