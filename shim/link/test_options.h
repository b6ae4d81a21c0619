#pragma once

#include <string>

#include "link/link.h"

namespace rankshim::link::test {

/// The options of a node of a job on loopback, for the tests and scripts/scale.cpp.
inline Options options_of(unsigned rank, unsigned nodes, std::uint16_t port, const std::string& host) {
  Options options;
  options.self = {.run = "job",
                  .rank = rank,
                  .nnodes = nodes,
                  .workers = 2,
                  .launcher = "torchrun",
                  .host = host + std::to_string(rank)};
  options.master.host = "127.0.0.1";
  options.master.port = port;
  return options;
}

}  // namespace rankshim::link::test
