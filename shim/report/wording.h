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

/// "train.py was not found; …", for a command that was not started, or whose end the system does not report.
std::string unseen_end(const supervise::ExitRecord& record, const std::string& program);

/// "exited with code 3", "was killed by SIGKILL because it took longer than 10m", "cannot be started: …".
std::string hook_end(const supervise::ExitRecord& hook, std::chrono::milliseconds limit);

/// "2 of 3 leftover processes had to be killed"; empty if there were none.
std::string leftovers(const supervise::ExitRecord& record);

/// "no collective has completed for 5 min: ranks 1 and 2 wait in barrier (train.py:41) for rank 0 on node 0
/// (job-node-0), which is in validate (train.py:20) and works [R42]", for a job that still runs.
std::string notice(const outcome::Culprit& culprit);
/// "collectives continue after 7 min 12 s".
std::string resumed(std::chrono::milliseconds stalled);

/// Adds why the job is not restarted.
void add_not_restarted(Verdict& verdict, std::string_view why);
/// Adds which attempt this was, and how the previous one ended.
void add_last_attempt(Verdict& verdict, std::string_view progress, std::string_view last);
/// Adds the signal that arrived while this node waited for the others to end.
void add_signal_while_waiting(Verdict& verdict, int signal);
/// Adds the exit code from --exit-map.
void add_exit_map(Verdict& verdict, int code);
/// Adds that the command's exit code hid this failure, which --strict does not allow.
void add_strict(Verdict& verdict);

}  // namespace rankshim::report::wording
