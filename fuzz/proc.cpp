/// What /proc shows of processes, whose names and command lines are their own.

#include "launchers/launcher_in_proc.h"
#include "node/process.h"
#include "target.h"

FUZZ_TARGET(proc) {
  using namespace rankshim;
  const auto text = fuzz::text_of(data, size);
  node::parse_stat(text);
  launchers::seen_by_words(fuzz::split(text, '\0', 64));
  constexpr std::uint16_t port = 29500;
  launchers::sockets_at(text, port);
  return 0;
}
