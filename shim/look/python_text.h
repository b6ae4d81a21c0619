#pragma once

#include <cstdint>
#include <string>

#include "look/memory.h"
#include "look/python_offsets.h"

namespace rankshim::look {

/// The content of a Python str as UTF-8; bytes of a file's name that were no characters (PEP 383) as
/// as_utf8() shows them. Throws Implausible if there is no str at the address, or one of more than 4,096
/// characters. The forms are described in cpython:Include/cpython/unicodeobject.h.
std::string read_text(Memory& memory, const PythonOffsets& offsets, std::uint64_t address);

}  // namespace rankshim::look
