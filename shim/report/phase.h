#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string_view>

namespace rankshim::report {

/// What a run does at a time.
enum class PhaseName : std::uint8_t {
  resolve,
  pre_start,  ///< with a hook
  wait,       ///< for the master
  meet,       ///< the other nodes
  spare,      ///< waits for a rank
  launch,     ///< torchrun starts; until the first worker runs
  run,
  wind_down,
  restart,
  finish,     ///< waits for the other nodes' ends
  post_stop,  ///< with a hook
  held,       ///< the pod is kept after a failure
  ended,
};

/// The phase's name in reports, metrics, the status and the log (docs/report.md).
constexpr std::string_view name(PhaseName phase) {
  constexpr auto names =
      std::to_array<std::string_view>({"resolve", "pre-start", "wait", "meet", "spare", "launch", "run",
                                       "wind-down", "restart", "finish", "post-stop", "held", "ended"});
  return names.at(static_cast<std::size_t>(phase));
}

/// A phase of a run, which lasts until the next one begins.
struct Phase {
  PhaseName name;
  std::chrono::steady_clock::time_point begin;
};

}  // namespace rankshim::report
