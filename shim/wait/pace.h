#pragma once

#include <chrono>

namespace rankshim::wait {

/// How fast we look, and how long we give the other side. One struct, so that tests can shorten all of it.
struct Pace {
  std::chrono::milliseconds shortest{100};   ///< sleep between looks at the beginning …
  std::chrono::milliseconds longest{2000};   ///< … and in the end; in between a 20th of what was waited
  std::chrono::milliseconds thorough{5000};  ///< between looks that ask for every name of the search list
  std::chrono::milliseconds answer{
      1000};  ///< for a name server, the first time; the second try gets twice as long
  std::chrono::milliseconds connect{
      3000};  ///< for a connection, so that dropped SYNs don't stall us for two minutes
  std::chrono::milliseconds settle{250};    ///< that a connection must stay open to count
  std::chrono::milliseconds report{30000};  ///< between lines while nothing changes
};

}  // namespace rankshim::wait
