#include "supervise/stack.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <limits>

namespace rankshim::supervise {

std::size_t stack_left() {
  constexpr std::size_t enough = std::numeric_limits<std::size_t>::max();
  rlimit limit{};
  if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return enough;
  // The environment's last text is at the start of the stack, which is its highest address.
  const char* last = nullptr;
  for (char* const* entry = environ; entry != nullptr && *entry != nullptr; ++entry) last = *entry;
  const auto here = reinterpret_cast<std::uintptr_t>(&limit);
  const auto begin = last == nullptr ? here : reinterpret_cast<std::uintptr_t>(last + std::strlen(last));
  const std::size_t used = begin > here ? begin - here : 0;
  return limit.rlim_cur > used ? limit.rlim_cur - used : 0;
}

}  // namespace rankshim::supervise
