#pragma once

#include <cstdint>
#include <string>

#include "look/memory.h"
#include "look/python_offsets.h"

namespace rankshim::look {

/// Reads a Python str as UTF-8. Bytes of a file name that were not characters (PEP 383) are shown as by
/// as_utf8(). Throws Implausible if there is no str at the address, or it has more than 4,096 characters. The
/// forms are described in cpython:Include/cpython/unicodeobject.h.
std::string read_text(Memory& memory, const PythonOffsets& offsets, std::uint64_t address);

}  // namespace rankshim::look
