#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "outcome/alone.h"
#include "outcome/outcome.h"

/// Renders causes, culprits and hangs. The sentences about ends are in report/wording.h. These parts of them
/// lie here because the log lines of rooms below report/ name the same things while the job still runs: which
/// node has failed, for whom all wait, what a worker is doing.
namespace rankshim::outcome {

/// "7", "2-15".
std::string in_words(const RankRange& range);

/// "rank 1", "ranks 0 and 2-15", "ranks 0, 2, 4, 6, 8, 10, 12, 14 and more".
std::string in_words(const std::vector<RankRange>& ranges);

/// "node 3 (e, 10.0.0.9)"; empty parts are left out.
std::string node_name(unsigned rank, std::string_view host, std::string_view address = {});

/// "exited with code 3", "was killed by SIGKILL".
std::string end_in_words(int code, const std::optional<int>& signal);

/// "in load_batch (train.py:16), which called __next__, above python3 (pid 81): S, hrtimer_nanosleep".
std::string in_words(const Place& place);

/// A hang in a job that still runs, with the node if its host is known: "ranks 1 and 2 wait in barrier
/// (train.py:41) for rank 0 on node 0 (job-node-0), which is in validate (train.py:20) and works".
std::string present_hang_in_words(const Culprit& culprit);

/// What happened, without the node: "rank 17 was killed by SIGKILL: out of memory", "rank 1 is still running;
/// ranks 0 and 2 timed out waiting for it".
std::string what_happened(const Culprit& culprit);

/// The same with the node: "node 3 (e) failed: rank 17 was killed by SIGKILL: out of memory".
std::string in_words(const Culprit& culprit);

/// "this node trains alone: worker 12 (torchrun) has WORLD_SIZE=8, but the job has 16".
std::string in_words(const LoneTraining& training);

/// The same once it has ended: "trained alone (world 8 of 16)".
std::string in_the_past(const LoneTraining& training);

/// "torchrun could not reach job-master-0:29500 within 10 s: port closed (connection refused)".
std::string in_words(const Unreached& unreached);

}  // namespace rankshim::outcome
