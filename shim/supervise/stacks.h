#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "supervise/tree.h"

namespace rankshim::supervise {

/// How much of the time that processes have to end is kept for their stacks: the last fifth, at most a
/// second. Python's fault handler writes them within milliseconds.
std::chrono::milliseconds time_for_stacks(std::chrono::milliseconds grace);

/// Asks each of these to show where it hangs, by SIGABRT: Python prints every thread's stack where
/// PYTHONFAULTHANDLER is set (faulthandler in Python's library), others just end. No core file is written.
/// Returns how many there are to ask.
std::size_t ask_for_stacks(const std::vector<Process>& processes);

/// For what not even SIGKILL ends: ": PID (NAME, WAIT CHANNEL), …" of those that live, "" of none. The wait
/// channel is the function of the kernel in which it waits (proc(5)), "0" or "?" where that is not told.
std::string where_they_wait(const std::vector<Process>& processes);

}  // namespace rankshim::supervise
