#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <vector>

#include "outcome/look.h"

/// Where the threads of a running Python program are: their stacks, read from its memory. The program gets no
/// signal, is not stopped and needs no help: it may be stopped already, or in a C call that holds the GIL.
namespace rankshim::look {

/// A thread of a Python program.
struct PythonThread {
  pid_t id =
      0;  ///< gettid() in the program; 0 if it is unknown: before Python 3.11 only the main thread's is
  std::vector<outcome::Frame> frames;  ///< the innermost call first, at most `most_frames`
  bool holds_gil = false;  ///< throughout the look, in one instruction: a C call does not release it
};

/// A look at one process.
struct PythonStacks {
  std::vector<PythonThread> threads;  ///< the main thread first, at most `most_threads`; empty if unreadable
  std::string unreadable;  ///< why there is nothing to see: "it is not CPython"; empty if there are threads
  bool runs_nothing = false;  ///< then: it can be read, and runs no Python code just now
};

/// Deeper stacks lose their outermost calls.
constexpr std::size_t most_frames = 100;
constexpr std::size_t most_threads = 256;

/// The stack of the process's main thread alone: `threads` has one. It takes less than a millisecond, bounded
/// in what it reads, whatever the process has in its memory.
PythonStacks main_stack(pid_t pid);

/// The stacks of all threads that run Python; the main thread may be none of them.
PythonStacks all_stacks(pid_t pid);

}  // namespace rankshim::look
