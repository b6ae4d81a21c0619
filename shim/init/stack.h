#pragma once

#include <cstddef>

namespace rankshim::supervise {

/// What this program needs of a stack at the most, above what its arguments and environment take of it.
constexpr std::size_t least_stack = std::size_t{64} << 10U;

/// How many bytes the stack may still grow by, as its limit says (`ulimit -s`): the kernel counts arguments
/// and environment too, and ends by SEGV who needs more. Call it in main.
std::size_t stack_left();

}  // namespace rankshim::supervise
