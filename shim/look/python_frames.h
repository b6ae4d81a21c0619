#pragma once

#include <sys/types.h>

#include "look/memory.h"
#include "look/python_stack.h"
#include "look/python_symbols.h"

namespace rankshim::look {

enum class Threads { main, all };

/// Reads the stacks in a memory that contains `python`; `main` is the main thread's gettid() in the process.
/// A thread whose stack changes while it is read is read again, a few times; if it keeps changing, the thread
/// is running, and the last consistent stack is used. Throws Implausible with the reason if there is none.
std::vector<PythonThread> read_stacks(Memory& memory, const Python& python, pid_t main, Threads threads);

}  // namespace rankshim::look
