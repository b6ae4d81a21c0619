#pragma once

#include <cstdint>
#include <string_view>

namespace rankshim::look {

/// The three forms in which CPython stores which line an instruction belongs to. In each, `table` is the
/// content of the code object's table, `first` the line where the function begins, and `instruction` a byte
/// offset in its instructions, below 0 if it has not begun. All return 0 if the instruction belongs to no
/// line. A table in a newer form, or something else altogether, gives a wrong number and no error.

/// 3.8 and 3.9: co_lnotab (cpython@3.9:Objects/lnotab_notes.txt).
unsigned line_by_lnotab(std::string_view table, std::int64_t first, std::int64_t instruction);

/// 3.10: co_linetable of PEP 626 (cpython@3.10:Objects/lnotab_notes.txt).
unsigned line_by_line_table(std::string_view table, std::int64_t first, std::int64_t instruction);

/// 3.11 and later: co_linetable of PEP 657 (cpython@3.11:Objects/locations.md).
unsigned line_by_location_table(std::string_view table, std::int64_t first, std::int64_t instruction);

}  // namespace rankshim::look
