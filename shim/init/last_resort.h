#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>

/// What supervision comes down to when memory is refused. No code of ours handles that, and none throws it:
/// this takes over, by system calls alone, and does not come back. Before the command exists the process says
/// so and ends with 71. While the command runs, signals go on to it and children are reaped, until it ends:
/// its exit code is ours, as ever, but nothing more is told of it. After its end we end with its code.
namespace rankshim::supervise::last_resort {

/// From now on memory that operator new does not get ends in this.
void arm();

/// The command runs. `target` is what kill(2) gets: the command, or its process group's negative number.
/// `grace` is counted from a stop signal on; whoever is left after it is killed.
void command_runs(pid_t command, pid_t target, std::optional<std::chrono::milliseconds> grace);

/// A stop signal was passed on, or will be: whoever is left at that time is killed.
void kill_at(std::chrono::steady_clock::time_point when);

/// It was reaped; this is the exit code that says how it ended.
void command_ended(int code);

/// A signal was taken from the kernel and has yet to be delivered, or is no longer to be.
void owe(int signal);
void settle(int signal);

}  // namespace rankshim::supervise::last_resort
