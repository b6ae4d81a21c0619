#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <vector>

#include "outcome/look.h"

/// Reads the stacks of a running Python program's threads from its memory. The program gets no signal, is not
/// stopped and need not cooperate: it may be stopped already, or in a C call that holds the GIL.
namespace rankshim::look {

/// A thread of a Python program.
struct PythonThread {
  pid_t id = 0;  ///< gettid() in the program; 0 if unknown: before 3.11 only the main thread's is known
  std::vector<outcome::Frame> frames;  ///< innermost call first, at most `most_frames`
  bool holds_gil = false;  ///< throughout the look, in one instruction: a C call does not release it
};

/// A look at one process.
struct PythonStacks {
  std::vector<PythonThread> threads;  ///< main thread first, at most `most_threads`; empty if unreadable
  std::string unreadable;  ///< why there is nothing to see: "it is not CPython"; empty if there are threads
  bool runs_nothing = false;  ///< then: it can be read, but runs no Python code at the moment
};

/// Deeper stacks lose their outermost calls.
constexpr std::size_t most_frames = 100;
constexpr std::size_t most_threads = 256;

/// Reads the stack of the process's main thread only; `threads` has one entry. Takes 0.3 ms (rankshim_test
/// "[.cost]"), and what it reads is bounded, whatever is in the process's memory.
PythonStacks main_stack(pid_t pid);

/// Reads the stacks of all threads that run Python; the main thread may not be among them.
PythonStacks all_stacks(pid_t pid);

}  // namespace rankshim::look
