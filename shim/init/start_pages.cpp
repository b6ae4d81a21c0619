#include "init/start_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

// The linker defines both (end(3)); nothing between them is ever written to.
extern "C" const char __executable_start;
extern "C" const char etext;

namespace rankshim::supervise {

// scripts/start-order finds it by its name.
[[gnu::noinline]] void unmap_start_pages() {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(&__executable_start) & ~(page - 1);
  const auto end = reinterpret_cast<std::uintptr_t>(&etext) & ~(page - 1);
  madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace rankshim::supervise
