#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "init/delivery.h"
#include "init/observer.h"
#include "init/signals.h"
#include "init/spawn.h"
#include "torchrun/lone_training.h"
#include "torchrun/meeting.h"
#include "torchrun/worker_watch.h"

namespace rankshim::supervise {

struct Policy {
  SignalScope scope = SignalScope::group;
  /// After a stop signal was passed on: how long until everything left is killed. Nothing: as long as the
  /// platform allows.
  std::optional<std::chrono::milliseconds> grace;
  /// After the command's own end: how long what it left has between TERM and KILL.
  std::chrono::milliseconds leftover_grace{5000};
  /// The command is torchrun's agent. Until it has its first worker nothing can be lost, and a stop signal
  /// that it does not follow at once is followed by KILL within two seconds; when all its workers have ended
  /// it has its own time, or the grace. And only the first stop signal is passed
  /// to it: torchrun takes a second one as the start of another 30 s. A second INT kills everything.
  bool agent = false;
  /// The agent's --log_dir, which exists, and how many workers it starts here: by these its workers are
  /// followed. Empty: they are not.
  std::string log_folder;
  unsigned workers = 0;
  /// The agent waits for other nodes before it starts its first worker. Nothing: it waits for nobody.
  std::optional<MeetingPlan> meeting;
  /// By these a few looks, soon after the start and never again, find a node that trains alone, which is a
  /// warning; `strict`: the end of the command, as by a TERM.
  JobSize job;
  bool strict = false;
  /// How long the command may run before everything is killed; nothing: for ever. For hooks.
  std::optional<std::chrono::milliseconds> limit;
  /// Told what happens; may be null.
  Observer* observer = nullptr;
  /// Of an agent: these go to its workers instead (delivery.h).
  SignalSet worker_signals = 0;
  /// What is passed on in the place of what arrives. A signal stops if what arrived or what is passed on asks
  /// to stop; one that is not passed on does nothing at all.
  SignalMap rewrite;
  /// What we send ourselves to what the command left behind.
  int term_signal = SIGTERM;
  /// Between a TERM and its passing on, part of the grace; any further stop signal ends it.
  std::chrono::milliseconds pre_stop_delay{0};
  /// What did not stop shows its stacks before it is killed (stacks.h).
  bool stacks = false;
  bool subreaper = true;      ///< where we are not PID 1
  bool warn_on_reap = false;  ///< a line for each orphan that was reaped
  /// The command gets a session of its own, with stdin as its controlling terminal.
  bool ctty = false;
  int child_death_signal = 0;  ///< what the command gets when we end; 0: nothing
};

/// How the command ended.
struct Ending {
  enum class Kind : std::uint8_t {
    exited,       ///< `number` is its exit code
    signalled,    ///< `number` is the signal that ended it
    not_started,  ///< `number` is the errno; `failed_call` says of what ("pipe", "fork", "execve")
  };
  Kind kind = Kind::exited;
  int number = 0;
  std::string failed_call;
  std::string
      failed_path;  ///< of "execve": the file that was found and refused, or the name that was not found
  bool failed_interpreter = false;  ///< that file is there, but not what it names to run it
  std::optional<int> stop_signal;  ///< the first that asked to stop while the command ran, as it came (before
                                   ///< Policy::rewrite)
  /// The first signal that came after its end and would have ended us; a stop signal that was not passed on
  /// before its end; of a hook (Policy::limit), also one that came while it ran.
  std::optional<int> late_signal;
  std::string trains_alone;       ///< as lone_training() says it; empty where nothing looked like that
  bool ended_for_it = false;      ///< by us (Policy::strict)
  bool killed_by_us = false;      ///< the command itself ended by a KILL of ours
  unsigned leftovers = 0;         ///< processes that were still there when the command had ended
  unsigned leftovers_killed = 0;  ///< of these, how many had to be killed
  /// Who had not stopped when their time was over, before stacks and KILL: "worker 0 (rank 8, pid 17, state
  /// S, in futex_do_wait) did not stop in 1.6 s".
  std::string did_not_stop;
  bool never_met = false;   ///< it was killed at MeetingPlan's limit
  std::string left_behind;  ///< what not even KILL ended, for a person: "PID (NAME, WAIT CHANNEL), …"
  pid_t pid = 0;            ///< the command's; 0 where it was not started
  std::chrono::milliseconds ran{0};
  std::chrono::steady_clock::time_point started_at;                 ///< just before the command's start
  std::optional<std::chrono::steady_clock::time_point> ended_at;    ///< when the command had ended
  std::optional<std::chrono::steady_clock::time_point> stopped_at;  ///< when stop_signal was passed on
  std::vector<WorkerEnd> workers;  ///< the agent's, of its last set, in the order of their ends
  unsigned workers_seen = 0;       ///< how many that set had
  std::optional<Place> place;      ///< of this node among that set's
  std::optional<std::chrono::steady_clock::time_point> first_worker_at;
  std::string attempt_folder;  ///< see WorkerWatch
  unsigned attempts = 0;       ///< 1 + the agent's restarts; 0 where no worker was seen
};

/// Starts the command, passes signals on, reaps whatever ends, and winds down until nothing that the command
/// started is left. Runs `io` until then. Works as PID 1 and, as child subreaper, not as PID 1; what kernel
/// or seccomp lacks (pidfd, subreaper, /proc) is done without, with a warning. Nothing after the start ends
/// it early. Children that we had before (of a shell that became us) are reaped, but neither signalled nor
/// waited for.
///
/// A stop signal that we inherited as ignored (nohup) is passed on and stops nothing; to an agent, which
/// would stop all the same, it is not passed on. Once the command has ended, a TERM or HUP can only
/// shorten what is left, to Policy::grace, for everything has got its TERM by then; INT or QUIT, from a
/// person who does not want to wait, kills what is left. On a terminal that the command had, the end by INT
/// or QUIT is a stop.
Ending supervise(boost::asio::io_context& io, SignalQueue& signals, const Command& command,
                 const Policy& policy);

}  // namespace rankshim::supervise
