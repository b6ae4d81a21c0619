#pragma once

#include <cstddef>

/// The heap of the released binary, which is linked without another one (release/heap_malloc.cpp makes it
/// malloc and the related functions). zig's heap takes sixteen system calls and eight pages before main; this
/// one takes neither until its 32 KiB of zeroed pages are used up, then one mmap for each 128 KiB. It is for
/// one thread, and not for signal handlers: the program has a single thread and no handlers. With zig's heap
/// the binary is 3 kB larger, rankshim has 300 kB instead of 272 while it waits, and a start has 4 to 9 more
/// page faults.
namespace rankshim::heap {

/// Allocates `bytes`, aligned to 16; nullptr if the system gives no memory.
void* allocate(std::size_t bytes) noexcept;

/// Allocates at a multiple of `alignment`, a power of two.
void* allocate_aligned(std::size_t alignment, std::size_t bytes) noexcept;

/// How much of the block may be used: at least what was requested.
std::size_t usable(const void* block) noexcept;

/// Frees a block; a null pointer is ignored. Small blocks are kept for the next request of their size, large
/// ones go back to the system at once.
void release(void* block) noexcept;

}  // namespace rankshim::heap
