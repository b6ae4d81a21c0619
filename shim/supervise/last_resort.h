#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string_view>
#include <vector>

/// Supervision without memory, and after an error that nothing handles. No code of rankshim handles refused
/// memory or throws for it, and none throws or catches: this takes over instead, by system calls alone, and
/// does not return. Before the command exists, the process logs it and exits with 71. While the command runs,
/// this passes signals on and reaps children until it ends, and exits with its code, but writes no report.
/// After the command's end it exits with the command's code.
namespace rankshim::supervise::last_resort {

/// From now on, if operator new gets no memory, or a library throws an exception, this takes over.
void arm();

/// Takes over, because the system refuses what rankshim cannot do without. `what` is for the log: the call
/// and the reason. Asio comes here instead of throwing (boost::throw_exception).
[[noreturn]] void refused(std::string_view what);

/// To be called when the command runs as one process, or when workers run instead of it. The first worker
/// that fails ends the others (Launcher::workers_to_start). `groups`: signals go to their process groups.
/// `grace` is counted from a stop signal on; processes that are left after it are killed.
void command_runs(std::vector<pid_t> processes, bool groups, std::optional<std::chrono::milliseconds> grace);

/// To be called for a stop signal: processes that are left at that time are killed.
void kill_at(std::chrono::steady_clock::time_point when);

/// To be called when one of these processes was reaped; `code` is the exit code for how it ended.
void process_ended(pid_t process, int code);

/// To be called when the command has ended; `code` is the exit code for how it ended.
void command_ended(int code);

/// To be called for a signal that was taken from the kernel and is not delivered yet, or no longer has to be.
void owe(int signal);
void settle(int signal);

}  // namespace rankshim::supervise::last_resort
