#pragma once

#include <cstddef>

/// The heap of the released binary, which is linked without another (release/heap_malloc.cpp makes it malloc
/// and its kin). zig's takes sixteen system calls and eight pages before main; this one takes neither until
/// its 32 KiB of zeroed pages are used up, then one mmap each 128 KiB. For one thread, and not for signal
/// handlers: the program has one of the former and none of the latter.
namespace rankshim::heap {

/// `bytes`, aligned for everything (16); nullptr where the system gives no memory.
void* allocate(std::size_t bytes) noexcept;

/// The same at a multiple of `alignment`, a power of two.
void* allocate_aligned(std::size_t alignment, std::size_t bytes) noexcept;

/// How much of the block may be used: what was asked for, or a little more.
std::size_t usable(const void* block) noexcept;

/// Gives a block back; a null pointer is none. Small ones are kept for the next of their size, large ones go
/// back to the system at once.
void release(void* block) noexcept;

}  // namespace rankshim::heap
