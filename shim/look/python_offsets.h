#pragma once

#include <cstdint>

#include "look/python_symbols.h"

namespace rankshim::look {

/// An offset that this version's structures do not have.
constexpr std::uint32_t absent = UINT32_MAX;

/// The offsets, in bytes, of the fields of CPython's structures that lead to a stack. scripts/python-offsets
/// has the fields' names in each version.
struct PythonOffsets {
  std::uint32_t interpreters = absent;  ///< in _PyRuntime: the newest interpreter; the main one is the last
  std::uint32_t main_thread = absent;   ///< the thread_id of the main thread; up to 3.12

  std::uint32_t next_interpreter = absent;  ///< in an interpreter
  std::uint32_t threads = absent;           ///< the newest thread
  std::uint32_t gil_locked = absent;        ///< in _PyRuntime before 3.12
  std::uint32_t gil_holder = absent;        ///< the thread that holds it, or held it last

  std::uint32_t next_thread = absent;  ///< in a thread's state
  std::uint32_t previous_thread = absent;
  std::uint32_t interpreter_of_thread = absent;
  std::uint32_t thread_id = absent;         ///< pthread_self()
  std::uint32_t native_thread_id = absent;  ///< gettid(); since 3.11
  std::uint32_t frame = absent;             ///< the innermost frame; in 3.11 and 3.12 what leads to it
  std::uint32_t frame_in_cframe = absent;

  std::uint32_t previous_frame = absent;  ///< in a frame
  std::uint32_t code = absent;
  std::uint32_t instruction = absent;  ///< a pointer since 3.11, a number before
  std::uint32_t owner = absent;        ///< since 3.11

  std::uint32_t file = absent;  ///< in a code object
  std::uint32_t function = absent;
  std::uint32_t first_line = absent;
  std::uint32_t lines = absent;
  std::uint32_t instructions = absent;  ///< since 3.11

  std::uint32_t type = absent;   ///< in every object
  std::uint32_t size = absent;   ///< in bytes and code objects
  std::uint32_t bytes = absent;  ///< where the content of bytes begins
  std::uint32_t text_length = absent;
  std::uint32_t text_state = absent;
  std::uint32_t ascii_text = absent;  ///< where the characters of an ASCII text begin
  std::uint32_t other_text = absent;  ///< and of any other text
};

/// The offsets of a process's Python: from rankshim's table up to 3.12, and from its own _Py_DebugOffsets
/// since then. Throws Implausible with the reason if they are unknown: a version newer than the table, or a
/// free-threaded build.
PythonOffsets offsets_of(Memory& memory, const Python& python);

}  // namespace rankshim::look
