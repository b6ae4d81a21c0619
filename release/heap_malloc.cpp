// malloc, new and what belongs to them in the released binary, by shim/heap.
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>

#include "heap/heap.h"

namespace heap = rankshim::heap;

namespace {

void* or_no_memory(void* block) {
  if (block == nullptr) errno = ENOMEM;
  return block;
}

}  // namespace

extern "C" {

void* malloc(std::size_t bytes) { return or_no_memory(heap::allocate(bytes)); }

void free(void* block) { heap::release(block); }

void* calloc(std::size_t count, std::size_t size) {
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(count, size, &bytes)) return or_no_memory(nullptr);
  void* block = malloc(bytes);
  return block == nullptr ? nullptr : std::memset(block, 0, bytes);
}

void* realloc(void* block, std::size_t bytes) {
  if (block == nullptr) return malloc(bytes);
  const std::size_t held = heap::usable(block);
  if (bytes <= held && bytes >= held / 2) return block;
  void* moved = malloc(bytes);
  if (moved == nullptr) return nullptr;
  std::memcpy(moved, block, bytes < held ? bytes : held);
  heap::release(block);
  return moved;
}

void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  return or_no_memory(heap::allocate_aligned(alignment, bytes));
}

void* memalign(std::size_t alignment, std::size_t bytes) { return aligned_alloc(alignment, bytes); }

int posix_memalign(void** block, std::size_t alignment, std::size_t bytes) {
  *block = heap::allocate_aligned(alignment, bytes);
  return *block == nullptr ? ENOMEM : 0;
}

std::size_t malloc_usable_size(void* block) { return block == nullptr ? 0 : heap::usable(block); }

}  // extern "C"

// The C++ library's own lie in a section at the very end of the program, which no order of functions moves:
// 64 KiB more of it would be in memory.
void* operator new(std::size_t bytes) {
  for (;;) {
    if (void* block = heap::allocate(bytes == 0 ? 1 : bytes); block != nullptr) return block;
    const std::new_handler refused = std::get_new_handler();
    if (refused == nullptr) std::abort();
    refused();
  }
}

void* operator new[](std::size_t bytes) { return operator new(bytes); }
void operator delete(void* block) noexcept { heap::release(block); }
void operator delete[](void* block) noexcept { heap::release(block); }
void operator delete(void* block, std::size_t /*bytes*/) noexcept { heap::release(block); }
void operator delete[](void* block, std::size_t /*bytes*/) noexcept { heap::release(block); }
