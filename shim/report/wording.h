#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "report/verdict.h"
#include "supervise/exit_record.h"

/// Renders the sentences about ends: the last line on stderr, the termination log, the report's `verdict`,
/// and hooks.
namespace rankshim::report::wording {

/// The verdict as one line: "node 2 (mnist-worker-1) failed: rank 5 exited with code 1: ValueError: the loss
/// is nan", and "stopped: " before it on the other nodes.
std::string sentence(const Verdict& verdict);

/// The same, followed by the reference to docs/when-it-fails.md: "… the loss is nan [R37]".
std::string message(const Verdict& verdict);

/// Why it ended: the exception, and what the kernel and the machine know. Empty if unknown. Call this when
/// everything else about the cause is known.
std::string why(const RootCause& root, const Details& details);

/// Why rankshim itself ended a run, or could not start it: "SIGTERM while waiting for the other nodes;
/// nothing was started".
std::string in_words(const Reason& reason);

/// Why a job is not restarted, for the last lines of all nodes: "3 of 3 restarts are used (--job-restarts)",
/// "node 2 (e) was stopped (SIGTERM)".
std::string in_words(const outcome::NotRestarted& refusal);

/// "exited with code 3", "was killed by SIGKILL because it took longer than 10m", "cannot be started: …".
std::string hook_end(const supervise::ExitRecord& hook, std::chrono::milliseconds limit);

/// "no collective has completed for 5 min: ranks 1 and 2 wait in barrier (train.py:41) for rank 0 on node 0
/// (job-node-0), which is in validate (train.py:20) and works [R42]", for a job that still runs.
std::string notice(const outcome::Culprit& culprit);
/// "collectives continue after 7 min 12 s".
std::string resumed(std::chrono::milliseconds stalled);

/// "the memory limit of 512 MiB was reached".
std::string in_words(const KillRisk& risk);

/// The text for the termination log while the job runs, which a kubelet shows if rankshim is killed before it
/// can write more: "rankshim, at 2026-11-29T07:00:00Z: SIGTERM came, and the job was stopping; …".
std::string provisional(const KillRisk& risk, std::chrono::system_clock::time_point now);

}  // namespace rankshim::report::wording
