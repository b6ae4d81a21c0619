/// What --env-file is given: a Pod, or what env printed.

#include "pod/env_file.h"

#include "target.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rankshim;
  const auto read = read_env_file("x", fuzz::text_of(data, size));
  if (const auto* faults = std::get_if<Faults>(&read)) fuzz::must(!faults->empty());
  return 0;
}
