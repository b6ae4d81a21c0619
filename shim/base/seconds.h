#pragma once

#include <spdlog/fmt/fmt.h>

#include <chrono>
#include <string>

namespace rankshim::supervise {

/// For a person: "30 s", and "1500 ms" where it is no whole number of them.
inline std::string seconds(std::chrono::milliseconds time) {
  return time.count() % 1000 == 0 ? fmt::format("{} s", time.count() / 1000)
                                  : fmt::format("{} ms", time.count());
}

}  // namespace rankshim::supervise
