/// What /proc shows of processes, whose names and command lines are their own.

#include "init/tree.h"
#include "target.h"
#include "torchrun/lone_training.h"
#include "torchrun/rendezvous.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rankshim;
  const auto text = fuzz::text_of(data, size);
  supervise::parse_stat(text);
  torchrun::read_command_line(text);
  constexpr std::uint16_t port = 29500;
  torchrun::sockets_at(text, port);
  return 0;
}
