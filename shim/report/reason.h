#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/fact.h"
#include "base/fault.h"
#include "link/message.h"
#include "outcome/alone.h"
#include "outcome/not_restarted.h"
#include "outcome/outcome.h"
#include "supervise/exit_record.h"
#include "wait/wait.h"

/// What a verdict says besides codes and culprits, as values; report/wording.h has the sentences.
namespace rankshim::report {

/// Why rankshim itself ended a run, or could not start it.
namespace reason {

/// A fault of the settings or of the environment.
struct Faulty {
  Fault fault;
};

/// What the platform had yet to write did not come in time.
struct StillWrong {
  Fault fault;
};

/// The master was not reached in time.
struct NoMaster {
  wait::Unreachable master;
};

/// A program that is not there, in the words in which `rankshim explain` warns of it.
struct Missing {
  std::string what;
};

/// A signal arrived before the command was started.
struct Stopped {
  enum class Stage : std::uint8_t {
    pre_start,
    platform,     ///< the wait for what the platform had yet to write
    interpreter,  ///< the search for torch
    master,       ///< the wait for the master's name or port
    nodes,        ///< the wait for the other nodes
    spare,        ///< the wait for a node whose place it takes
    pause,        ///< the pause before the next attempt
  };
  int signal = 0;
  Stage stage = Stage::pre_start;
};

/// The pre-start hook failed.
struct HookFailed {
  supervise::ExitRecord hook;
  std::chrono::milliseconds limit{0};
};

/// The interpreter finds no torch.
struct NoTorch {
  std::string python;
};

/// Its torch has no torchrun, which this job needs.
struct OldTorch {
  std::string python;
};

/// The system refused a resource.
struct Refused {
  enum class Needs : std::uint8_t { supervising, link, command };
  Needs needs = Needs::supervising;
  std::string error;        ///< errno's text, after the call
  std::string required_by;  ///< what requires the link
};

/// The job has more nodes than can be linked.
struct TooManyNodes {
  Value nnodes;
  unsigned most = 0;
};

/// The nodes cannot be linked, which something requires.
struct NoLink {
  std::string required_by;
  link::Problem why;
};

/// The nodes did not meet.
struct NotMet {
  link::Refuse why;
  std::vector<std::string> own;  ///< this node's values, which the others may not share; empty if that is not
                                 ///< the reason
  std::optional<std::chrono::milliseconds> waited;
  std::string master;  ///< where it waited; empty if it did not, or if the hub may have moved
};

/// The job succeeded while this node waited as a spare.
struct SpareNotNeeded {};

/// The command could not be started, or the system does not report how it ended.
struct Unseen {
  supervise::ExitRecord record;
  std::string program;
};

/// The other nodes did not join. `unreached`: this one was connected to none of them.
struct NobodyJoined {
  std::optional<outcome::Unreached> unreached;
};

/// --strict stopped a node that trains alone.
struct TrainsAlone {
  outcome::LoneTraining training;
};

}  // namespace reason

using Reason =
    std::variant<reason::Faulty, reason::StillWrong, reason::NoMaster, reason::Missing, reason::Stopped,
                 reason::HookFailed, reason::NoTorch, reason::OldTorch, reason::Refused, reason::TooManyNodes,
                 reason::NoLink, reason::NotMet, reason::SpareNotNeeded, reason::Unseen, reason::NobodyJoined,
                 reason::TrainsAlone>;

/// What may get rankshim killed before it can report the end.
struct KillRisk {
  enum class Kind : std::uint8_t {
    limit_reached,  ///< a memory limit was reached
    kills_all,      ///< a process over the limit ends the whole container (memory.oom.group)
    stopping,       ///< this node was stopped, and the platform's grace may be short
  };
  Kind kind = Kind::stopping;
  std::string limit;  ///< "the memory limit of 512 MiB"
  int signal = 0;     ///< for stopping
};

/// What else a reader must know.
namespace note {

/// What needs no values.
enum class Remark : std::uint8_t {
  rendezvous_host_gone,      ///< the node that hosts the rendezvous is gone
  other_rank_to_blame,       ///< a rank that has a rankshim of its own
  launcher_stopped_workers,  ///< … when it failed itself
  strict_code,               ///< the command hid this failure, and --strict makes it the exit code
};

/// Processes that were left when the command had ended.
struct Leftovers {
  unsigned found = 0;
  unsigned killed = 0;
};

/// Processes that survived SIGKILL.
struct LeftBehind {
  std::vector<supervise::HangingProcess> processes;
};

/// Which attempt this was, and how the previous one ended.
struct LastAttempt {
  std::string progress;  ///< "restart 1 of 3"
  std::string before;    ///< the previous attempt's sentence
};

/// The signal that arrived while this node waited for the others to end.
struct SignalWhileWaiting {
  int signal = 0;
};

/// --exit-map changes the exit code.
struct ExitMapped {
  int code = 0;
};

}  // namespace note

using Note =
    std::variant<note::Remark, supervise::NotStopped, note::Leftovers, note::LeftBehind,
                 outcome::NotRestarted, note::LastAttempt, note::SignalWhileWaiting, note::ExitMapped>;

}  // namespace rankshim::report
