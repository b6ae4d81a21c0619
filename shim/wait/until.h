#pragma once

#include <cstdint>

namespace rankshim::wait {

/// What must be true of the master before the launch goes on.
enum class Until : std::uint8_t {
  none,
  name,  ///< its name resolves
  port,  ///< its port is open
};

}  // namespace rankshim::wait
