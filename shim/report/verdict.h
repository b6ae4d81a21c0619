#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fault.h"
#include "launchers/launcher.h"
#include "launchers/python_error.h"
#include "link/message.h"
#include "node/cgroup.h"
#include "node/oom_kills.h"
#include "outcome/alone.h"
#include "outcome/look.h"
#include "outcome/outcome.h"
#include "report/reason.h"
#include "settings/settings.h"
#include "supervise/exit_record.h"

namespace rankshim::report {

/// What is known of an end, besides the wait statuses.
struct Details {
  std::string host;                                    ///< this node's name
  std::map<unsigned, launchers::PythonError> workers;  ///< by local rank, for the last attempt
  launchers::PythonError agent;     ///< the launcher's, or its copy of the first failed worker's error
  bool agent_writes_error = false;  ///< the launcher would have written one if it had failed itself
  /// The worker that failed first, according to the last torchrun of the command that failed.
  std::optional<supervise::WorkerEnd> told_by_torchrun;
  node::MemoryUsage memory;      ///< at the end; oom_kills counts from the start
  std::string port_holder;       ///< if the port is the reason: "port 29500 is held by python3 (pid 17)"
  std::string shm;               ///< the free space in /dev/shm: "/dev/shm has 0 MiB of 64 MiB left"
  bool has_accelerators = true;  ///< if so, NCCL's watchdog may have aborted a worker
  std::map<pid_t, node::OomEvidence> oom;              ///< for each end, by process
  std::optional<outcome::LoneTraining> lone_training;  ///< according to the workers' Python
  std::map<unsigned, outcome::WorkerLook> looks;  ///< by local rank: what workers did when another failed
  std::vector<unsigned> suffered;  ///< the local ranks of those that had failed by then, earliest first
  bool is_one_of_several = false;  ///< the command is one of several ranks, each with a rankshim of its own
  std::vector<outcome::WorkerLook>
      hang_looks;  ///< the looks at all workers because of which --hang-timeout ended the job
  std::optional<outcome::Culprit> hang;  ///< on a lone node: why --hang-timeout ended its command
};

/// What failed first on this node.
struct RootCause {
  outcome::Culprit culprit;  ///< how and why, as reported to the other nodes
  enum class Who : std::uint8_t { worker, launcher, program };
  Who who = Who::program;
  std::optional<unsigned> local_rank;
  pid_t pid = 0;
  bool is_inner = false;                          ///< a worker of a torchrun that the command itself started
  const launchers::PythonError* error = nullptr;  ///< a pointer into the details; null if it left none
  std::string_view source;                        ///< of this information: "kernel", "error file", "torchrun"
  std::optional<std::chrono::steady_clock::time_point> when;
};

/// "worker", "launcher", "program".
std::string_view name(RootCause::Who who);

/// Makes a worker's end the root cause, with what the worker and the kernel left about it in the details.
/// `source` is where the end is known from.
RootCause cause_of(const supervise::WorkerEnd& worker, std::string_view source, const Details& details);

/// How the command itself ended, whatever its workers did.
struct CommandEnd {
  std::string name;  ///< "torchrun", "sh"; empty if rankshim started the workers itself
  int code = 0;      ///< the exit code, or 128 + the signal
  std::optional<int> signal;
  std::chrono::milliseconds ran{0};
  std::optional<int> stop;          ///< the signal by which it was stopped
  bool stopped_for_stacks = false;  ///< rankshim killed it by asking for the stacks of hanging processes
  bool killed_by_us = false;        ///< rankshim killed it because it had not stopped
  bool remains = false;             ///< not even SIGKILL ended it
  bool workers_succeeded = false;   ///< all of them exited 0, …
  bool workers_succeeded_before = false;  ///< … before the stop
};

/// How a run ended, as values; report/wording.h has the sentences.
struct Verdict {
  int code = 0;
  outcome::Cause cause = outcome::Cause::none;  ///< of this node's end
  ErrorCode error_code = ErrorCode::none;       ///< for the end of the last line
  std::optional<Reason> reason;       ///< why, if rankshim itself ended the run or could not start it
  std::optional<CommandEnd> command;  ///< nullopt if nothing was started
  std::optional<RootCause> root;      ///< what failed here; if `code` is 0, the command has hidden it
  /// Who is to blame, according to what all nodes, or all workers of a lone node, know.
  std::optional<outcome::Culprit> culprit;
  std::optional<link::Problem> unreached;  ///< why the lost hub, if it is the culprit, was not reached again
  std::vector<outcome::Culprit> others;    ///< who else failed, in a check
  bool of_several = false;                 ///< the job has other nodes
  bool is_linked = false;                  ///< this node knows what they know
  bool stopped_for_culprit = false;        ///< this node did nothing wrong: it was stopped because of another
  std::optional<outcome::LoneTraining> lone_training;  ///< if it trained alone, and that is not the reason
  std::vector<Note> notes;                             ///< what else a reader must know
  /// The signal by which this node was stopped from outside, whatever else ended it, and even if that was
  /// after the command's end; nullopt if it was not.
  std::optional<int> stopped_by;
  Faults faults;  ///< printed to stderr instead of the sentence

  /// Whether the run failed; one that was stopped did not.
  [[nodiscard]] bool failed() const { return code != 0 && cause != outcome::Cause::stop_requested; }
};

/// Decides how a run ended. The command's own end counts, after a stop too. But a launcher's exit code says
/// nothing about its workers, so with a launcher the result is the first of these that applies: the end of
/// the first worker of the last set that failed on its own before any stop and before the launcher's end; 0
/// if all workers had exited 0 before a stop; 128 + the stop's signal, however the workers then ended,
/// because a job that was stopped is not done; the launcher's own end. If a worker of a lone node only lost
/// another one, the one that hung or exited early is the culprit. If --strict stopped a node that trains
/// alone, that is the cause, with code 78. If a torchrun inside a command failed, its worker is the cause,
/// with the command's code; if that is 0 and so hides the failure, `strict` makes the worker's code count.
/// `numbers` are this node's in the job; nullopt if it is alone. `details` must outlive the verdict.
Verdict judge(const supervise::ExitRecord& record, const launchers::LaunchChoice& choice,
              const launchers::LaunchPlan& plan, const Details& details,
              const std::optional<supervise::NodeNumbers>& numbers = std::nullopt, bool strict = false);

/// Makes the verdict that of a node that did nothing wrong, and was stopped because of another one.
void set_stopped_for(Verdict& verdict, const link::Stop& stop);

/// Makes what ended the whole job the verdict, unless that is a failure of this node, `node_rank`, or this is
/// a check (`is_check`), which has its own result on each node. If another node only found out what happened
/// here, what it found replaces what this node knew.
void set_job_end(Verdict& verdict, const link::Stop& stop, unsigned node_rank, bool is_check);

/// Applies a signal that arrived while this node waited for the others to end: it stops the node if its part
/// of the job was done. `stop` is what ended the job, as far as this node knows. Returns whether the signal
/// now is how this node ended.
bool set_signal_while_waiting(Verdict& verdict, int signal, const std::optional<link::Stop>& stop);

/// The error code for what ended a job on several nodes, or for a hang.
ErrorCode error_code_of(const outcome::Culprit& culprit);

/// What ended this node's part of the job, for the other nodes and for the decision about a restart.
outcome::Culprit culprit_of(const Verdict& verdict);

/// The verdict's code, after --exit-map.
int exit_code_of(const Verdict& verdict, const settings::Settings& settings);

}  // namespace rankshim::report
