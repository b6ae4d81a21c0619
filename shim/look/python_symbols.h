#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "look/memory.h"

/// Finds CPython in a running program. Looks in the program's memory, as a debugger does, and not in files,
/// which could have been replaced, or be elsewhere in the process's mount namespace.
namespace rankshim::look {

/// The program headers of the process's executable: AT_PHDR and AT_PHNUM of getauxval(3).
struct ProgramHeaders {
  std::uint64_t address = 0;
  std::uint64_t count = 0;
};

/// Parses /proc/PID/auxv; the address is 0 if that fails.
ProgramHeaders parse_auxv(std::string_view auxv);

/// The CPython of a process.
struct Python {
  std::uint64_t runtime = 0;    ///< the address of _PyRuntime
  std::uint64_t code_type = 0;  ///< of PyCode_Type
  unsigned minor = 0;           ///< 11 for Python 3.11
};

/// Finds CPython in the executable or in its libpython. Throws Implausible with the reason if there is none:
/// not Python, or PyPy, or older than 3.8.
Python find_python(Memory& memory, const ProgramHeaders& program);

}  // namespace rankshim::look
