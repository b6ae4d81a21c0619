/// What /proc shows of processes, whose names and command lines are their own.

#include "supervise/tree.h"
#include "target.h"
#include "launchers/torchrun/lone_training.h"
#include "launchers/torchrun/rendezvous.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rankshim;
  const auto text = fuzz::text_of(data, size);
  supervise::parse_stat(text);
  torchrun::read_command_line(text);
  constexpr std::uint16_t port = 29500;
  torchrun::sockets_at(text, port);
  return 0;
}
