/// The answer of a foreign process that listens where an instance would.

#include "run/status.h"

#include <algorithm>

#include "base/json.h"
#include "target.h"

FUZZ_TARGET(status) {
  using namespace rankshim;
  const std::string shown = json::ascii_object(fuzz::text_of(data, size));
  fuzz::check(std::all_of(shown.begin(), shown.end(), [](char c) { return c >= ' ' && c <= '~'; }));
  run::status::is_well(shown);
  return 0;
}
