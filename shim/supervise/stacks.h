#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "supervise/launcher.h"
#include "supervise/tree.h"

namespace rankshim::supervise {

/// How long a process may write its stacks before it is killed: a fifth of its grace, at most a second.
/// Python's fault handler needs milliseconds.
std::chrono::milliseconds time_for_stacks(std::chrono::milliseconds grace);

/// Whether SIGABRT makes this process show its stacks, because it has a handler for it: Python has one if
/// PYTHONFAULTHANDLER is set (faulthandler in Python's library). It ends the process too.
bool shows_stacks(const Process& process);

/// Makes each of these show its stacks. No core file is written.
void ask_for_stacks(const std::vector<Process>& processes);

/// The processes that have not stopped, for messages: "worker 1 (rank 9, pid 17, state S, in futex_do_wait),
/// …" for the workers that still run, else "17 (python3, state S, in futex_do_wait), …" for all processes; ""
/// for none. The state is that of proc(5): R running, S sleeping, D in the kernel, T stopped.
std::string describe_hanging(const std::vector<Process>& processes, const std::vector<WorkerState>& workers);

/// The processes that not even SIGKILL ends: "PID (NAME, WAIT CHANNEL), …", or "" if there are none. The wait
/// channel is the kernel function in which the process waits (proc(5)), "0" or "?" if it is unknown.
std::string where_they_wait(const std::vector<Process>& processes);

}  // namespace rankshim::supervise
