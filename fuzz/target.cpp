#include "target.h"

#include <cstdio>

namespace rankshim::fuzz {
namespace {

Target chosen = nullptr;

}  // namespace

bool offer(std::string_view name, Target target) {
  const char* wanted = std::getenv("FUZZ");
  const bool is_it = wanted != nullptr && name == wanted;
  if (is_it) chosen = target;
  return is_it;
}

}  // namespace rankshim::fuzz

/// Before main all signals were blocked, as in the program; libFuzzer's own bounds come by signals.
extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  rankshim::supervise::kernel::set_signal_mask(0, nullptr);
  if (rankshim::fuzz::chosen != nullptr) return 0;
  std::fputs("set FUZZ to the name of a file in fuzz/, without .cpp\n", stderr);
  std::exit(64);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return rankshim::fuzz::chosen(data, size);
}
