#include "supervise/start_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

// The linker defines both (end(3)); nothing between them is ever written to.
extern "C" const char __executable_start;  // NOLINT(bugprone-reserved-identifier)
extern "C" const char etext;

namespace rankshim::supervise {

// scripts/start-order finds it by its name.
[[gnu::noinline]] void unmap_start_pages() {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto start = reinterpret_cast<std::uintptr_t>(&__executable_start);
  const auto end = reinterpret_cast<std::uintptr_t>(&etext);
  char* const first_page = const_cast<char*>(&__executable_start) - start % page;
  madvise(first_page, end - end % page - (start - start % page), MADV_DONTNEED);
}

}  // namespace rankshim::supervise
