#pragma once

#include <cstddef>

namespace rankshim::supervise {

/// The most stack that this program needs, in addition to its arguments and environment.
constexpr std::size_t least_stack = std::size_t{64} << 10U;

/// How many bytes the stack may still grow, according to its limit (`ulimit -s`). The kernel counts arguments
/// and environment too, and sends SEGV to a process that needs more. To be called in main.
std::size_t stack_left();

}  // namespace rankshim::supervise
